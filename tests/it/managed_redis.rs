//! The managed server as a process: it lives and ends with its parent, comes back when it dies, and serves one process only.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use seckill::config::RedisFsync;
use seckill::redis::managed::socket_of;
use seckill::redis::{Managed, Redis, RedisError};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("sk-data-").tempdir_in("/tmp").unwrap()
}

async fn start(dir: &Path) -> Result<Managed, RedisError> {
    Managed::start(dir, None, RedisFsync::Always).await
}

async fn ask<T: redis::FromRedisValue>(redis: &Redis, words: &[&str]) -> redis::RedisResult<T> {
    let mut call = redis::cmd(words[0]);
    for word in &words[1..] {
        call.arg(*word);
    }
    call.query_async(&mut redis.shared()).await
}

async fn server_pid(redis: &Redis) -> Pid {
    let info: String = ask(redis, &["INFO", "server"]).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

fn runs(pid: Pid) -> bool {
    fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero())).is_ok()
}

async fn until(what: &str, limit: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn it_listens_on_a_private_socket_only_and_its_data_outlives_it() {
    let dir = folder();
    let managed = start(dir.path()).await.unwrap();
    assert_eq!(managed.socket(), fs::canonicalize(dir.path()).unwrap().join("redis.sock"));
    let redis = Redis::open_socket(managed.socket()).await.unwrap();
    for (name, value) in
        [("port", "0"), ("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction"), ("save", "")]
    {
        let config: HashMap<String, String> = ask(&redis, &["CONFIG", "GET", name]).await.unwrap();
        assert_eq!(config[name], value);
    }
    let mode =
        |name: &str| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(dir.path().join(name)).unwrap().permissions()) & 0o777;
    assert_eq!((mode("redis.sock"), mode("redis")), (0o700, 0o700));
    ask::<String>(&redis, &["SET", "kept", "1"]).await.unwrap();
    let pid = server_pid(&redis).await;
    let environment = fs::read_to_string(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap();
    assert!(environment.split('\0').all(|pair| pair.is_empty() || pair.starts_with("PATH=")), "{environment:?}");
    managed.stop().await;
    assert!(!runs(pid) && !dir.path().join("redis.sock").exists());
    let managed = start(dir.path()).await.unwrap();
    let redis = Redis::open_socket(managed.socket()).await.unwrap();
    assert_eq!(ask::<String>(&redis, &["GET", "kept"]).await.unwrap(), "1");
    managed.stop().await;
}

#[tokio::test]
async fn a_second_process_on_the_same_data_is_told_so() {
    let dir = folder();
    let managed = start(dir.path()).await.unwrap();
    let second = start(dir.path()).await.map(|_| ()).unwrap_err();
    assert!(matches!(second, RedisError::Locked(_)));
    assert!(second.to_string().contains("in use by another seckill process"));
    let redis = Redis::open_socket(&socket_of(dir.path()).unwrap()).await.unwrap();
    redis.ping().await.unwrap();
    managed.stop().await;
}

#[tokio::test]
async fn it_is_started_again_when_it_dies_and_the_connection_heals() {
    let dir = folder();
    let managed = start(dir.path()).await.unwrap();
    let redis = Redis::open_socket(managed.socket()).await.unwrap();
    ask::<String>(&redis, &["SET", "kept", "1"]).await.unwrap();
    let pid = server_pid(&redis).await;
    kill_process(pid, Signal::KILL).unwrap();
    until("it comes back", Duration::from_secs(10), async || redis.ping().await.is_ok()).await;
    assert_ne!(server_pid(&redis).await, pid);
    assert_eq!(ask::<String>(&redis, &["GET", "kept"]).await.unwrap(), "1");
    managed.stop().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_replaced() {
    let dir = folder();
    let managed = start(dir.path()).await.unwrap();
    let redis = Redis::open_socket(managed.socket()).await.unwrap();
    let pid = server_pid(&redis).await;
    kill_process(pid, Signal::STOP).unwrap();
    until("it is replaced", Duration::from_secs(45), async || redis.ping().await.is_ok()).await;
    assert_ne!(server_pid(&redis).await, pid);
    managed.stop().await;
}

#[tokio::test]
async fn a_server_that_outlived_its_parent_is_ended_even_when_it_hangs() {
    let dir = folder();
    for hangs in [false, true] {
        // What a killed parent leaves: a server in our folder, and no lock.
        let own = fs::canonicalize(dir.path()).unwrap().join("redis");
        fs::create_dir_all(&own).unwrap();
        let mut orphan = std::process::Command::new("redis-server")
            .args(["--dir", ".", "--port", "0", "--unixsocket", "../redis.sock", "--appendonly", "yes", "--save", ""])
            .current_dir(&own)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let socket = socket_of(dir.path()).unwrap();
        let old = Redis::open_socket(&socket).await.unwrap();
        ask::<i64>(&old, &["INCR", "kept"]).await.unwrap();
        if hangs {
            kill_process(Pid::from_child(&orphan), Signal::STOP).unwrap();
        }
        let managed = start(dir.path()).await.unwrap();
        assert!(orphan.try_wait().unwrap().is_some(), "two servers must never write one log");
        let redis = Redis::open_socket(managed.socket()).await.unwrap();
        assert_eq!(ask::<i64>(&redis, &["GET", "kept"]).await.unwrap(), if hangs { 2 } else { 1 });
        managed.stop().await;
    }
}

#[tokio::test]
async fn a_data_dir_deeper_than_a_sockets_address_works() {
    let dir = folder();
    let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
    let managed = start(&deep).await.unwrap();
    let redis = Redis::open_socket(managed.socket()).await.unwrap();
    redis.ping().await.unwrap();
    assert!(deep.join("redis.sock").exists());
    let pid = server_pid(&redis).await;
    kill_process(pid, Signal::KILL).unwrap();
    until("it comes back", Duration::from_secs(10), async || redis.ping().await.is_ok()).await;
    managed.stop().await;
}

#[tokio::test]
async fn a_missing_program_and_one_that_cannot_start_are_one_sentence() {
    let dir = folder();
    let missing = Managed::start(dir.path(), Some(Path::new("/nowhere/redis-server")), RedisFsync::Always).await;
    let text = missing.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("/nowhere/redis-server") && text.contains("apt-get install redis-server"), "{text}");
    let wrong = Managed::start(dir.path(), Some(Path::new("/bin/false")), RedisFsync::Always).await;
    assert!(matches!(wrong.map(|_| ()), Err(RedisError::Start(_))));
    start(dir.path()).await.unwrap().stop().await;
}

#[tokio::test]
async fn dropping_it_ends_the_server_too() {
    let dir = folder();
    let managed = start(dir.path()).await.unwrap();
    let pid = server_pid(&Redis::open_socket(managed.socket()).await.unwrap()).await;
    drop(managed);
    until("it ends", Duration::from_secs(8), async || !runs(pid)).await;
}
