//! The order and its states. The only place that decides which state may follow which; SQL's guarded updates carry it out.

use super::ids::{Epoch, OrderId, UserId, VoucherId};
use super::money::Fen;
use super::time::Millis;

/// Where an order stands. `Queued` has no row: it is an admitted id whose row is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Admitted, not saved yet.
    Queued,
    /// Saved; awaits payment.
    Pending,
    /// Paid.
    Paid,
    /// Closed without payment.
    Cancelled,
    /// Money is on its way back.
    Refunding,
    /// Money has gone back.
    Refunded,
    /// Admitted and never an order; the reason says why.
    Failed,
}

impl Status {
    /// The word of API, socket and SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Pending => "PENDING",
            Self::Paid => "PAID",
            Self::Cancelled => "CANCELLED",
            Self::Refunding => "REFUNDING",
            Self::Refunded => "REFUNDED",
            Self::Failed => "FAILED",
        }
    }

    /// The status that a row's word means; `Queued` is never in a row.
    #[must_use]
    pub fn from_row(word: &str) -> Option<Self> {
        Some(match word {
            "PENDING" => Self::Pending,
            "PAID" => Self::Paid,
            "CANCELLED" => Self::Cancelled,
            "REFUNDING" => Self::Refunding,
            "REFUNDED" => Self::Refunded,
            "FAILED" => Self::Failed,
            _ => return None,
        })
    }
}

/// Why an order was closed or never came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Cancelled by its owner.
    User,
    /// Not paid in time.
    Timeout,
    /// FAILED: the buyer already had a live order.
    Duplicate,
    /// FAILED: no unit was left in SQL.
    SoldOut,
    /// FAILED: the gate was rebuilt after the entry was lost.
    Lost,
    /// FAILED: withdrawn by hand from the dead letters.
    Discarded,
}

impl CloseReason {
    /// The word of API and SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "USER",
            Self::Timeout => "TIMEOUT",
            Self::Duplicate => "DUPLICATE",
            Self::SoldOut => "SOLD_OUT",
            Self::Lost => "LOST",
            Self::Discarded => "DISCARDED",
        }
    }

    /// The reason that a row's word means.
    #[must_use]
    pub fn from_row(word: &str) -> Option<Self> {
        [Self::User, Self::Timeout, Self::Duplicate, Self::SoldOut, Self::Lost, Self::Discarded]
            .into_iter()
            .find(|r| r.as_str() == word)
    }
}

/// What may happen to an order that has a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Its owner cancels.
    Cancel,
    /// Its pay window is over.
    TimeOut,
    /// A valid payment arrives.
    Pay,
    /// An admin sends the money back.
    Refund,
    /// The provider confirms that the money went back.
    CompleteRefund,
}

/// The state that `action` leads to from `from`; none: refused, and nothing changes.
#[must_use]
pub fn next(from: Status, action: Action) -> Option<Status> {
    match (from, action) {
        (Status::Pending, Action::Cancel | Action::TimeOut) => Some(Status::Cancelled),
        (Status::Pending, Action::Pay) => Some(Status::Paid),
        (Status::Paid, Action::Refund) => Some(Status::Refunding),
        (Status::Refunding, Action::CompleteRefund) => Some(Status::Refunded),
        _ => None,
    }
}

/// Whether money is on its way back for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refund {
    /// Owed, not confirmed.
    Due,
    /// Confirmed by the provider.
    Done,
}

impl Refund {
    /// The word of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "DUE",
            Self::Done => "DONE",
        }
    }
}

/// An order as it is shown: a committed row, or a queued place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub id: OrderId,
    /// Whose.
    pub user: UserId,
    /// Of what.
    pub voucher: VoucherId,
    /// The voucher's title, for people.
    pub voucher_title: String,
    /// Where it stands.
    pub status: Status,
    /// Grows with every change; 0 while queued, 1 for a new row.
    pub version: i64,
    /// Orders before it, while queued and known.
    pub ahead: Option<i64>,
    /// The price at the time of the order.
    pub pay_amount: Fen,
    /// The sale's epoch at admission.
    pub epoch: Epoch,
    /// Birth: of the row, or of the id while queued.
    pub created_at: Millis,
    /// Deadline of payment.
    pub pay_before: Option<Millis>,
    /// When it was paid.
    pub paid_at: Option<Millis>,
    /// When it was cancelled, timed out or failed.
    pub closed_at: Option<Millis>,
    /// When the money had gone back.
    pub refunded_at: Option<Millis>,
    /// Why it was closed.
    pub close_reason: Option<CloseReason>,
    /// What the buyer shows in the shop.
    pub coupon_code: Option<String>,
    /// Money on its way back, also on a cancelled order that was paid late.
    pub refund: Option<Refund>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [Status; 7] =
        [Status::Queued, Status::Pending, Status::Paid, Status::Cancelled, Status::Refunding, Status::Refunded, Status::Failed];
    const ACTIONS: [Action; 5] = [Action::Cancel, Action::TimeOut, Action::Pay, Action::Refund, Action::CompleteRefund];

    #[test]
    fn every_pair_of_state_and_action_has_one_answer_and_all_others_are_refused() {
        let allowed = [
            (Status::Pending, Action::Cancel, Status::Cancelled),
            (Status::Pending, Action::TimeOut, Status::Cancelled),
            (Status::Pending, Action::Pay, Status::Paid),
            (Status::Paid, Action::Refund, Status::Refunding),
            (Status::Refunding, Action::CompleteRefund, Status::Refunded),
        ];
        for state in STATES {
            for action in ACTIONS {
                let expected = allowed.iter().find(|(s, a, _)| *s == state && *a == action).map(|(_, _, to)| *to);
                assert_eq!(next(state, action), expected, "{state:?} {action:?}");
            }
        }
    }

    #[test]
    fn words_of_a_row_are_read_back() {
        for state in STATES.into_iter().filter(|s| *s != Status::Queued) {
            assert_eq!(Status::from_row(state.as_str()), Some(state));
        }
        assert_eq!(Status::from_row("QUEUED"), None);
        assert_eq!(CloseReason::from_row("LOST"), Some(CloseReason::Lost));
    }
}
