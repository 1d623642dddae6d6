//! One consumer of one lane: reads entries, claims what dead consumers left, settles what is committed.
//!
//! It has a connection of its own, because a blocking read stops everybody else on its connection.

use std::time::Duration;

use redis::{Cmd, FromRedisValue, Value};

use super::entry::{Delivery, Entry};
use super::{QueueError, create_group, is_no_group};
use crate::domain::ids::{Lane, OrderId};
use crate::keys;
use crate::redis::scripts::SETTLE;
use crate::redis::{Dedicated, Redis, StreamId, lost_its_server};

/// How much longer than its block a call may take.
const GRACE: Duration = Duration::from_secs(3);
/// The pause where there is no stream to block on.
const NO_STREAM: Duration = Duration::from_millis(250);
/// The most entries that one settle takes.
const SETTLE_CHUNK: usize = 1000;

/// A consumer. Its name is its own for each process start, so that what a dead process had read can be told apart.
pub struct Reader {
    redis: Redis,
    lane: Lane,
    stream: String,
    consumer: String,
    connection: Option<Dedicated>,
    /// Where the next claim goes on looking.
    cursor: String,
}

impl Reader {
    pub(super) fn new(redis: Redis, lane: Lane, consumer: String) -> Self {
        let (stream, cursor) = (keys::stream(lane), String::from("0-0"));
        Self { redis, lane, stream, consumer, connection: None, cursor }
    }

    /// Which lane.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// The name that Redis knows this consumer by.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// Up to `count` entries that nobody was given before; waits up to `block` for the first. Without a stream: empty,
    /// after a short pause.
    ///
    /// Let it run to its end: an entry that is delivered into a dropped call waits until it is claimed.
    pub async fn read_new(&mut self, count: usize, block: Duration) -> Result<Vec<Delivery>, QueueError> {
        let ms = u64::try_from(block.as_millis()).unwrap_or(u64::MAX).max(1); // BLOCK 0 would be for ever
        let mut call = self.read_group(count);
        call.arg("BLOCK").arg(ms).arg("STREAMS").arg(&self.stream).arg(">");
        let reply = self.ask(&call, block + GRACE).await;
        match reply {
            Ok(reply) => Ok(deliveries(read_streams(reply)?, |_| 1)),
            Err(e) if is_no_group(&e) => {
                if !self.ensure_group().await? {
                    tokio::time::sleep(NO_STREAM.min(block)).await;
                }
                Ok(Vec::new())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Up to `count` entries that this very consumer was given and has not settled, oldest first: what a broken call left.
    pub async fn own_pending(&mut self, count: usize) -> Result<Vec<Delivery>, QueueError> {
        let mut call = self.read_group(count);
        call.arg("STREAMS").arg(&self.stream).arg("0");
        let entries = match self.ask(&call, GRACE).await {
            Ok(reply) => read_streams(reply)?,
            Err(e) if is_no_group(&e) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        let (there, gone): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, fields)| fields.is_some());
        if !gone.is_empty() {
            // Deleted by hand: nothing is left that could be worked on.
            let mut call = redis::cmd("XACK");
            call.arg(&self.stream).arg(keys::GROUP);
            for (id, _) in gone {
                call.arg(id.to_string());
            }
            self.ask(&call, GRACE).await?;
        }
        self.count_deliveries(there).await
    }

    /// Takes over up to `count` entries that any consumer, this one too, was given at least `min_idle` ago and did not
    /// settle. Goes on where the last call ended; entries that were deleted by hand leave the list.
    pub async fn claim(&mut self, min_idle: Duration, count: usize) -> Result<Vec<Delivery>, QueueError> {
        let ms = u64::try_from(min_idle.as_millis()).unwrap_or(u64::MAX);
        let mut call = redis::cmd("XAUTOCLAIM");
        call.arg(&self.stream).arg(keys::GROUP).arg(&self.consumer).arg(ms).arg(&self.cursor).arg("COUNT").arg(count);
        let reply = match self.ask(&call, GRACE).await {
            Ok(reply) => reply,
            Err(e) if is_no_group(&e) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        let Value::Array(parts) = reply else { return Err(QueueError::BadReply(format!("{reply:?}"))) };
        let mut parts = parts.into_iter();
        let (Some(cursor), Some(entries)) = (parts.next(), parts.next()) else {
            return Err(QueueError::BadReply(String::from("a short answer to a claim")));
        };
        self.cursor = read(cursor)?;
        let entries = read_entries(entries)?.into_iter().filter(|(_, fields)| fields.is_some()).collect();
        self.count_deliveries(entries).await
    }

    /// Acknowledges and removes entries whose outcome is committed, each only where it still carries that order. None: an
    /// unreadable one, taken by its stream id. A thousand in one step.
    ///
    /// Only over the connection that read them: after a reconnect the same ids may stand for other entries, so a broken
    /// connection is an error here, and the entries will be delivered again.
    pub async fn settle(&mut self, entries: &[(StreamId, Option<OrderId>)]) -> Result<(), QueueError> {
        let keys = [self.stream.clone(), keys::places(self.lane)];
        for chunk in entries.chunks(SETTLE_CHUNK) {
            let Some(Dedicated { connection, .. }) = &mut self.connection else { return Err(QueueError::ConnectionLost) };
            connection.set_response_timeout(GRACE);
            if crate::fault::mutant("settle-apart") {
                let ids: Vec<String> = chunk.iter().map(|(id, _)| id.to_string()).collect();
                redis::cmd("XACK").arg(&self.stream).arg(keys::GROUP).arg(&ids).exec_async(connection).await?;
                crate::fault::fail_point("between-ack-and-del");
                redis::cmd("XDEL").arg(&self.stream).arg(&ids).exec_async(connection).await?;
                continue;
            }
            let answer: redis::RedisResult<(u64, u64, u64)> = SETTLE
                .call(connection, &keys, |call| {
                    call.arg(keys::GROUP);
                    for (id, order) in chunk {
                        call.arg(id.to_string()).arg(order.map(|order| order.to_string()).unwrap_or_default());
                    }
                })
                .await;
            match answer {
                Ok((_, gone, foreign)) if gone + foreign > 0 => {
                    tracing::warn!(lane = %self.lane, gone, foreign, "settled entries were gone, or carried another order");
                }
                Ok(_) => {}
                Err(e) => {
                    self.forget_if_broken(&e);
                    return Err(e.into());
                }
            }
        }
        Ok(())
    }

    /// Makes the group again, from the first entry, on a stream that is there. False: there is no stream, and nothing was
    /// made: only a load makes streams.
    pub async fn ensure_group(&mut self) -> Result<bool, QueueError> {
        let reply = self.ask(&create_group(self.lane), GRACE).await;
        match reply {
            Ok(_) => {
                tracing::warn!(lane = %self.lane, "the consumer group was missing and is made again from the first entry");
                Ok(true)
            }
            Err(e) if e.code() == Some("BUSYGROUP") => Ok(true),
            Err(e) if e.to_string().contains("requires the key to exist") => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn read_group(&self, count: usize) -> Cmd {
        let mut call = redis::cmd("XREADGROUP");
        call.arg("GROUP").arg(keys::GROUP).arg(&self.consumer).arg("COUNT").arg(count.max(1));
        call
    }

    async fn ask(&mut self, call: &Cmd, limit: Duration) -> redis::RedisResult<Value> {
        // A server that is no longer the one may go on answering for a while.
        if self.connection.as_ref().is_some_and(|connection| !self.redis.is_home(connection, &self.stream)) {
            tracing::info!(lane = %self.lane, "the lane's stream is on another server now");
            self.connection = None;
        }
        let Dedicated { connection, .. } = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.redis.dedicated(&self.stream, limit).await?),
        };
        connection.set_response_timeout(limit);
        let reply = call.query_async(connection).await;
        if let Err(e) = &reply {
            self.forget_if_broken(e);
        }
        reply
    }

    /// After a time-out too: the answer may still come, into a call that nobody waits for.
    fn forget_if_broken(&mut self, e: &redis::RedisError) {
        if lost_its_server(e) {
            self.redis.note(e);
            self.connection = None;
        }
    }

    /// Asks how often each entry was delivered, in one round trip; a claim's answer does not say.
    async fn count_deliveries(&mut self, entries: Vec<RawEntry>) -> Result<Vec<Delivery>, QueueError> {
        let Some(Dedicated { connection, .. }) = self.connection.as_mut().filter(|_| !entries.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut asked = redis::pipe();
        for (id, _) in &entries {
            let id = id.to_string();
            asked.cmd("XPENDING").arg(&self.stream).arg(keys::GROUP).arg(&id).arg(&id).arg(1);
        }
        let answer: redis::RedisResult<Vec<Vec<Pending>>> = asked.query_async(connection).await;
        match answer {
            Ok(counts) => {
                let mut counts = counts.into_iter();
                Ok(deliveries(entries, |_| counts.next().and_then(|one| one.first().map(|p| p.3)).unwrap_or(1).max(1)))
            }
            Err(e) => {
                self.forget_if_broken(&e);
                Err(e.into())
            }
        }
    }
}

/// What XPENDING says of an entry: id, consumer, idle time, deliveries.
type Pending = (String, String, u64, u64);

/// An entry as Redis tells it; no fields: it was deleted.
pub(super) type RawEntry = (StreamId, Option<Vec<(Vec<u8>, Vec<u8>)>>);

fn deliveries(entries: Vec<RawEntry>, mut count: impl FnMut(StreamId) -> u64) -> Vec<Delivery> {
    let (mut newer, mut all) = (0_usize, Vec::with_capacity(entries.len()));
    for (stream_id, fields) in entries {
        let deliveries = count(stream_id);
        match fields {
            Some(fields) if Entry::is_newer(&fields) => newer += 1,
            Some(fields) => all.push(Delivery { stream_id, deliveries, entry: Entry::read(&fields) }),
            None => {}
        }
    }
    if newer > 0 {
        tracing::warn!(newer, "entries of a later program are left for it, unacknowledged");
    }
    all
}

pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, QueueError> {
    redis::from_redis_value(value).map_err(|e| QueueError::BadReply(e.to_string()))
}

/// The answer to a read of one stream: nothing, or one stream with its entries.
fn read_streams(reply: Value) -> Result<Vec<RawEntry>, QueueError> {
    match reply {
        Value::Nil => Ok(Vec::new()),
        Value::Array(streams) => match <[Value; 1]>::try_from(streams) {
            Ok([Value::Array(stream)]) => match <[Value; 2]>::try_from(stream) {
                Ok([_, entries]) => read_entries(entries),
                Err(other) => Err(QueueError::BadReply(format!("{other:?}"))),
            },
            other => Err(QueueError::BadReply(format!("{other:?}"))),
        },
        other => Err(QueueError::BadReply(format!("{other:?}"))),
    }
}

/// A list of entries. A field that is no even half of a pair cannot be: Redis refuses to add such an entry.
pub(super) fn read_entries(value: Value) -> Result<Vec<RawEntry>, QueueError> {
    let entries: Vec<(String, Option<Vec<Vec<u8>>>)> = read(value)?;
    entries
        .into_iter()
        .map(|(id, flat)| {
            let id = id.parse().map_err(|_| QueueError::BadReply(format!("stream id {id:?}")))?;
            let pairs = |flat: Vec<Vec<u8>>| flat.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            Ok((id, flat.map(pairs)))
        })
        .collect()
}
