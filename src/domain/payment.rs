//! Payments: what a notice from the provider means for an order. Signatures are `payment_provider/`'s.

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaymentState {
    /// Came before the order row; applied or refunded later.
    Early,
    /// Paid for the order.
    Applied,
    /// Must go back.
    RefundDue,
    /// Has gone back.
    Refunded,
}

impl PaymentState {
    /// The word of API and SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Early => "EARLY",
            Self::Applied => "APPLIED",
            Self::RefundDue => "REFUND_DUE",
            Self::Refunded => "REFUNDED",
        }
    }

    /// The state that a row's word means.
    #[must_use]
    pub fn from_row(word: &str) -> Option<Self> {
        [Self::Early, Self::Applied, Self::RefundDue, Self::Refunded].into_iter().find(|s| s.as_str() == word)
    }
}
