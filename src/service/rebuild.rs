//! Close the books of one gate and open it anew from SQL: after a loss, at the first start of a sale, for a stock change.
//!
//! Five steps, each safe to die after, none to be swapped: burn a number, close, drain, one transaction, open. Redis is
//! opened by a call of its own after the commit is known; a rebuild that stops anywhere leaves the gate closed, and the
//! reconciler begins again from the first step with a new number.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Clock;
use crate::domain::ids::{Epoch, Lane, VoucherId};
use crate::domain::sale::Sale;
use crate::fault::{fail_point, mutant};
use crate::gate::{Close, Gate, Load};
use crate::queue::Queue;
use crate::queue::StreamId;
use crate::service::ServiceError;
use crate::service::stock_change::StockChange;
use crate::shutdown::Shutdown;
use crate::store::{Store, Tx};

/// Why a rebuild gives way to one that began after it.
pub const OUTRANKED: &str = "a later rebuild holds the gate";

/// How often the drain looks at the stream.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A first entry that stays for this long may be one that no consumer holds.
const STRAYS_AFTER: Duration = Duration::from_millis(500);
/// How long one rebuild waits for the drain before it gives up, closed; the reconciler then tries again, so that one lane
/// that is stuck does not keep the others from being looked at.
const DRAIN_PATIENCE: Duration = Duration::from_mins(1);

/// Another rebuild committed between our number and our transaction.
const OVERTAKEN: &str = "another rebuild moved the epoch";

/// How often a rebuild that was overtaken begins again at once; after that the reconciler does.
const TRIES: u32 = 3;

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

/// Why a gate is rebuilt, for metrics and the audit log.
#[derive(Debug, Clone)]
pub struct Cause {
    /// One word, for the metric.
    reason: &'static str,
    /// Whose line the audit log gets; none: the caller writes his own, if any.
    who: Option<&'static str>,
    /// What was found.
    before: Option<String>,
}

impl Cause {
    /// Somebody asked for it, and says so himself.
    #[must_use]
    pub fn asked() -> Self {
        Self { reason: "asked", who: None, before: None }
    }

    /// The shop found by itself that it must be; `before` tells the figures, where they say something.
    #[must_use]
    pub fn system(reason: &'static str, before: Option<String>) -> Self {
        Self { reason, who: Some(SYSTEM), before }
    }

    fn told(&self) -> String {
        self.before.as_ref().map_or_else(|| self.reason.to_owned(), |before| format!("{}: {before}", self.reason))
    }
}

/// The hold of one rebuild on a gate that it shut.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// The burnt number.
    number: Epoch,
    /// SQL's epoch when it was burnt.
    seen: Epoch,
    /// The drain goes up to here.
    last_id: StreamId,
}

/// What became of shutting a gate.
#[derive(Debug, Clone, Copy)]
pub enum Shut {
    /// It is shut.
    By(Claim),
    /// Given up.
    Not(Rebuilt),
}

/// The shop itself, in the audit log.
const SYSTEM: &str = "system";

/// What `live` orders leave of a sale's total; none: there are more of them than units.
fn left_of(sale: &Sale, live: usize) -> Option<i64> {
    Some(sale.stock_total - i64::try_from(live).ok()?).filter(|left| *left >= 0)
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
        self.rebuild_for(voucher, delta, &Cause::asked()).await
    }

    /// As [`rebuild`](Self::rebuild), counted under its cause, and with a line in the audit log where the cause has one.
    pub async fn rebuild_for(&self, voucher: VoucherId, delta: i64, cause: &Cause) -> Result<Rebuilt, ServiceError> {
        self.again_and_again(voucher, delta, cause, None).await
    }

    /// As [`rebuild`](Self::rebuild), with an admin's change of the stock in its transaction.
    pub async fn rebuild_with(&self, voucher: VoucherId, change: Option<&mut StockChange>) -> Result<Rebuilt, ServiceError> {
        self.again_and_again(voucher, 0, &Cause::asked(), change).await
    }

    async fn again_and_again(
        &self,
        voucher: VoucherId,
        delta: i64,
        cause: &Cause,
        mut change: Option<&mut StockChange>,
    ) -> Result<Rebuilt, ServiceError> {
        let mut tries = 0;
        loop {
            let rebuilt = match self.shut(voucher).await? {
                Shut::By(claim) => self.finish(voucher, claim, delta, cause, change.as_deref_mut()).await?,
                Shut::Not(why) => why,
            };
            tries += 1;
            // Our number shut the gate after the other rebuild had loaded it, so the other cannot open it any more: nobody
            // would, for seconds, but we.
            if rebuilt != Rebuilt::GivenUp(OVERTAKEN) || tries == TRIES || !self.shutdown.sleep(LOOK_EVERY * tries).await {
                return Ok(rebuilt);
            }
        }
    }

    /// The first two steps: burns a number and shuts the gate with it. Whoever did must [`go_on`](Self::go_on): there is no
    /// other way to open it.
    pub async fn shut(&self, voucher: VoucherId) -> Result<Shut, ServiceError> {
        // 1: a number that nobody else can have: fencing token now, epoch later. Committed by itself.
        let Some((number, seen)) = self.store.burn_claim(voucher).await? else { return Ok(Shut::Not(Rebuilt::Unknown)) };

        // 2: stamped into the gate; a late close or load with a lower number finds it and is refused.
        Ok(match self.gate.close(voucher, number).await? {
            Close::Closed { last_id } => Shut::By(Claim { number, seen, last_id }),
            Close::Refused => Shut::Not(Rebuilt::GivenUp(OUTRANKED)),
        })
    }

    /// The last three steps, for the claim that shut the gate.
    pub async fn go_on(&self, voucher: VoucherId, claim: Claim, delta: i64, cause: &Cause) -> Result<Rebuilt, ServiceError> {
        self.finish(voucher, claim, delta, cause, None).await
    }

    async fn finish(
        &self,
        voucher: VoucherId,
        claim: Claim,
        delta: i64,
        cause: &Cause,
        mut change: Option<&mut StockChange>,
    ) -> Result<Rebuilt, ServiceError> {
        let Claim { number, seen, last_id } = claim;
        fail_point("rebuild-after-close");

        // 3: everything admitted before the close must have its row, for as long as that takes; with a time limit queued
        // buyers would become LOST though Redis lost nothing. A sale of epoch 0 was never opened: no entry can be waiting.
        if seen > 0 && !self.drained(Lane::of(voucher, self.lanes), last_id).await? {
            return Ok(Rebuilt::GivenUp("the stream has not drained yet"));
        }

        // 4: one transaction under the sale's row.
        let mut tx = self.store.begin().await?;
        if !tx.move_epoch(voucher, seen, number, delta).await? {
            return Ok(Rebuilt::GivenUp(OVERTAKEN));
        }
        // Read after the lock, not before: everything that changes D waits for this row.
        let Some(mut sale) = tx.sale_locked(voucher).await? else { return Ok(Rebuilt::Unknown) };
        if let Some(change) = change.as_deref_mut() {
            sale = change.apply(&mut tx, sale, self.clock.now()).await?;
        }
        let holders = tx.live_holders(voucher).await?;
        let Some(left) = left_of(&sale, holders.len()) else {
            tracing::error!(voucher.id = %voucher, "more live orders than units; a person has to decide");
            return Ok(Rebuilt::GivenUp("more live orders than units; a person has to decide"));
        };
        if left != sale.stock_left {
            self.mend_left(&mut tx, &sale, left, cause.reason).await?;
        }
        // The load absorbs every unit that a release still had to bring back.
        tx.close_releases_of(voucher, self.clock.now()).await?;
        if let Some(who) = cause.who.filter(|_| seen > 0) {
            let after = format!("epoch {number}, I {}, D {left}, A {}", sale.stock_total, holders.len());
            let before = cause.told();
            tx.audit(who, "gate.rebuild", &format!("voucher {voucher}"), Some(&before), Some(&after), self.clock.now()).await?;
        }
        let load = Load {
            voucher,
            claim: number,
            left,
            holders: &holders,
            total: sale.stock_total,
            paused: sale.paused,
            begin: sale.begin,
            end: sale.end,
        };
        if !self.gate.load(&load).await? {
            return Ok(Rebuilt::GivenUp(OUTRANKED));
        }
        fail_point("rebuild-after-load");
        if let Err(error) = tx.commit().await {
            // Unknown: the commit may have happened. SQL says.
            let now = self.store.sale(voucher).await?.map(|s| s.epoch);
            if now != Some(number) {
                return Err(error.into());
            }
        }

        if let Some(change) = change {
            change.committed = true;
        }

        // 5: only now.
        if self.gate.open(voucher, number).await? {
            tracing::info!(voucher.id = %voucher, epoch = number, "gate open");
            let reason = if seen == 0 { "first" } else { cause.reason };
            metrics::counter!("seckill_rebuilds_total", "reason" => reason).increment(1);
            Ok(Rebuilt::Open(number))
        } else {
            Ok(Rebuilt::GivenUp(OUTRANKED))
        }
    }

    /// Makes the books of a sale that is over balance again: what its live orders leave of its total is what is left. Its
    /// gate is not needed any more. False: more live orders than units; nothing was changed.
    pub async fn mend_books(&self, voucher: VoucherId, why: &str) -> Result<bool, ServiceError> {
        let mut tx = self.store.begin().await?;
        let Some(sale) = tx.sale_locked(voucher).await? else { return Ok(false) };
        let Some(left) = left_of(&sale, tx.live_holders(voucher).await?.len()) else {
            tracing::error!(voucher.id = %voucher, "more live orders than units; a person has to decide");
            return Ok(false);
        };
        if left != sale.stock_left {
            self.mend_left(&mut tx, &sale, left, why).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Order rows are what buyers were told, so they stand; what is left is a count beside them, and follows.
    async fn mend_left(&self, tx: &mut Tx, sale: &Sale, left: i64, why: &str) -> Result<(), ServiceError> {
        tracing::error!(voucher.id = %sale.voucher, was = sale.stock_left, left, "the books do not balance; what is left is counted anew");
        tx.mend_stock_left(sale.voucher, left).await?;
        let (before, after) = (format!("D {}; {why}", sale.stock_left), format!("D {left}"));
        let subject = format!("voucher {}", sale.voucher);
        tx.audit(SYSTEM, "books.mend", &subject, Some(&before), Some(&after), self.clock.now()).await?;
        Ok(())
    }

    /// Waits until the first entry left in the lane's stream is younger than `last_id`; false: gave up. Sees to it that somebody
    /// is given each of them (ADR 30).
    async fn drained(&self, lane: Lane, last_id: StreamId) -> Result<bool, ServiceError> {
        let give_up = Instant::now() + DRAIN_PATIENCE;
        let mut stuck_at = (StreamId::ZERO, Instant::now());
        loop {
            match self.queue.first_id(lane).await? {
                Some(first) if first <= last_id => {
                    if first != stuck_at.0 {
                        stuck_at = (first, Instant::now());
                    } else if stuck_at.1.elapsed() > STRAYS_AFTER && !mutant("leave-strays") {
                        // Nobody may be working on it at all, and then nobody ever would.
                        let strays = self.queue.take_up_strays(lane).await?;
                        if strays > 0 {
                            tracing::warn!(%lane, strays, "entries that no consumer held are given back to the group");
                        }
                        stuck_at.1 = Instant::now();
                    }
                }
                _ => return Ok(true),
            }
            if Instant::now() > give_up || !self.shutdown.sleep(LOOK_EVERY).await {
                return Ok(false);
            }
        }
    }
}
