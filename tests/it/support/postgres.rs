//! A `PostgreSQL` cluster for this test process: in a temporary directory, on a unix socket, gone with the process.
//!
//! Started by the first test that asks for a database; every test gets a fresh database of its own.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{ConnectOptions, Connection, Executor};

/// Makes the cluster, says where it is, and waits for the end of its standard input: the test process holds the other end
/// of that pipe, so however it ends, the server is stopped and the directory removed.
const SCRIPT: &str = r#"
for bin in /usr/lib/postgresql/*/bin; do PATH="$bin:$PATH"; done
command -v initdb >/dev/null && command -v postgres >/dev/null || exit 3
dir=$(mktemp -d /tmp/skpg.XXXXXX) && cd "$dir" || exit 4
trap 'cd /; rm -rf "$dir"' EXIT
initdb -D "$dir/data" -U seckill --auth=trust --encoding=UTF8 --locale=C --no-sync >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 5; }
postgres -D "$dir/data" -k "$dir" -c listen_addresses= -c max_connections=300 >>"$dir/log" 2>&1 &
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

struct Cluster {
    socket_dir: String,
    /// Its standard input is the cluster's life line.
    _keeper: Child,
}

fn start() -> Cluster {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "setpriv" } else { "sh" });
    if root {
        // The server refuses to run as root.
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "sh"]);
    }
    let mut keeper = command
        .args(["-c", SCRIPT])
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
    let cluster = CLUSTER.get_or_init(start);
    let address = |name: &str| format!("postgres://seckill@localhost/{name}?host={}", cluster.socket_dir);
    let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let options: sqlx::postgres::PgConnectOptions = address("postgres").parse().expect("well formed");
    let mut connection = options.disable_statement_logging().connect().await.expect("the cluster answers");
    connection.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"))).await.expect("a new name");
    connection.close().await.expect("it answers");
    address(&name)
}
