//! The flash sale: a voucher with stock and a window. Holds the reference verdict that `lua/admit.lua` must agree with.
//!
//! One rule lives twice: only inside Redis is it atomic, only here is it readable and testable over every case.
//! `tests/it/lua_contract.rs` runs both over one table.

use super::admission::Admission;
use super::ids::{Epoch, OrderId, VoucherId};
use super::time::Millis;

/// A sale as SQL has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sale {
    /// The voucher on sale.
    pub voucher: VoucherId,
    /// Units ever put on sale (`I`).
    pub stock_total: i64,
    /// Units without a live order (`D`).
    pub stock_left: i64,
    /// Fencing number of the gate; 0: never loaded.
    pub epoch: Epoch,
    /// Highest number burnt for a rebuild.
    pub epoch_claimed: Epoch,
    /// Stopped by the merchant.
    pub paused: bool,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after the sale.
    pub end: Millis,
    /// A captcha is asked before the gate is.
    pub captcha: bool,
    /// Raised by every edit by a merchant.
    pub version: i64,
}

/// What a page says of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SaleState {
    /// Before the begin.
    Soon,
    /// Can be bought now.
    Open,
    /// Stopped by the merchant.
    Paused,
    /// No unit is left at the gate.
    SoldOut,
    /// At or after the end.
    Ended,
}

impl SaleState {
    /// The word of `data-state` and of the socket.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Soon => "soon",
            Self::Open => "open",
            Self::Paused => "paused",
            Self::SoldOut => "soldOut",
            Self::Ended => "ended",
        }
    }
}

impl Sale {
    /// The state to show at `now`, with `left` units at the gate (SQL's figure where the gate cannot be asked).
    #[must_use]
    pub fn state(&self, now: Millis, left: i64) -> SaleState {
        if now >= self.end {
            SaleState::Ended
        } else if now < self.begin {
            SaleState::Soon
        } else if self.paused {
            SaleState::Paused
        } else if left <= 0 {
            SaleState::SoldOut
        } else {
            SaleState::Open
        }
    }
}

/// The gate of one sale as a value: what `lua/admit.lua` reads for one buyer, after "ready" held.
#[derive(Debug, Clone, Copy)]
pub struct GateView {
    /// The order that this buyer already holds.
    pub holder: Option<OrderId>,
    /// Stopped by the merchant.
    pub paused: bool,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after the sale.
    pub end: Millis,
    /// Units left at the gate.
    pub stock: i64,
    /// Entries waiting in the stream.
    pub backlog: i64,
}

/// The reference verdict for one buyer, in the order of the checks: holder, paused, window, stock, backlog.
///
/// Holder comes first: a winner whose answer was lost finds his order even when the sale is sold out, paused or over.
#[must_use]
pub fn verdict(gate: &GateView, now: Millis, backlog_limit: i64, id: OrderId) -> Admission {
    if let Some(held) = gate.holder {
        Admission::Duplicate(held)
    } else if gate.paused {
        Admission::Paused
    } else if now < gate.begin {
        Admission::NotBegun
    } else if now >= gate.end {
        Admission::Ended
    } else if gate.stock <= 0 {
        Admission::SoldOut
    } else if gate.backlog >= backlog_limit {
        Admission::BacklogFull
    } else {
        Admission::Admitted { order: id, position: 0 }
    }
}
