//! What the gate may answer to one buyer. A refusal is an answer, not an error.

use super::ids::{Epoch, OrderId};

/// One buyer's verdict from one atomic step of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// A unit is held for this order and its entry is in the stream: queued, not bought.
    Admitted {
        /// The id that was admitted.
        order: OrderId,
        /// How many entries the stream had ever taken, this one included; `ahead` is counted from it.
        position: i64,
    },
    /// This buyer already holds a unit, under this order.
    Duplicate(OrderId),
    /// Stopped by the merchant.
    Paused,
    /// Before the begin, by Redis' clock.
    NotBegun,
    /// At or after the end, by Redis' clock.
    Ended,
    /// No unit left. Never said because of a fault.
    SoldOut,
    /// Too many admitted orders wait to be saved; nothing was taken.
    BacklogFull,
    /// The gate of this sale does not fit what SQL says (with the epoch that its hash has, when it has one). Nothing was taken.
    NotReady(Option<Epoch>),
}

/// Why a purchase was refused: the answers that a page words and a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No unit left.
    SoldOut,
    /// Before the begin.
    NotBegun,
    /// At or after the end.
    Ended,
    /// Stopped by the merchant.
    Paused,
}

impl Refusal {
    /// The code of CONTRACT, also the name of its counter in the sale hash.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::SoldOut => "SOLD_OUT",
            Self::NotBegun => "NOT_BEGUN",
            Self::Ended => "ENDED",
            Self::Paused => "PAUSED",
        }
    }
}
