//! The muster of worker processes: who reported lately, by Redis' clock. It saves work and decides nothing.
//!
//! Not the group's list of consumers: before 7.2 a consumer that waits for its first entry does not stand in it.

use std::time::Duration;

use super::{Queue, QueueError};
use crate::keys;

impl Queue {
    /// Puts `name` on the muster, strikes off who was not heard of for `within`, and answers how many are left.
    pub async fn muster(&self, name: &str, within: Duration) -> Result<usize, QueueError> {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(&mut self.redis.shared()).await?;
        let now = seconds * 1000 + micros / 1000;
        let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let key = keys::workers();
        let mut calls = redis::pipe();
        calls.cmd("ZADD").arg(&key).arg(now).arg(name).ignore();
        calls.cmd("ZREMRANGEBYSCORE").arg(&key).arg("-inf").arg(now.saturating_sub(within)).ignore();
        // Nobody reports any more: nothing stays.
        calls.cmd("PEXPIRE").arg(&key).arg(within).ignore();
        calls.cmd("ZCARD").arg(&key);
        let (left,): (usize,) = calls.query_async(&mut self.redis.shared()).await?;
        Ok(left)
    }
}
