//! The real binary as a child process: started, listened to, killed by its own id.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::app::On;
use super::http::Http;
use super::postgres::fresh_database;

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_seckill");

/// Where the rows of a data dir are when it keeps none itself: one database of the [chosen](On::chosen) kind for each folder,
/// for whatever command works on it. `None`: in the folder.
pub async fn database_of(data_dir: &Path) -> Option<String> {
    static KNOWN: Mutex<Option<HashMap<std::path::PathBuf, String>>> = Mutex::const_new(None);
    if On::chosen() == On::Sqlite {
        return None;
    }
    let mut known = KNOWN.lock().await;
    let known = known.get_or_insert_default();
    if !known.contains_key(data_dir) {
        known.insert(data_dir.to_owned(), fresh_database().await);
    }
    known.get(data_dir).cloned()
}

/// The binary with these arguments. Where they say which data dir and not which database, it gets the one of
/// [`database_of`]; by the environment, so that an option may still say otherwise.
pub async fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    let data_dir = arguments.iter().skip_while(|argument| **argument != "--data-dir").nth(1);
    if let Some(data_dir) = data_dir.filter(|_| !arguments.contains(&"--database-url"))
        && let Some(url) = database_of(Path::new(data_dir)).await
    {
        command.env("DATABASE_URL", url);
    }
    command
}

/// A running `seckill serve`.
pub struct Process {
    pub child: Child,
    pub base: String,
    pub http: Http,
    /// What it printed before the ready line.
    pub printed: Vec<String>,
}

impl Process {
    /// Starts `seckill serve` with `options` and waits for its ready line.
    pub async fn serve(data_dir: &Path, options: &[&str]) -> Self {
        Self::serve_without(None, data_dir, options).await
    }

    /// The same with one guard taken out, or none.
    pub async fn serve_without(mutant: Option<&str>, data_dir: &Path, options: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--rate-limit", "off"];
        arguments.extend(["--data-dir", data_dir.to_str().unwrap()]);
        arguments.extend(options);
        let mut command = command(&arguments).await;
        if let Some(mutant) = mutant {
            command.env("SECKILL_FAULT", mutant);
        }
        Self::start(command).await
    }

    /// Starts what `command` says and waits for its ready line.
    pub async fn start(mut command: Command) -> Self {
        command.stderr(Stdio::inherit());
        Self::start_quietly(command).await
    }

    /// The same, with the log where the command has it.
    pub async fn start_quietly(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut printed = Vec::new();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(base) = line.strip_prefix("listening on ") {
                    return base.to_owned();
                }
                printed.push(line);
            }
            panic!("it ended before it listened: {printed:?}");
        };
        let base = tokio::time::timeout(Duration::from_secs(30), ready).await.expect("no ready line within 30 s");
        let http = Http::new(&base);
        Self { child, base, http, printed }
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// SIGTERM; the exit code.
    pub async fn terminate(&mut self) -> i32 {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = tokio::time::timeout(Duration::from_secs(15), self.child.wait()).await.expect("no end within 15 s").unwrap();
        status.code().unwrap_or(-1)
    }
}

/// Runs a verb to its end: exit code, stdout, stderr.
pub async fn run(arguments: &[&str], stdin: &str) -> (i32, String, String) {
    use tokio::io::AsyncWriteExt;
    let mut child = command(arguments)
        .await
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes()).await;
    let output =
        tokio::time::timeout(Duration::from_mins(2), child.wait_with_output()).await.expect("no end within 120 s").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}
