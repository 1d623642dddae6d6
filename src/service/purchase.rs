//! A click on "buy": ask the gate, answer the buyer. No SQL on this path.
//!
//! While the database is away buyers are admitted and queued; only what the gate cannot answer is BUSY.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::domain::admission::{Admission, Refusal};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::sale::Sale;
use crate::domain::ticket::{Ticket, TicketKey};
use crate::domain::time::Millis;
use crate::gate::Gate;
use crate::gate::batcher::{AdmitError, Batcher};
use crate::service::reconcile::Nudge;
use crate::service::sale_index::{Known, SaleIndex};

/// A sale that ended this long ago by our clock is not asked for at the gate's script: its hash may rightly be gone.
/// The margin covers clocks that differ; until then Redis' own clock decides.
const SURELY_OVER: Duration = Duration::from_secs(5);

/// The answer to a click. A refusal is an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A unit is held; the order is queued.
    Admitted {
        /// The order.
        order: OrderId,
        /// What the buyer can ask with.
        ticket: String,
        /// How many entries its lane had ever taken with it.
        position: i64,
    },
    /// He already holds a unit.
    Held {
        /// The order that he has.
        order: OrderId,
        /// What the buyer can ask with.
        ticket: String,
    },
    /// No.
    Refused {
        /// Why.
        why: Refusal,
        /// When the sale begins.
        begin: Millis,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BuyError {
    /// No such sale: unknown, or an everyday voucher.
    #[error("no such sale")]
    UnknownVoucher,
    /// Nothing was taken: Redis cannot be asked, the gate is not ready, the backlog is full.
    #[error("busy")]
    Busy,
    /// The call was sent and no answer came; a second click cannot buy twice.
    #[error("uncertain")]
    Uncertain,
}

/// Takes clicks.
pub struct Purchase {
    /// The sales that are on.
    pub index: Arc<SaleIndex>,
    /// Coalesces clicks into one call of the gate.
    pub batcher: Batcher,
    /// Asked directly for holders of sales that are over.
    pub gate: Gate,
    /// Signs tickets.
    pub tickets: TicketKey,
    /// Wakes the reconciler when a gate is not ready.
    pub nudge: Nudge,
    /// The time.
    pub clock: Clock,
}

impl Purchase {
    /// Asks the gate for one unit of `voucher` for `user`; answers within about a second.
    pub async fn buy(&self, user: UserId, voucher: VoucherId) -> Result<Answer, BuyError> {
        let mut seen: Option<Epoch> = None;
        // Twice at most: a gate that was rebuilt meanwhile answers "not ready" to the epoch in our memory.
        for _ in 0..2 {
            let sale = match self.index.get(voucher) {
                Known::Sale(_, sale) => sale,
                Known::Over { end } => return self.after_the_end(user, voucher, end).await,
                Known::Plain | Known::Unknown => return Err(BuyError::UnknownVoucher),
                Known::NotLoaded => return Err(BuyError::Busy),
            };
            if self.clock.now() > sale.end + SURELY_OVER {
                return self.after_the_end(user, voucher, sale.begin).await;
            }
            if seen == Some(sale.epoch) {
                break;
            }
            let refused = |why| Ok(Answer::Refused { why, begin: sale.begin });
            match self.batcher.admit(voucher, sale.epoch, user).await {
                Ok(Admission::Admitted { order, position }) => {
                    let ticket = self.ticket(order, user, voucher, sale.epoch, position);
                    return Ok(Answer::Admitted { order, ticket, position });
                }
                Ok(Admission::Duplicate(order)) => {
                    // With a ticket too: a buyer whose first answer was lost knows his id only from here.
                    return Ok(Answer::Held { order, ticket: self.ticket(order, user, voucher, sale.epoch, 0) });
                }
                Ok(Admission::SoldOut) => return refused(Refusal::SoldOut),
                Ok(Admission::NotBegun) => return refused(Refusal::NotBegun),
                Ok(Admission::Ended) => return refused(Refusal::Ended),
                Ok(Admission::Paused) => return refused(Refusal::Paused),
                Ok(Admission::BacklogFull) => return Err(BuyError::Busy),
                Err(AdmitError::Uncertain) => return Err(BuyError::Uncertain),
                Err(error) => {
                    tracing::debug!(%error, "the gate could not be asked");
                    return Err(BuyError::Busy);
                }
                Ok(Admission::NotReady(_)) => {
                    seen = Some(sale.epoch);
                    // SQL first: an old epoch in our own memory is no reason for a rebuild. Bounded, because the database
                    // may be away and this buyer must hear BUSY within a second.
                    let fresh = tokio::time::timeout(Duration::from_millis(400), self.index.refresh()).await;
                    if !matches!(fresh, Ok(Ok(()))) {
                        return Err(BuyError::Busy);
                    }
                    #[cfg(feature = "fault-injection")]
                    if crate::fault::mutant("reload-on-request")
                        && let Known::Sale(_, sale) = self.index.get(voucher)
                    {
                        seen = None;
                        self.gate.reload_on_request(voucher, sale.stock_left).await;
                    }
                }
            }
        }
        self.nudge.look_at(voucher);
        Err(BuyError::Busy)
    }

    /// The sale, when it asks for a captcha and may still be bought; none: nothing is asked. Looks into memory alone.
    #[must_use]
    pub fn asks_captcha(&self, voucher: VoucherId) -> Option<Sale> {
        match self.index.get(voucher) {
            Known::Sale(_, sale) => Some(sale).filter(|s| s.captcha && self.clock.now() <= s.end + SURELY_OVER),
            _ => None,
        }
    }

    /// The order under which `user` holds a unit of `voucher`, by one read of Redis that takes nothing; none: he holds none.
    pub async fn held(&self, user: UserId, voucher: VoucherId) -> Result<Option<Answer>, BuyError> {
        let held = self.gate.find_holder(&[voucher], user).await.map_err(|_| BuyError::Busy)?;
        Ok(held
            .first()
            .map(|(_, order, epoch)| Answer::Held { order: *order, ticket: self.ticket(*order, user, voucher, *epoch, 0) }))
    }

    /// A sale that is over needs no hash; whoever won still hears his order.
    async fn after_the_end(&self, user: UserId, voucher: VoucherId, begin: Millis) -> Result<Answer, BuyError> {
        Ok(self.held(user, voucher).await?.unwrap_or(Answer::Refused { why: Refusal::Ended, begin }))
    }

    fn ticket(&self, order: OrderId, user: UserId, voucher: VoucherId, epoch: Epoch, position: i64) -> String {
        self.tickets.sign(&Ticket { order, voucher, user, epoch, position, at: self.clock.now() })
    }
}
