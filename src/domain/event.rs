//! What the socket tells: the kinds of message, and which change of an order each belongs to.

use super::ids::{UserId, VoucherId};
use super::order::{Order, Status};

/// One change of an order, told to every socket of its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderEvent {
    /// Whose sockets hear it.
    pub user: UserId,
    /// The order as it now is.
    pub order: Order,
}

impl OrderEvent {
    /// The message's `type`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.order.status {
            Status::Queued => "order.queued",
            Status::Pending => "order.created",
            Status::Paid => "order.paid",
            Status::Cancelled => "order.cancelled",
            Status::Refunding => "order.refunding",
            Status::Refunded => "order.refunded",
            Status::Failed => "order.failed",
        }
    }
}

/// Something that happened to a sale, told to whoever watches its voucher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaleEvent {
    /// Units left at the gate, as measured.
    Stock {
        /// Which voucher.
        voucher: VoucherId,
        /// Units left.
        stock: i64,
    },
    /// The sale was made, paused, resumed, ended or rebuilt: read it again.
    Changed {
        /// Which voucher.
        voucher: VoucherId,
    },
}
