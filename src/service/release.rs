//! Give a unit back, exactly once on both sides. SQL wrote the outbox row with the closed order; here Redis follows.
//!
//! Pair: admit ⇄ release. Idempotent because: the script compares the holder with this order id and deletes only then.

use std::time::Duration;

use crate::clock::Clock;
use crate::domain::ids::OrderId;
use crate::fault::fail_point;
use crate::gate::{Gate, Release};
use crate::service::ServiceError;
use crate::service::retry::wait_before;
use crate::store::Store;
use crate::store::{OutboxRow, RELEASE};

/// Rows taken at once.
const BATCH: i64 = 200;
/// A gate that is being rebuilt is back within a second or so, and never far away.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const MOST_WAIT: Duration = Duration::from_secs(5);

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
                Ok(true) => {
                    fail_point("outbox-after-apply");
                    done.push(row.id);
                }
                Ok(false) => {
                    round.waiting += 1;
                    self.store
                        .retry_outbox(&[row.id], self.clock.now() + wait_before(row.attempts, FIRST_WAIT, MOST_WAIT))
                        .await?;
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

    /// Applies the release of one order that was just closed; true when its unit is back. The row stays open otherwise.
    pub async fn apply_for(&self, order: OrderId) -> Result<bool, ServiceError> {
        let Some(row) = self.store.outbox_row(&format!("release:{order}")).await? else { return Ok(false) };
        let applied = self.apply(&row).await?;
        if applied {
            fail_point("outbox-after-apply");
            self.store.finish_outbox(&[row.id], self.clock.now()).await?;
        }
        Ok(applied)
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
