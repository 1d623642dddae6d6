//! Give a unit back, exactly once on both sides. SQL wrote the outbox row with the closed order; here Redis follows.
//!
//! Pair: admit ⇄ release. Idempotent because: the script compares the holder with this order id and deletes only then.

use std::time::Duration;

use crate::clock::Clock;
use crate::gate::{Gate, Release};
use crate::service::ServiceError;
use crate::store::Store;
use crate::store::{OutboxRow, RELEASE};

/// Rows taken at once.
const BATCH: i64 = 200;

/// Applies release rows to the gate.
#[derive(Clone)]
pub struct Releases {
    /// Where the rows are.
    pub store: Store,
    /// Where the units go back.
    pub gate: Gate,
    /// The time.
    pub clock: Clock,
}

/// What a round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Round {
    /// Rows that are done.
    pub done: usize,
    /// Rows that stay: their gate is not ready.
    pub waiting: usize,
}

impl Releases {
    /// Applies what is due. A gate that is not ready keeps its row; a gate that cannot be asked ends the round.
    pub async fn apply_due(&self) -> Result<Round, ServiceError> {
        let mut round = Round::default();
        let mut done = Vec::new();
        for row in self.store.due_outbox(RELEASE, self.clock.now(), BATCH).await? {
            match self.apply(&row).await {
                Ok(true) => done.push(row.id),
                Ok(false) => {
                    round.waiting += 1;
                    self.store.retry_outbox(&[row.id], self.clock.now() + wait_before(row.attempts + 1)).await?;
                }
                Err(error) => {
                    // What was applied before is marked all the same: the rest waits for the gate.
                    self.store.finish_outbox(&done, self.clock.now()).await?;
                    return Err(error);
                }
            }
        }
        if !done.is_empty() {
            self.store.finish_outbox(&done, self.clock.now()).await?;
        }
        round.done = done.len();
        Ok(round)
    }

    /// One row; true when there is nothing left to do for it.
    async fn apply(&self, row: &OutboxRow) -> Result<bool, ServiceError> {
        let release = row.release()?;
        // Row and epoch in one statement: an epoch read later could belong to a gate that already absorbed this row.
        let Some(state) = self.store.release_and_epoch(row.id, self.clock.now()).await? else { return Ok(true) };
        // A rebuild has absorbed it, or the sale is over: nobody can buy the unit any more.
        let Some(epoch) = state.epoch.filter(|_| state.open && !state.over) else { return Ok(true) };
        let answer = self.gate.release(release.voucher, epoch, release.user, release.order).await?;
        Ok(answer == Release::Done)
    }
}

/// Half a second, doubled with every attempt, at most 5 s: a gate comes back within seconds.
fn wait_before(attempt: i64) -> Duration {
    Duration::from_millis(500 << u32::try_from(attempt).unwrap_or(0).min(4)).min(Duration::from_secs(5))
}
