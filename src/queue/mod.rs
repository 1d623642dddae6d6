//! The stream of admitted orders between the gate and the workers, and its consumer group.
//!
//! Streams are made by a load alone: a stream that came back by itself would hide that its entries are lost.

mod crew;
mod entry;
mod pace;
mod reader;
mod waiting;

pub use crate::redis::StreamId;
pub use entry::{Delivery, Entry, Unreadable};
pub use reader::Reader;
pub use waiting::{Given, Waiting, WaitingEntry};

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::domain::ids::{Lane, OrderId};
use crate::keys;
use crate::redis::Redis;
use crate::redis::scripts::{DROP_CONSUMERS, STRAYS};
use reader::{read, read_entries};

/// Why the stream gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// Redis cannot be asked, or gave no answer. Everything here can be repeated.
    #[error("the stream cannot be asked: {0}")]
    Unavailable(String),
    /// The connection that read these entries is gone; they will be delivered again.
    #[error("the connection that read these entries is gone")]
    ConnectionLost,
    /// An answer that this program does not understand.
    #[error("the stream's answer makes no sense: {0}")]
    BadReply(String),
}

impl From<redis::RedisError> for QueueError {
    fn from(e: redis::RedisError) -> Self {
        match e.kind() {
            redis::ErrorKind::UnexpectedReturnType | redis::ErrorKind::Parse => Self::BadReply(e.to_string()),
            _ => Self::Unavailable(e.to_string()),
        }
    }
}

/// The figures of one lane. All zero without a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Whether the stream exists.
    pub there: bool,
    /// Entries that are not settled.
    pub len: i64,
    /// Entries that were ever added.
    pub entries_added: i64,
    /// Entries that a consumer was given and has not settled.
    pub pending: i64,
    /// Entries that no consumer was given yet; none when Redis cannot tell.
    pub lag: Option<i64>,
}

/// The streams of all lanes; cheap to clone.
#[derive(Clone)]
pub struct Queue {
    redis: Redis,
}

/// Entries in one answer of [`Queue::entries`].
const PAGE: usize = 1000;

impl Queue {
    /// The streams on `redis`.
    #[must_use]
    pub fn new(redis: Redis) -> Self {
        Self { redis }
    }

    /// A new consumer of `lane`, under a name of its own. It connects at its first call.
    #[must_use]
    pub fn reader(&self, lane: Lane) -> Reader {
        Reader::new(self.redis.clone(), lane, process_name())
    }

    /// The oldest entry that is not settled; none when there is none, or no stream.
    pub async fn first_id(&self, lane: Lane) -> Result<Option<StreamId>, QueueError> {
        let mut call = redis::cmd("XRANGE");
        call.arg(keys::stream(lane)).arg("-").arg("+").arg("COUNT").arg(1);
        let entries = match call.query_async(&mut self.redis.shared()).await {
            // No stream: nothing of ours can be waiting in it.
            Err(error) if error.code() == Some("WRONGTYPE") => return Ok(None),
            entries => read_entries(entries?)?,
        };
        Ok(entries.first().map(|(id, _)| *id))
    }

    /// The figures of a lane.
    pub async fn depth(&self, lane: Lane) -> Result<Depth, QueueError> {
        let key = keys::stream(lane);
        let info = |what: &str| {
            let mut call = redis::cmd("XINFO");
            call.arg(what).arg(&key);
            call
        };
        let stream: HashMap<String, Value> = match info("STREAM").query_async(&mut self.redis.shared()).await {
            Ok(stream) => stream,
            Err(e) if is_no_key(&e) => return Ok(Depth::default()),
            Err(e) => return Err(e.into()),
        };
        let groups: Vec<HashMap<String, Value>> = match info("GROUPS").query_async(&mut self.redis.shared()).await {
            Ok(groups) => groups,
            Err(e) if is_no_key(&e) => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        let group =
            groups.iter().find(|group| matches!(group.get("name"), Some(Value::BulkString(n)) if n == keys::GROUP.as_bytes()));
        let number = |of: Option<&HashMap<String, Value>>, name: &str| match of?.get(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        Ok(Depth {
            there: true,
            len: number(Some(&stream), "length").unwrap_or(0),
            entries_added: number(Some(&stream), "entries-added").unwrap_or(0),
            pending: number(group, "pending").unwrap_or(0),
            lag: number(group, "lag"),
        })
    }

    /// How many entries the lane had ever taken with each of these orders; none where no entry carries it any more. One
    /// round trip, whatever the length of the stream.
    pub async fn places(&self, lane: Lane, orders: &[OrderId]) -> Result<Vec<Option<i64>>, QueueError> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = redis::cmd("HMGET");
        call.arg(keys::places(lane));
        for order in orders {
            call.arg(order.0);
        }
        let places: Vec<Option<String>> = call.query_async(&mut self.redis.shared()).await?;
        Ok(places.into_iter().map(|place| place?.parse().ok()).collect())
    }

    /// Every entry of a lane, oldest first, whether delivered or not; read in pages, so not of one instant. A delivery
    /// count of 0 says that it was not asked.
    pub async fn entries(&self, lane: Lane) -> Result<Vec<Delivery>, QueueError> {
        let (key, mut from, mut all) = (keys::stream(lane), StreamId::ZERO, Vec::new());
        loop {
            let mut call = redis::cmd("XRANGE");
            call.arg(&key).arg(from.to_string()).arg("+").arg("COUNT").arg(PAGE);
            let page = read_entries(call.query_async(&mut self.redis.shared()).await?)?;
            let Some((last, _)) = page.last() else { return Ok(all) };
            from = last.next();
            all.extend(
                page.into_iter()
                    .filter_map(|(stream_id, fields)| Some(Delivery { stream_id, deliveries: 0, entry: Entry::read(&fields?) })),
            );
        }
    }

    /// Gives entries back to the group that count as delivered and that no consumer holds, at most a thousand; how many. The
    /// next claim of any consumer takes them over. Only a log of Redis that was torn inside a transaction makes such entries.
    pub async fn take_up_strays(&self, lane: Lane) -> Result<u64, QueueError> {
        let reply: Value = STRAYS
            .call(&mut self.redis.shared(), &[keys::stream(lane)], |call| {
                call.arg(keys::GROUP).arg("strays");
            })
            .await?;
        read(reply)
    }

    /// Removes consumers that were not heard of for `idle` and hold nothing; how many. Places that no entry has are removed
    /// too, when the stream is empty.
    pub async fn drop_dead_consumers(&self, lane: Lane, idle: Duration) -> Result<u64, QueueError> {
        let ms = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let reply: Value = DROP_CONSUMERS
            .call(&mut self.redis.shared(), &[keys::stream(lane), keys::places(lane)], |call| {
                call.arg(keys::GROUP).arg(ms);
            })
            .await?;
        read(reply)
    }
}

/// XGROUP CREATE from the first entry, without making a stream.
fn create_group(lane: Lane) -> Cmd {
    let mut call = redis::cmd("XGROUP");
    call.arg("CREATE").arg(keys::stream(lane)).arg(keys::GROUP).arg("0");
    call
}

/// The group is missing, or the whole stream; also told to a read that was blocked when it went away.
fn is_no_group(e: &redis::RedisError) -> bool {
    matches!(e.code(), Some("NOGROUP" | "UNBLOCKED")) || is_no_key(e)
}

fn is_no_key(e: &redis::RedisError) -> bool {
    e.to_string().contains("no such key")
}

/// A name that nobody else has: `HOST-PID-RANDOM`.
#[must_use]
pub fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').take(40).collect();
    format!("{}-{}-{:08x}", if host.is_empty() { "host" } else { &host }, std::process::id(), rand::random::<u32>())
}
