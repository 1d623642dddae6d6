//! The managed server as a process: which program, started how, and what a killed parent may have left behind.
//!
//! Everything here blocks; only the watch thread calls it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::RedisError;
use super::link::Link;
use crate::config::RedisFsync;

/// A log that is longer than this is set aside at the next start.
const LOG_LIMIT: u64 = 10 << 20;
/// How long a server may take to end by itself.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(5);

/// One managed server: where it lives and how it is started.
pub(super) struct Spot {
    /// Its own folder, absolute, without symbolic links.
    pub(super) dir: PathBuf,
    /// How this process reaches its socket.
    pub(super) socket: PathBuf,
    program: PathBuf,
    fsync: RedisFsync,
    /// `setpriv` that can tie the child's life to this thread's.
    setpriv: Option<PathBuf>,
}

impl Spot {
    /// Looks for the programs. The folder must exist.
    pub(super) fn new(dir: PathBuf, socket: PathBuf, program: Option<&Path>, fsync: RedisFsync) -> Result<Self, RedisError> {
        let program = match program {
            Some(path) if path.components().count() > 1 => {
                fs::canonicalize(path).map_err(|_| RedisError::NoProgram(format!(" at {}", path.display())))?
            }
            Some(name) => in_path(name).ok_or_else(|| RedisError::NoProgram(format!(" named {}", name.display())))?,
            None => in_path(Path::new("valkey-server"))
                .or_else(|| in_path(Path::new("redis-server")))
                .ok_or_else(|| RedisError::NoProgram(String::new()))?,
        };
        let can_tie = |setpriv: &PathBuf| {
            let mut probe = Command::new(setpriv);
            probe.args(["--pdeathsig", "TERM", "--", "true"]).stdin(Stdio::null());
            probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let setpriv = in_path(Path::new("setpriv")).filter(can_tie);
        Ok(Self { dir, socket, program, fsync, setpriv })
    }

    /// Starts the server. With setpriv it ends when the calling THREAD does, so that thread must outlive it.
    pub(super) fn spawn(&self) -> std::io::Result<Child> {
        let log = self.log()?;
        let mut command = match &self.setpriv {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM", "--"]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            // Relative to its own folder: a socket's address has room for 107 bytes only, however deep the data dir is.
            .args(["--dir", ".", "--port", "0", "--unixsocket", "../redis.sock", "--unixsocketperm", "700"])
            .args(["--appendonly", "yes", "--appendfsync", self.fsync.as_str(), "--save", ""])
            .args(["--daemonize", "no", "--maxmemory-policy", "noeviction"])
            .current_dir(&self.dir)
            .env_clear()
            .envs(path_variable().map(|path| ("PATH", path)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Ctrl-C in a terminal goes to the whole group: the server must not end before this process has drained.
            .process_group(0);
        command.spawn()
    }

    fn log(&self) -> std::io::Result<File> {
        let path = self.dir.join("redis.log");
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_LIMIT) {
            fs::rename(&path, self.dir.join("redis.log.old"))?;
        }
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// The last lines that the server wrote, on one line.
    pub(super) fn last_words(&self) -> String {
        let mut text = String::new();
        if let Ok(mut log) = File::open(self.dir.join("redis.log")) {
            let length = log.metadata().map_or(0, |m| m.len());
            let mut bytes = Vec::new();
            if log.seek(SeekFrom::Start(length.saturating_sub(2000))).and_then(|_| log.read_to_end(&mut bytes)).is_ok() {
                text = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }

    /// Ends a server that outlived a killed parent: asked first, killed when it does not listen. Two servers must never
    /// write one log, and an old one that ends late would remove the new one's socket.
    pub(super) fn end_leftovers(&self) -> Result<(), RedisError> {
        let asked = Link::connect(&self.socket).and_then(|mut link| link.shutdown()).is_ok();
        if asked || !self.leftovers().is_empty() {
            tracing::warn!(dir = %self.dir.display(), "ending a Redis that outlived its parent");
        }
        if asked && self.gone_within(END_PATIENCE) {
            return Ok(());
        }
        for pid in self.leftovers() {
            let _gone_already = kill_process(pid, Signal::KILL);
        }
        if self.gone_within(END_PATIENCE) {
            return Ok(());
        }
        Err(RedisError::Start(String::from("an older server still runs on this data dir and cannot be ended")))
    }

    fn gone_within(&self, limit: Duration) -> bool {
        let started = Instant::now();
        // A killed process leaves /proc a moment before its sockets close, so both have to be gone.
        while !self.leftovers().is_empty() || Link::connect(&self.socket).is_ok() {
            if started.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Server processes whose working folder is ours. They rewrite their command line, so the folder is what tells them
    /// apart; a zombie has none and is over.
    fn leftovers(&self) -> Vec<Pid> {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        processes
            .flatten()
            .filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == self.dir))
            .filter(|process| {
                let comm = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                let comm = comm.trim();
                matches!(comm, "redis-server" | "valkey-server" | "setpriv") || (comm.len() > 5 && name.starts_with(comm))
            })
            .filter_map(|process| Pid::from_raw(process.file_name().to_str()?.parse().ok()?))
            .collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "handed on to the child and searched for its program; not a setting of ours")]
fn path_variable() -> Option<std::ffi::OsString> {
    std::env::var_os("PATH")
}

fn in_path(name: &Path) -> Option<PathBuf> {
    std::env::split_paths(&path_variable()?).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}
