//! A real Redis server of a test's own: a short temporary folder, a unix socket, gone with the test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seckill::redis::Redis;
use tempfile::TempDir;

/// The server; killed when dropped.
pub struct TestRedis {
    dir: TempDir,
    child: Child,
}

impl TestRedis {
    /// Starts an empty server and waits until it answers.
    pub async fn start() -> Self {
        // A socket's address has room for 107 bytes only, so not under the build folder.
        let dir = tempfile::Builder::new().prefix("sk-redis-").tempdir_in("/tmp").unwrap();
        let child = spawn(dir.path());
        let server = Self { dir, child };
        server.wait().await;
        server
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// The address, as an option takes it.
    pub fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The program's own way to this server.
    pub async fn open(&self) -> Redis {
        Redis::open(&self.url()).await.unwrap()
    }

    /// One command, written as on a command line of words without spaces.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &str) -> T {
        let client = redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut words = words.split(' ');
        let mut call = redis::cmd(words.next().unwrap());
        for word in words {
            call.arg(word);
        }
        call.query_async(&mut connection).await.unwrap()
    }

    /// How often a command was called.
    pub async fn calls_of(&self, command: &str) -> u64 {
        let stats: String = self.ask("INFO commandstats").await;
        let found = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        found.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// The file that is appended to.
    fn log(&self) -> PathBuf {
        let files = std::fs::read_dir(self.dir.path().join("appendonlydir")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max().unwrap()
    }

    /// How long its log is now.
    pub fn log_size(&self) -> u64 {
        std::fs::metadata(self.log()).unwrap().len()
    }

    /// Its log, byte for byte.
    pub fn log_bytes(&self) -> Vec<u8> {
        std::fs::read(self.log()).unwrap()
    }

    /// What came later is lost. Only while the server is down.
    pub fn cut_log_to(&self, size: u64) {
        std::fs::File::options().write(true).open(self.log()).unwrap().set_len(size).unwrap();
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Kills the server with -9.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on the same data, under a new run id.
    pub async fn start_again(&mut self) {
        self.child = spawn(self.dir.path());
        self.wait().await;
    }

    /// Stops the process without ending it: it hangs.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    async fn wait(&self) {
        let started = Instant::now();
        let client = redis::Client::open(self.url()).unwrap();
        loop {
            let answer: redis::RedisResult<String> = match client.get_multiplexed_async_connection().await {
                Ok(mut connection) => redis::cmd("PING").query_async(&mut connection).await,
                Err(e) => Err(e),
            };
            match answer {
                Ok(_) => return,
                Err(e) => assert!(started.elapsed() < Duration::from_secs(10), "Redis does not start: {e}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn spawn(dir: &Path) -> Child {
    // A limit of a file's size is an error to be handled, as a full disk is, not a signal to die of.
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh", "redis-server"])
        .args(["--port", "0", "--unixsocket", "redis.sock", "--dir", ".", "--save", "", "--daemonize", "no"])
        .args(["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is needed for this test: apt-get install redis-server")
}
