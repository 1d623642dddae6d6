//! Connections to Redis: a shared one for short calls, own ones for whoever blocks.
//!
//! Here the three kinds of addresses meet; what each takes is in `node`, `sentinel` and `cluster`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use rand::RngExt;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{Cmd, ErrorKind, Pipeline, RedisResult, ServerErrorKind as S, Value};

use super::RedisError;
use super::address::{Address, unusable};
use super::cluster::Cluster;
use super::node::Node;
use super::sentinel::Sentinels;
use super::shared::{Shared, Way};
use super::slot::key_of;

/// How long `open` keeps trying: a server that is just starting is not an error.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// How often a call that waits for replicas is sent to another node of a Cluster.
const TURNED_AWAY: u32 = 3;
/// How often `open` says that it still waits for a server that reads its data.
const STILL_LOADING: Duration = Duration::from_secs(10);

/// A Redis, whatever it consists of, and the shared way to it; cheap to clone.
#[derive(Clone)]
pub struct Redis(Servers);

#[derive(Clone)]
enum Servers {
    One(Arc<Node>),
    Sentinel(Arc<Sentinels>),
    Cluster(Arc<Cluster>),
}

/// A connection of one's own, and whose it is.
pub struct Dedicated {
    /// The connection.
    pub(crate) connection: MultiplexedConnection,
    home: Arc<Node>,
}

impl Redis {
    /// Opens an address of any kind: waits up to 5 s for an answer, and for as long as the server reads its data, and checks
    /// that it is 7.0 or newer and takes writes.
    pub async fn open(url: &str) -> Result<Self, RedisError> {
        Self::open_at(Address::read(url)?).await
    }

    /// Opens the unix socket at `path`, as [`Redis::open`] does.
    pub async fn open_socket(path: &Path) -> Result<Self, RedisError> {
        Self::open_at(Address::socket(path)?).await
    }

    async fn open_at(address: Address) -> Result<Self, RedisError> {
        let bad = |e: redis::RedisError| unusable(&e);
        let redis = Self(match address {
            Address::One(info) => Servers::One(Arc::new(Node::new(info).map_err(bad)?)),
            Address::Sentinel { sentinels, service, manner } => {
                Servers::Sentinel(Sentinels::start(sentinels, service, manner).await.map_err(bad)?)
            }
            Address::Cluster { seeds, manner } => Servers::Cluster(Cluster::start(seeds, manner).await),
        });
        redis.check().await?;
        Ok(redis)
    }

    /// The shared connection: short calls only, each answered within 500 ms or failed. It reconnects by itself; while Redis
    /// is silent its calls fail at once (`breaker.rs`).
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared(match &self.0 {
            Servers::One(node) => Way::One(node.shared.clone()),
            Servers::Sentinel(sentinels) => Way::Sentinel(Arc::clone(sentinels)),
            Servers::Cluster(cluster) => Way::Cluster(Arc::clone(cluster)),
        })
    }

    /// As [`Redis::shared`], over connections of its own whose calls may take `limit`: for bulk work that nobody waits for.
    pub fn patient(&self, limit: Duration) -> RedisResult<Shared> {
        Ok(Shared(match &self.0 {
            Servers::One(node) => Way::One(node.with_patience(limit)?.shared),
            Servers::Sentinel(sentinels) => Way::One(sentinels.current()?.with_patience(limit)?.shared),
            Servers::Cluster(cluster) => Way::Cluster(Arc::new(cluster.with_patience(limit)?)),
        }))
    }

    /// A connection of its own to the server that holds `key`, for blocking reads: `response_timeout` must be longer than
    /// the longest block.
    pub async fn dedicated(&self, key: &str, response_timeout: Duration) -> RedisResult<Dedicated> {
        let home = self.home_of(key)?;
        let connection = home.dedicated(response_timeout).await.inspect_err(|error| self.note(error))?;
        Ok(Dedicated { connection, home })
    }

    /// Whether `connection` still leads to the server that holds `key`, as far as that is known.
    #[must_use]
    pub fn is_home(&self, connection: &Dedicated, key: &str) -> bool {
        self.home_of(key).is_ok_and(|home| Arc::ptr_eq(&home, &connection.home))
    }

    /// After an error on a connection of one's own: where the server is may have to be found out anew.
    pub fn note(&self, error: &redis::RedisError) {
        match &self.0 {
            Servers::One(_) => {}
            Servers::Sentinel(sentinels) => sentinels.note(error),
            Servers::Cluster(cluster) => cluster.note(error),
        }
    }

    /// One call, and how many replicas of its server have what it wrote, once `replicas` do or `within` is over. One wait,
    /// whatever the call wrote; sent on when it was turned away, never sent again when its answer was lost.
    pub(crate) async fn ask_and_wait(&self, call: &Cmd, replicas: u16, within: Duration) -> RedisResult<(Value, i64)> {
        let mut both = Pipeline::with_capacity(2);
        // In one piece: the server counts from the last write of the same connection.
        both.add_command(call.clone()).cmd("WAIT").arg(replicas).arg(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        let key = String::from_utf8_lossy(key_of(call).unwrap_or_default()).into_owned();
        let mut tries = TURNED_AWAY;
        loop {
            let node = self.home_of(&key)?;
            let answers = node.waiting.clone().req_packed_commands(&both, 0, 2).await.inspect_err(|e| self.note(e))?;
            let mut answers = answers.into_iter();
            let error: redis::RedisError = match (answers.next(), answers.next()) {
                (Some(Value::ServerError(error)), _) | (Some(_), Some(Value::ServerError(error))) => error.into(),
                (Some(answer), Some(Value::Int(counted))) => return Ok((answer, counted)),
                other => return Err((ErrorKind::UnexpectedReturnType, "no count of replicas", format!("{other:?}")).into()),
            };
            self.note(&error);
            tries -= 1;
            let turned_away = matches!(error.kind(), ErrorKind::Server(S::Moved | S::TryAgain | S::ClusterDown));
            match &self.0 {
                Servers::Cluster(cluster) if turned_away && tries > 0 => cluster.look().await?,
                _ => return Err(error),
            }
        }
    }

    fn home_of(&self, key: &str) -> RedisResult<Arc<Node>> {
        match &self.0 {
            Servers::One(node) => Ok(Arc::clone(node)),
            Servers::Sentinel(sentinels) => sentinels.current(),
            Servers::Cluster(cluster) => cluster.owner_of(key.as_bytes()),
        }
    }

    /// A connection of its own, for subscriptions. It ends when the server does; the caller connects again. In a Cluster
    /// every node hears what is published on any.
    pub async fn pubsub(&self) -> RedisResult<PubSub> {
        let node = match &self.0 {
            Servers::One(node) => Arc::clone(node),
            Servers::Sentinel(sentinels) => sentinels.current()?,
            Servers::Cluster(cluster) => cluster.any()?,
        };
        node.pubsub().await.inspect_err(|error| self.note(error))
    }

    /// Whether every server that is needed answers, within 500 ms.
    pub async fn ping(&self) -> RedisResult<()> {
        let nodes = match &self.0 {
            Servers::One(node) => vec![Arc::clone(node)],
            Servers::Sentinel(sentinels) => vec![sentinels.current()?],
            Servers::Cluster(cluster) => cluster.all()?,
        };
        let asked = try_join_all(nodes.iter().map(|node| node.ping())).await;
        asked.map(drop).inspect_err(|error| self.note(error))
    }

    /// Waits until it can be used, or says in one sentence why it cannot.
    async fn check(&self) -> Result<(), RedisError> {
        let mut silent_since = Instant::now();
        let mut told: Option<Instant> = None;
        loop {
            let why = match self.state().await {
                State::Usable => return Ok(()),
                State::Never(refused) => return Err(refused),
                State::Loading => {
                    // It lives, and says how it is: worth any wait.
                    if told.is_none_or(|at| at.elapsed() > STILL_LOADING) {
                        tracing::warn!("Redis is reading its data; the start waits for it");
                        told = Some(Instant::now());
                    }
                    silent_since = Instant::now();
                    String::new()
                }
                State::NotYet(why) => why,
            };
            if silent_since.elapsed() > OPEN_PATIENCE {
                return Err(RedisError::Unreachable(why));
            }
            tokio::time::sleep(Duration::from_millis(rand::rng().random_range(50..150))).await;
        }
    }

    async fn state(&self) -> State {
        let answer: RedisResult<String> = match self.reachable().await {
            Ok(()) => redis::cmd("INFO").query_async(&mut self.shared()).await,
            Err(e) => Err(e),
        };
        let error = match answer {
            Ok(info) => return self.judge(&info),
            Err(e) => e,
        };
        match error.code() {
            Some("LOADING") => State::Loading,
            Some("NOAUTH") => State::Never(RedisError::Refused("it wants a password, and the address has none")),
            Some("NOPERM") => State::Never(RedisError::Refused("this user may not use the commands that the shop needs")),
            _ if error.code() == Some("WRONGPASS") || error.kind() == ErrorKind::AuthenticationFailed => {
                State::Never(RedisError::Refused("it refuses the user or password"))
            }
            _ if error.to_string().contains("certificate") => {
                State::Never(RedisError::Refused("its certificate is not one that this machine trusts for that address"))
            }
            _ if error.to_string().contains("cluster support disabled") => {
                State::Never(RedisError::BadAddress(String::from("this server is no node of a Cluster: write redis://")))
            }
            _ => State::NotYet(error.to_string()),
        }
    }

    /// Whether the servers are known and answer; the error of a look says more than that of a ping.
    async fn reachable(&self) -> RedisResult<()> {
        match &self.0 {
            Servers::One(_) => Ok(()),
            Servers::Sentinel(sentinels) => sentinels.look().await,
            Servers::Cluster(cluster) => {
                if self.ping().await.is_err() {
                    cluster.look().await?;
                }
                self.ping().await
            }
        }
    }

    fn judge(&self, info: &str) -> State {
        let version = info_field(info, "redis_version").unwrap_or("unknown");
        let major: u32 = version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        if major < 7 {
            return State::Never(RedisError::TooOld(version.to_owned()));
        }
        if info_field(info, "cluster_enabled") == Some("1") && !matches!(self.0, Servers::Cluster(_)) {
            let why = String::from("this server is a node of a Cluster: write redis+cluster://");
            return State::Never(RedisError::BadAddress(why));
        }
        if info_field(info, "loading") == Some("1") {
            return State::Loading;
        }
        // It may be about to become one; a replica that stays one can never take an order.
        if info_field(info, "role") == Some("slave") {
            return State::NotYet(String::from("this server is a replica and takes no writes; name the primary"));
        }
        State::Usable
    }
}

/// What a start finds.
enum State {
    Usable,
    /// It reads its data.
    Loading,
    /// No answer, or not the right one; that may change.
    NotYet(String),
    /// It will not change by waiting.
    Never(RedisError),
}

/// One field of an answer to INFO.
#[must_use]
pub(crate) fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_info_is_found_by_its_whole_name() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:0a1b\r\n";
        assert_eq!(info_field(info, "redis_version"), Some("7.0.15"));
        assert_eq!(info_field(info, "run_id"), Some("0a1b"));
        assert_eq!(info_field(info, "run"), None);
    }
}
