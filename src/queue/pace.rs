//! How many orders a second all workers together may save: one count in Redis, by its clock, for every lane and process.

use std::time::Duration;

use super::{Queue, QueueError};
use crate::keys;
use crate::redis::scripts::PACE;

impl Queue {
    /// Counts `orders` that are about to be saved against `per_second`, shared by every worker, and answers how long to wait
    /// before they may be. 0 orders: only asks.
    pub async fn pace(&self, per_second: u32, orders: usize) -> Result<Duration, QueueError> {
        let micros: u64 = PACE
            .call(&mut self.redis.shared(), &[keys::order_pace()], |call| {
                call.arg(per_second).arg(orders);
            })
            .await?;
        Ok(Duration::from_micros(micros))
    }
}
