//! A `PostgreSQL` cluster of a storm's own: crashed, frozen and started again without anybody else noticing.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// Makes the cluster and obeys one word a line: `start`, `crash`. It cleans up when its standard input ends.
const KEEPER: &str = r#"
for bin in /usr/lib/postgresql/*/bin; do PATH="$bin:$PATH"; done
dir=$(mktemp -d /tmp/skstorm.XXXXXX) && cd "$dir" || exit 4
trap 'cd /; rm -rf "$dir"' EXIT
initdb -D "$dir/data" -U seckill --auth=trust --encoding=UTF8 --locale=C --no-sync >"$dir/log" 2>&1 || { cat "$dir/log" >&2; exit 5; }
start() {
    : >"$dir/log"
    postgres -D "$dir/data" -k "$dir" -c listen_addresses= -c max_connections=100 >>"$dir/log" 2>&1 &
    server=$!
    tries=0
    until grep -q "database system is ready to accept connections" "$dir/log"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then cat "$dir/log" >&2; exit 6; fi
        sleep 0.05
    done
    echo "$server $dir"
}
start
while read -r word; do
    case "$word" in
        crash) kill -QUIT "$server"; wait "$server"; echo down;;
        start) start;;
    esac
done
kill -CONT "$server" 2>/dev/null
kill -QUIT "$server" 2>/dev/null
wait "$server"
"#;

/// The cluster.
pub struct StormPostgres {
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: i32,
    dir: String,
}

impl StormPostgres {
    /// Starts it, empty.
    pub fn start() -> Self {
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new(if root { "setpriv" } else { "sh" });
        if root {
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "sh"]);
        }
        let mut keeper = command
            .args(["-c", KEEPER])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell, and as root setpriv (util-linux), are there");
        let (orders, answers) = (keeper.stdin.take(), BufReader::new(keeper.stdout.take().unwrap()));
        let mut it = Self { keeper, orders, answers, server: 0, dir: String::new() };
        it.heard();
        it
    }

    fn heard(&mut self) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let (server, dir) = line.trim_end().split_once(' ').expect("PostgreSQL is needed: apt-get install postgresql");
        (self.server, self.dir) = (server.parse().unwrap(), dir.to_owned());
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        PathBuf::from(&self.dir).join(".s.PGSQL.5432")
    }

    /// The address of its one database, straight.
    pub fn url(&self) -> String {
        format!("postgres://seckill@localhost/postgres?host={}", self.dir)
    }

    /// Ends it at once, as by a loss of power: it has to recover when it starts.
    pub fn crash(&mut self) {
        self.orders.as_mut().unwrap().write_all(b"crash\n").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
    }

    /// Starts it again on its data.
    pub fn start_again(&mut self) {
        self.orders.as_mut().unwrap().write_all(b"start\n").unwrap();
        self.heard();
    }

    /// Stops every process that serves somebody, without ending it.
    pub fn freeze(&self, freeze: bool) {
        let signal = if freeze { Signal::STOP } else { Signal::CONT };
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // PID (NAME) STATE PARENT …
            let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).and_then(|p| p.parse().ok());
            let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            if let (Some(pid), true) = (pid, parent == Some(self.server)) {
                let _it_may_have_ended = kill_process(pid, signal);
            }
        }
    }
}

impl Drop for StormPostgres {
    fn drop(&mut self) {
        self.freeze(false);
        drop(self.orders.take());
        let _cleaned_up = self.keeper.wait();
    }
}
