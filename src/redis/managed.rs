//! A Redis of our own: a child process with its data in the data dir, for who brings no server.
//!
//! It is locked to one process, watched, and ended with it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::RedisError;
use super::child::{END_PATIENCE, Spot};
use super::watch;
use crate::config::RedisFsync;

/// The name of the socket in the data dir.
const SOCKET: &str = "redis.sock";
/// How long a lock that looks taken is tried for.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// A unix socket's address has room for this many bytes, with a zero at the end.
const SOCKET_ROOM: usize = 108;

/// The managed server. Dropping it ends the server too, without waiting for it.
pub struct Managed {
    socket: PathBuf,
    stop: mpsc::Sender<()>,
    /// Resolves when the watch thread, and with it the server, is over.
    over: oneshot::Receiver<()>,
}

impl Managed {
    /// Starts the server of `data_dir` and returns once it answers: a large log may take a while to read.
    ///
    /// A server that outlived a killed parent is ended first; its data is on disk. [`RedisError::Locked`] when another
    /// process manages this data dir; [`RedisError::NoProgram`] when there is nothing to start.
    pub async fn start(data_dir: &Path, program: Option<&Path>, fsync: RedisFsync) -> Result<Self, RedisError> {
        let (data_dir, program) = (data_dir.to_owned(), program.map(Path::to_owned));
        let (stop, stopped) = mpsc::channel();
        let (tell_socket, socket) = oneshot::channel();
        let (tell_ready, ready) = oneshot::channel();
        let (tell_over, over) = oneshot::channel::<()>();
        let thread = move || {
            let _over = tell_over; // dropped last, when the server is gone
            match prepare(&data_dir, program.as_deref(), fsync) {
                Ok((spot, _lock)) => {
                    let _nobody_waits = tell_socket.send(Ok(spot.socket.clone()));
                    watch::run(&spot, &stopped, tell_ready);
                }
                Err(e) => drop(tell_socket.send(Err(e))),
            }
        };
        let lost = || RedisError::Start(String::from("the watching thread ended"));
        std::thread::Builder::new()
            .name(String::from("redis-watch"))
            .spawn(thread)
            .map_err(|e| RedisError::Start(e.to_string()))?;
        let socket = socket.await.map_err(|_| lost())??;
        ready.await.map_err(|_| lost())??;
        Ok(Self { socket, stop, over })
    }

    /// Where it listens, in a form that this process can connect to.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends the server after it has written everything; killed when that takes more than 5 s.
    pub async fn stop(self) {
        let _over_already = self.stop.send(());
        let _over = tokio::time::timeout(END_PATIENCE + Duration::from_secs(2), self.over).await;
    }
}

/// The socket of `data_dir`'s managed server, in a form that this process can connect to: for a command that runs beside
/// a server ([`RedisError::Locked`] from [`Managed::start`] says that there is one).
pub fn socket_of(data_dir: &Path) -> std::io::Result<PathBuf> {
    let dir = fs::canonicalize(data_dir)?;
    let plain = dir.join(SOCKET);
    if plain.as_os_str().len() < SOCKET_ROOM {
        return Ok(plain);
    }
    // Too deep for a socket's address: name it through an open folder. That stays open for the life of the process, for
    // connections are made anew at any time; it is one descriptor.
    let folder = File::open(&dir)?.into_raw_fd();
    Ok(PathBuf::from(format!("/proc/self/fd/{folder}/{SOCKET}")))
}

/// Makes the folder private, locks it and clears it of an older server. The lock lasts as long as the file.
fn prepare(data_dir: &Path, program: Option<&Path>, fsync: RedisFsync) -> Result<(Spot, File), RedisError> {
    let failed = |e: std::io::Error| RedisError::Start(format!("{}: {e}", data_dir.display()));
    let dir = data_dir.join("redis");
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).map_err(failed)?;
    let dir = fs::canonicalize(&dir).map_err(failed)?;
    let lock = OpenOptions::new().create(true).append(true).open(dir.join("lock")).map_err(failed)?;
    // A process that starts another one shares its open files with it for the moment between fork and exec, this lock
    // included: one that was given up a moment ago may still look taken.
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => return Err(RedisError::Locked(data_dir.display().to_string())),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
    }
    let spot = Spot::new(dir, socket_of(data_dir).map_err(failed)?, program, fsync)?;
    spot.end_leftovers()?;
    Ok((spot, lock))
}
