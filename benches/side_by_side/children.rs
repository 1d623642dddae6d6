//! Other people's servers as children of this process: Redis and `PostgreSQL`, each in a temporary folder of its own.
//!
//! They end by their own ids with the value that holds them; nothing is left behind.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// A folder whose path is short enough for a unix socket.
pub fn folder(what: &str) -> anyhow::Result<TempDir> {
    Ok(tempfile::Builder::new().prefix(&format!("skb-{what}-")).tempdir_in("/tmp")?)
}

/// A Redis with an append-only file that is written to disk before anything is answered.
pub struct RedisServer {
    _child: Child,
    dir: TempDir,
}

impl RedisServer {
    /// Starts an empty one and waits until it answers.
    pub async fn start() -> anyhow::Result<Self> {
        let dir = folder("redis")?;
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "redis.sock", "--dir", ".", "--save", "", "--daemonize", "no"])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("redis-server is needed: apt-get install redis-server")?;
        let server = Self { _child: child, dir };
        let give_up = Instant::now() + Duration::from_secs(10);
        while server.connect().await.is_err() {
            ensure!(Instant::now() < give_up, "Redis does not start");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(server)
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("unix://{}/redis.sock", self.dir.path().display())
    }

    /// A new connection.
    pub async fn connect(&self) -> anyhow::Result<redis::aio::MultiplexedConnection> {
        connect(&self.url()).await
    }

    /// Microseconds of CPU that its threads have used.
    pub async fn cpu_micros(&self) -> anyhow::Result<f64> {
        let mut connection = self.connect().await?;
        let text: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
        let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<f64>().ok());
        match (of("used_cpu_user:"), of("used_cpu_sys:")) {
            (Some(user), Some(sys)) => Ok((user + sys) * 1e6),
            _ => bail!("INFO cpu has no used_cpu_user and used_cpu_sys"),
        }
    }
}

/// A connection that answers, with a limit that is long enough for a queue of a whole run.
pub async fn connect(url: &str) -> anyhow::Result<redis::aio::MultiplexedConnection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?;
    let _: String = redis::cmd("PING").query_async(&mut connection).await?;
    Ok(connection)
}

/// Makes a cluster, says where it is, and removes it when its standard input ends: that is when this process is gone.
const KEEPER: &str = r#"
for bin in /usr/lib/postgresql/*/bin; do PATH="$bin:$PATH"; done
dir=$(mktemp -d /tmp/skb-pg.XXXXXX) && cd "$dir" || exit 4
trap 'cd /; rm -rf "$dir"' EXIT
initdb -D "$dir/data" -U seckill --auth=trust --encoding=UTF8 --locale=C >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 5; }
postgres -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=on -c synchronous_commit=on >>"$dir/log" 2>&1 &
server=$!
tries=0
until grep -q "database system is ready to accept connections" "$dir/log"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then cat "$dir/log" >&2; exit 6; fi
    sleep 0.1
done
echo "$dir"
cat >/dev/null
kill -INT "$server"
wait "$server"
"#;

/// A `PostgreSQL` with its own settings as they are after installing it.
pub struct Postgres {
    keeper: Child,
    dir: String,
}

impl Postgres {
    /// Makes and starts one.
    pub async fn start() -> anyhow::Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new(if root { "setpriv" } else { "sh" });
        if root {
            // The server refuses to run as root.
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "sh"]);
        }
        // Not killed: it has to clean up, and does so when its input ends. A group of its own keeps Ctrl-C from it.
        let mut keeper =
            command.args(["-c", KEEPER, "keeper"]).process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let out = keeper.stdout.take().context("no pipe")?;
        let line = timeout(Duration::from_mins(1), BufReader::new(out).lines().next_line()).await??;
        let dir = line.context("PostgreSQL (initdb and postgres) is needed: apt-get install postgresql")?;
        Ok(Self { keeper, dir })
    }

    /// Makes a new database and answers its address.
    pub async fn database(&self, name: &str) -> anyhow::Result<String> {
        use sqlx::{Connection, Executor};
        let address = |name: &str| format!("postgres://seckill@localhost/{name}?host={}", self.dir);
        let mut connection = sqlx::PgConnection::connect(&address("postgres")).await?;
        connection.execute(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE template0"))).await?;
        connection.close().await?;
        Ok(address(name))
    }

    /// Ends it and waits until its folder is gone.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.keeper.stdin.take());
        timeout(Duration::from_secs(30), self.keeper.wait()).await.context("PostgreSQL does not end")??;
        Ok(())
    }
}

/// Waits until a child says where it listens.
pub async fn listening(child: &mut Child) -> anyhow::Result<String> {
    let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(url) = line.strip_prefix("listening on ") {
                return Ok(url.to_owned());
            }
        }
        bail!("it ended before it listened")
    };
    timeout(Duration::from_mins(1), ready).await.context("no ready line within a minute")?
}
