//! Several Redis servers of a test's own on loopback: a Cluster of three primaries and three replicas, or a primary with a
//! replica and three Sentinels. Killed by their own ids when dropped.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use seckill::redis::Redis;
use tempfile::TempDir;

use super::until;

/// How long a group of servers may take to find together.
const TOGETHER: Duration = Duration::from_secs(30);

/// One server on loopback.
pub struct Server {
    /// Where it listens.
    pub port: u16,
    child: Child,
    arguments: Vec<String>,
}

impl Server {
    fn start(dir: &Path, port: u16, arguments: Vec<String>) -> Self {
        let child = spawn(dir, port, &arguments);
        Self { port, child, arguments }
    }

    /// One command, its words split at spaces; `None` when nobody answers.
    pub async fn ask<T: redis::FromRedisValue>(&self, words: &str) -> Option<T> {
        ask(self.port, words).await.ok()
    }

    fn kill(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn ask<T: redis::FromRedisValue>(port: u16, words: &str) -> redis::RedisResult<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(Some(Duration::from_secs(1)));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    connection.set_response_timeout(Duration::from_secs(5));
    let mut words = words.split(' ');
    let mut call = redis::cmd(words.next().unwrap());
    for word in words {
        call.arg(word);
    }
    call.query_async(&mut connection).await
}

fn spawn(dir: &Path, port: u16, arguments: &[String]) -> Child {
    let own = dir.join(port.to_string());
    std::fs::create_dir_all(&own).unwrap();
    let log = std::fs::File::create(own.join("log")).unwrap();
    Command::new("redis-server")
        .args(arguments)
        .current_dir(own)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .expect("redis-server is needed for this test: apt-get install redis-server")
}

/// Free ports; held until all are known, so that no two are the same.
pub fn ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A short folder for a group of servers.
fn folder() -> TempDir {
    tempfile::Builder::new().prefix("sk-redis-").tempdir_in("/tmp").unwrap()
}

/// A group of servers; all of them are killed when dropped.
pub struct Servers {
    dir: TempDir,
    /// All of them.
    pub all: Vec<Server>,
    /// As `--redis-url` takes it.
    pub url: String,
}

impl Servers {
    /// Three primaries and three replicas.
    pub async fn cluster() -> Self {
        let dir = folder();
        let all: Vec<Server> = ports(12)
            .chunks(2)
            .map(|pair| {
                let arguments = format!(
                    "--port {} --cluster-port {} --bind 127.0.0.1 --cluster-enabled yes --cluster-config-file nodes.conf \
                     --cluster-node-timeout 1500 --cluster-replica-validity-factor 0 --save 3600 100000000 --appendonly no \
                     --repl-diskless-sync-delay 0 --maxmemory-policy noeviction --enable-debug-command local",
                    pair[0], pair[1]
                );
                Server::start(dir.path(), pair[0], words(&arguments))
            })
            .collect();
        let url = format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", all[0].port, all[3].port);
        let servers = Self { dir, all, url };
        servers.awake().await;
        servers.join().await;
        servers
    }

    /// A primary (the first), a replica, and three Sentinels that watch them as `shop`.
    pub async fn sentinel() -> Self {
        let dir = folder();
        let ports = ports(5);
        let plain = |port: u16| format!("--port {port} --bind 127.0.0.1 --save 3600 100000000 --repl-diskless-sync-delay 0");
        let mut all = vec![
            Server::start(dir.path(), ports[0], words(&plain(ports[0]))),
            Server::start(dir.path(), ports[1], words(&format!("{} --replicaof 127.0.0.1 {}", plain(ports[1]), ports[0]))),
        ];
        for port in &ports[2..] {
            let own = dir.path().join(port.to_string());
            std::fs::create_dir_all(&own).unwrap();
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor shop 127.0.0.1 {} 2\nsentinel down-after-milliseconds shop 1000\n\
                 sentinel failover-timeout shop 4000\nsentinel parallel-syncs shop 1\n",
                ports[0]
            );
            std::fs::write(own.join("sentinel.conf"), text).unwrap();
            all.push(Server::start(dir.path(), *port, words("sentinel.conf --sentinel")));
        }
        let places: Vec<_> = ports[2..].iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let url = format!("redis+sentinel://{}/shop", places.join(","));
        let servers = Self { dir, all, url };
        servers.awake().await;
        let (primary, sentinels) = (&servers.all[0], &servers.all[2..]);
        until("the replica and the Sentinels find the primary", TOGETHER, async || {
            let replicated = primary.ask::<String>("INFO replication").await.is_some_and(|info| info.contains("state=online"));
            let mut agreed = replicated;
            for sentinel in sentinels {
                let master: Option<std::collections::HashMap<String, String>> = sentinel.ask("SENTINEL MASTER shop").await;
                agreed &= master.is_some_and(|m| {
                    m.get("num-slaves").map(String::as_str) == Some("1")
                        && m.get("num-other-sentinels").map(String::as_str) == Some("2")
                });
            }
            agreed
        })
        .await;
        servers
    }

    /// One server with these options; nobody waits until it answers.
    pub fn one(options: &str) -> Self {
        Self::with(|port| format!("--port {port} --bind 127.0.0.1 {options}"))
    }

    /// One server with the options for this port; nobody waits until it answers.
    pub fn with(options: impl Fn(u16) -> String) -> Self {
        let (dir, port) = (folder(), ports(1)[0]);
        let all = vec![Server::start(dir.path(), port, words(&options(port)))];
        Self { dir, all, url: format!("redis://127.0.0.1:{port}") }
    }

    /// The program's own way to these servers.
    pub async fn open(&self) -> Redis {
        Redis::open(&self.url).await.unwrap()
    }

    async fn awake(&self) {
        for server in &self.all {
            until("a server answers", TOGETHER, async || server.ask::<String>("PING").await.is_some()).await;
        }
    }

    /// Makes a Cluster of the six: slots for the first three, a replica for each.
    async fn join(&self) {
        const RANGES: [(u16, u16); 3] = [(0, 5460), (5461, 10_922), (10_923, 16_383)];
        for (i, server) in self.all.iter().enumerate() {
            server.ask::<String>(&format!("CLUSTER SET-CONFIG-EPOCH {}", i + 1)).await.unwrap();
            if let Some((first, last)) = RANGES.get(i) {
                server.ask::<String>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await.unwrap();
            }
        }
        for server in &self.all[1..] {
            let bus = &server.arguments[3];
            let meet = format!("CLUSTER MEET 127.0.0.1 {} {bus}", server.port);
            self.all[0].ask::<String>(&meet).await.unwrap();
        }
        let knows = async |server: &Server, field: &str| {
            server.ask::<String>("CLUSTER INFO").await.is_some_and(|info| info.lines().any(|line| line.trim() == field))
        };
        for server in &self.all {
            until("the nodes meet", TOGETHER, async || knows(server, "cluster_known_nodes:6").await).await;
        }
        for (i, replica) in self.all[3..].iter().enumerate() {
            let id: String = self.all[i].ask("CLUSTER MYID").await.unwrap();
            let replicate = format!("CLUSTER REPLICATE {id}");
            until("a replica takes its primary", TOGETHER, async || replica.ask::<String>(&replicate).await.is_some()).await;
        }
        for server in &self.all {
            until("the Cluster is whole", TOGETHER, async || knows(server, "cluster_state:ok").await).await;
        }
        for primary in &self.all[..3] {
            until("a primary has its replica", TOGETHER, async || {
                primary.ask::<String>("INFO replication").await.is_some_and(|info| info.contains("state=online"))
            })
            .await;
        }
    }

    /// Which server takes the writes of `key`: in a Cluster the holder of its slot, else whoever is a primary.
    pub async fn primary_of(&self, key: &str) -> usize {
        let slot = if self.url.starts_with("redis+cluster") { self.slot_of(key).await } else { None };
        for (i, server) in self.all.iter().enumerate() {
            let Some(role) = server.ask::<Vec<redis::Value>>("ROLE").await else { continue };
            if !matches!(role.first(), Some(redis::Value::BulkString(word)) if word == b"master") {
                continue;
            }
            let Some(slot) = slot else { return i };
            let nodes: String = server.ask("CLUSTER NODES").await.unwrap();
            let mine = nodes.lines().find(|line| line.contains("myself")).unwrap();
            let holds = mine.split(' ').skip(8).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                matches!((first.parse::<i64>(), last.parse::<i64>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
            });
            if holds {
                return i;
            }
        }
        panic!("nobody holds {key}");
    }

    /// Begins to move the slot of `key` from one primary to another: from now on its keys may be on either.
    pub async fn begin_move(&self, key: &str, from: usize, to: usize) {
        let slot = self.slot_of(key).await.unwrap();
        let (giver, taker): (String, String) =
            (self.all[from].ask("CLUSTER MYID").await.unwrap(), self.all[to].ask("CLUSTER MYID").await.unwrap());
        self.all[to].ask::<String>(&format!("CLUSTER SETSLOT {slot} IMPORTING {giver}")).await.unwrap();
        self.all[from].ask::<String>(&format!("CLUSTER SETSLOT {slot} MIGRATING {taker}")).await.unwrap();
    }

    /// Moves up to `count` keys of that slot; how many are left.
    pub async fn move_keys(&self, key: &str, from: usize, to: usize, count: usize) -> usize {
        let slot = self.slot_of(key).await.unwrap();
        let keys: Vec<String> = self.all[from].ask(&format!("CLUSTER GETKEYSINSLOT {slot} {count}")).await.unwrap();
        for key in keys {
            let call = format!("MIGRATE 127.0.0.1 {} {key} 0 5000", self.all[to].port);
            assert_eq!(self.all[from].ask::<String>(&call).await.as_deref(), Some("OK"), "{key}");
        }
        self.all[from].ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")).await.unwrap()
    }

    /// Ends the move: the slot is the taker's.
    pub async fn end_move(&self, key: &str, to: usize) {
        let slot = self.slot_of(key).await.unwrap();
        let taker: String = self.all[to].ask("CLUSTER MYID").await.unwrap();
        // The taker first: it must know before anybody sends to it.
        self.all[to].ask::<String>(&format!("CLUSTER SETSLOT {slot} NODE {taker}")).await.unwrap();
        for server in &self.all[..3] {
            server.ask::<String>(&format!("CLUSTER SETSLOT {slot} NODE {taker}")).await.unwrap();
        }
    }

    async fn slot_of(&self, key: &str) -> Option<i64> {
        for server in &self.all {
            if let Some(slot) = server.ask::<i64>(&format!("CLUSTER KEYSLOT {key}")).await {
                return Some(slot);
            }
        }
        None
    }

    /// Kills one with -9.
    pub fn kill(&mut self, which: usize) {
        self.all[which].kill();
    }

    /// Starts it again, as it was.
    pub async fn start_again(&mut self, which: usize) {
        let dir = self.dir.path().to_owned();
        let server = &mut self.all[which];
        server.child = spawn(&dir, server.port, &server.arguments);
        until("a server answers", TOGETHER, async || server.ask::<String>("PING").await.is_some()).await;
    }

    /// Starts it again with one option more, and does not wait.
    pub fn slow_start(&mut self, which: usize, option: &str) {
        let server = &mut self.all[which];
        let mut arguments = server.arguments.clone();
        arguments.extend(words(option));
        server.child = spawn(self.dir.path(), server.port, &arguments);
    }

    /// Stops one without ending it: it hangs.
    pub fn freeze(&self, which: usize) {
        kill_process(Pid::from_child(&self.all[which].child), Signal::STOP).unwrap();
    }

    /// Lets it go on.
    pub fn thaw(&self, which: usize) {
        kill_process(Pid::from_child(&self.all[which].child), Signal::CONT).unwrap();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for server in &mut self.all {
            server.kill();
        }
    }
}
