//! Close the books of one gate and open it anew from SQL: after a loss, at the first start of a sale, for a stock change.
//!
//! Five steps, each safe to die after, none to be swapped: burn a number, close, drain, one transaction, open. Redis is
//! opened by a call of its own after the commit is known; a rebuild that stops anywhere leaves the gate closed, and the
//! reconciler begins again from the first step with a new number.

use std::time::Duration;

use crate::clock::Clock;
use crate::domain::ids::{Epoch, Lane, VoucherId};
use crate::gate::{Close, Gate, Load};
use crate::queue::Queue;
use crate::queue::StreamId;
use crate::service::ServiceError;
use crate::shutdown::Shutdown;
use crate::store::Store;

/// How often the drain looks at the stream.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long one rebuild waits for the drain before it gives up, closed; the reconciler then tries again, so that one lane
/// that is stuck does not keep the others from being looked at.
const DRAIN_PATIENCE: Duration = Duration::from_mins(1);

/// How a rebuild ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rebuilt {
    /// The gate is open under this epoch.
    Open(Epoch),
    /// Given up, with the gate closed or in another rebuilder's hands.
    GivenUp(&'static str),
    /// No such sale.
    Unknown,
}

/// Rebuilds gates.
#[derive(Clone)]
pub struct Rebuilds {
    /// The truth.
    pub store: Store,
    /// The gate.
    pub gate: Gate,
    /// Where admitted entries wait.
    pub queue: Queue,
    /// The time.
    pub clock: Clock,
    /// Ends a long drain.
    pub shutdown: Shutdown,
    /// Lanes of this shop.
    pub lanes: u16,
}

impl Rebuilds {
    /// Rebuilds `voucher`'s gate; `delta` units are put on sale (or taken off it, below zero) in the same transaction.
    pub async fn rebuild(&self, voucher: VoucherId, delta: i64) -> Result<Rebuilt, ServiceError> {
        // 1: a number that nobody else can have: fencing token now, epoch later. Committed by itself.
        let Some((claim, seen)) = self.store.burn_claim(voucher).await? else { return Ok(Rebuilt::Unknown) };

        // 2: stamped into the gate; a late close or load with a lower number finds it and is refused.
        let last_id = match self.gate.close(voucher, claim).await? {
            Close::Closed { last_id } => last_id,
            Close::Refused => return Ok(Rebuilt::GivenUp("a later rebuild holds the gate")),
        };

        // 3: everything admitted before the close must have its row, for as long as that takes; with a time limit queued
        // buyers would become LOST though Redis lost nothing. A sale of epoch 0 was never opened: no entry can be waiting.
        if seen > 0 && !self.drained(Lane::of(voucher, self.lanes), last_id).await? {
            return Ok(Rebuilt::GivenUp("the stream has not drained yet"));
        }

        // 4: one transaction under the sale's row.
        let mut tx = self.store.begin().await?;
        if !tx.move_epoch(voucher, seen, claim, delta).await? {
            return Ok(Rebuilt::GivenUp("another rebuild moved the epoch"));
        }
        // Read after the lock, not before: everything that changes D waits for this row.
        let Some(sale) = tx.sale_locked(voucher).await? else { return Ok(Rebuilt::Unknown) };
        let holders = tx.live_holders(voucher).await?;
        // The load absorbs every unit that a release still had to bring back.
        tx.close_releases_of(voucher, self.clock.now()).await?;
        let load = Load {
            voucher,
            claim,
            left: sale.stock_left,
            holders: &holders,
            total: sale.stock_total,
            paused: sale.paused,
            begin: sale.begin,
            end: sale.end,
        };
        if !self.gate.load(&load).await? {
            return Ok(Rebuilt::GivenUp("a later rebuild holds the gate"));
        }
        if let Err(error) = tx.commit().await {
            // Unknown: the commit may have happened. SQL says.
            let now = self.store.sale(voucher).await?.map(|s| s.epoch);
            if now != Some(claim) {
                return Err(error.into());
            }
        }

        // 5: only now.
        if self.gate.open(voucher, claim).await? {
            tracing::info!(voucher.id = %voucher, epoch = claim, "gate open");
            Ok(Rebuilt::Open(claim))
        } else {
            Ok(Rebuilt::GivenUp("a later rebuild holds the gate"))
        }
    }

    /// Waits until the first entry left in the lane's stream is younger than `last_id`; false: gave up.
    async fn drained(&self, lane: Lane, last_id: StreamId) -> Result<bool, ServiceError> {
        let give_up = tokio::time::Instant::now() + DRAIN_PATIENCE;
        loop {
            match self.queue.first_id(lane).await? {
                Some(first) if first <= last_id => {}
                _ => return Ok(true),
            }
            if tokio::time::Instant::now() > give_up || !self.shutdown.sleep(LOOK_EVERY).await {
                return Ok(false);
            }
        }
    }
}
