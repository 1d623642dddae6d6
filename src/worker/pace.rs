//! `--max-orders-per-second`: when a consumer may read, and when it may save what it has read.
//!
//! Nothing is read while the count is used up: what waits, waits in the stream, where every worker can take it and the
//! backlog sees it. What was read is counted before it is saved, so that a worker that dies has counted too much, never too
//! little.

use std::time::Duration;

use crate::queue::{Queue, QueueError};
use crate::shutdown::Shutdown;

/// Rounds a second of all lanes of one process: small enough that the workers of several processes take turns.
const ROUNDS: u32 = 20;
/// Between two looks whether reading is allowed again, at most.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What was read is held this long at most: less than the time after which another worker takes it for abandoned. It was
/// counted, so that the average stays right.
const HOLD: Duration = Duration::from_secs(5);

/// The limit of one consumer.
#[derive(Clone)]
pub struct Pace {
    queue: Queue,
    /// None: no limit.
    per_second: Option<u32>,
    lanes: u16,
    shutdown: Shutdown,
}

impl Pace {
    /// `per_second` orders over all workers; none: no limit.
    #[must_use]
    pub fn new(queue: Queue, per_second: Option<u32>, lanes: u16, shutdown: Shutdown) -> Self {
        Self { queue, per_second, lanes, shutdown }
    }

    /// Entries of one batch: `most`, or a small part of a second's worth.
    #[must_use]
    pub fn batch(&self, most: usize) -> usize {
        let part = |n: u32| (n / ROUNDS / u32::from(self.lanes.max(1))).max(1) as usize;
        self.per_second.map_or(most, |n| part(n).min(most))
    }

    /// Waits until orders may be saved at all. False: the end has begun. While Redis cannot be asked there is nothing to
    /// read either.
    pub async fn before_reading(&self) -> Result<bool, QueueError> {
        let Some(per_second) = self.per_second else { return Ok(true) };
        loop {
            let wait = self.queue.pace(per_second, 0).await?;
            if wait.is_zero() {
                return Ok(true);
            }
            if !self.shutdown.sleep(wait.min(LOOK_EVERY)).await {
                return Ok(false);
            }
        }
    }

    /// Counts what was read and waits until it may be saved; at the end of the process it waits no more, for what is in hand
    /// is little and counted.
    pub async fn before_saving(&self, orders: usize) {
        let Some(per_second) = self.per_second else { return };
        let wait = match self.queue.pace(per_second, orders).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::debug!(%error, "the pace of all workers cannot be asked");
                // Alone, and slower than alone: others may be doing the same.
                Duration::from_secs(2 * orders as u64) / per_second
            }
        };
        self.shutdown.sleep(wait.min(HOLD)).await;
    }
}
