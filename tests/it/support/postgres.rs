//! A `PostgreSQL` cluster for this test process: in a temporary directory, on a unix socket, gone with the process.
//!
//! Started by the first test that asks for a database; every test gets a fresh database of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use seckill::shutdown::Shutdown;
use sqlx::{ConnectOptions, Connection, Executor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// Makes the cluster, says where it is, and waits for the end of its standard input: the test process holds the other end
/// of that pipe, so however it ends, the server is stopped and the directory removed.
const SCRIPT: &str = r#"
for bin in /usr/lib/postgresql/*/bin; do PATH="$bin:$PATH"; done
command -v initdb >/dev/null && command -v postgres >/dev/null || exit 3
dir=$(mktemp -d /tmp/skpg.XXXXXX) && cd "$dir" || exit 4
trap 'cd /; rm -rf "$dir"' EXIT
initdb -D "$dir/data" -U seckill --auth=trust --encoding=UTF8 --locale=C --no-sync >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 5; }
where="-c listen_addresses="
if [ -n "$1" ]; then
    cp "$1/server.key" "$1/server.pem" "$dir" && chmod 600 "$dir/server.key" || exit 7
    where="-c listen_addresses=127.0.0.1 -c port=$2 -c ssl=on -c ssl_cert_file=$dir/server.pem -c ssl_key_file=$dir/server.key"
fi
postgres -D "$dir/data" -k "$dir" $where -c max_connections=300 >>"$dir/log" 2>&1 &
server=$!
tries=0
until grep -q "database system is ready to accept connections" "$dir/log"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then cat "$dir/log" >&2; exit 6; fi
    sleep 0.1
done
echo "$dir"
cat >/dev/null
kill -QUIT "$server"
wait "$server"
"#;

/// A cluster; it ends with the pipe to its keeper.
pub struct Cluster {
    socket_dir: String,
    /// Its standard input is the cluster's life line.
    _keeper: Child,
}

/// A cluster of its own on 127.0.0.1 with `server.pem` and `server.key` of this folder, which all may read.
pub fn cluster_with_tls(folder: &Path, port: u16) -> Cluster {
    start(&[folder.to_str().expect("a plain path"), &port.to_string()])
}

fn start(options: &[&str]) -> Cluster {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "setpriv" } else { "sh" });
    if root {
        // The server refuses to run as root.
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "sh"]);
    }
    let mut keeper = command
        .args(["-c", SCRIPT, "keeper"])
        .args(options)
        .process_group(0) // Ctrl-C ends the tests; the keeper then cleans up by itself
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell, and as root setpriv (util-linux), are there");
    let mut line = String::new();
    BufReader::new(keeper.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    let socket_dir = line.trim_end().to_owned();
    if socket_dir.is_empty() {
        let mut why = String::new();
        let _ = keeper.stderr.take().expect("piped").read_to_string(&mut why);
        let code = keeper.wait().expect("it ended").code();
        assert_ne!(code, Some(3), "These tests need PostgreSQL (initdb and postgres): apt-get install postgresql");
        panic!("PostgreSQL for the tests did not start ({code:?}; as root it runs as the user postgres): {why}");
    }
    Cluster { socket_dir, _keeper: keeper }
}

/// The address of a fresh, empty database.
///
/// # Panics
/// With one sentence that says what to install when there is no `PostgreSQL`.
pub async fn fresh_database() -> String {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let cluster = CLUSTER.get_or_init(|| start(&[]));
    let address = |name: &str| format!("postgres://seckill@localhost/{name}?host={}", cluster.socket_dir);
    let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let options: sqlx::postgres::PgConnectOptions = address("postgres").parse().expect("well formed");
    let mut connection = options.disable_statement_logging().connect().await.expect("the cluster answers");
    connection.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"))).await.expect("a new name");
    connection.close().await.expect("it answers");
    address(&name)
}

/// The address of the same database over a way on which every answer takes as long as the number says, in milliseconds: none
/// at first. It ends with `tasks`.
pub async fn slowed(url: &str, tasks: &Shutdown) -> (String, Arc<AtomicU64>) {
    let (base, dir) = url.split_once("?host=").expect("an address of this file");
    let target = format!("{dir}/.s.PGSQL.5432");
    let own = tempfile::Builder::new().prefix("sk-slow-").tempdir_in("/tmp").expect("a folder");
    let listener = UnixListener::bind(own.path().join(".s.PGSQL.5432")).expect("a socket");
    let address = format!("{base}?host={}", own.path().display());
    let delay = Arc::new(AtomicU64::new(0));
    let (inner, told) = (tasks.clone(), delay.clone());
    tasks.spawn(async move {
        let _kept = own;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = inner.begun() => return,
            };
            let (Ok((client, _)), Ok(server)) = (accepted, UnixStream::connect(&target).await) else { continue };
            let delay = told.clone();
            inner.spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let asked = async {
                    let _gone = tokio::io::copy(&mut from_client, &mut to_server).await;
                };
                let answered = async {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
                        let read_at = tokio::time::Instant::now();
                        loop {
                            // Looked at again and again: what is held back is let go as soon as the number says so.
                            let at = read_at + Duration::from_millis(delay.load(Ordering::SeqCst));
                            let soon = tokio::time::Instant::now() + Duration::from_millis(200);
                            tokio::time::sleep_until(at.min(soon)).await;
                            if at <= soon {
                                break;
                            }
                        }
                        if to_client.write_all(&buffer[..n]).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = asked => {}
                    () = answered => {}
                }
            });
        }
    });
    (address, delay)
}
