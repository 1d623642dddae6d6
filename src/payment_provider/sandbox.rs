//! The built-in provider's mind: what each button of its page does to its books, and which notices follow.
//!
//! Pure. Its books and its letters out are kept by `service/sandbox_provider.rs`.

use std::time::Duration;

use serde_json::json;

use super::notice::{CURRENCY, PAID};
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::time::Millis;

/// A button of the page, by its form field `do`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Money is taken, the shop is told once.
    Approve,
    /// The bank says no; no money is taken.
    Decline,
    /// Money is taken once, the shop is told twice.
    Twice,
    /// Money is taken, and the shop hears of it after its pay window.
    Late,
    /// The notice names another amount; no money is taken.
    WrongAmount,
}

impl Deed {
    /// The button that a form's word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "approve" => Self::Approve,
            "decline" => Self::Decline,
            "twice" => Self::Twice,
            "late" => Self::Late,
            "wrong-amount" => Self::WrongAmount,
            _ => return None,
        })
    }
}

/// A notice to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The body, signed as it is when it is sent.
    pub body: String,
    /// Not before.
    pub send_at: Millis,
}

/// What a deed leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consequences {
    /// Money that was taken, for the books.
    pub taken: Option<Fen>,
    /// Notices, in their order.
    pub letters: Vec<Letter>,
}

/// What `deed` leads to for a payment of `amount`. `late` is the shop's pay window: a late notice comes after it.
#[must_use]
pub fn consequences(deed: Deed, order: OrderId, amount: Fen, transaction: &str, now: Millis, late: Duration) -> Consequences {
    let letter = |kind: &str, amount: Fen, send_at: Millis| {
        let data = json!({ "orderId": order, "transactionId": transaction, "amount": amount, "currency": CURRENCY });
        Letter { body: json!({ "type": kind, "timestamp": now.rfc3339(), "data": data }).to_string(), send_at }
    };
    let paid = |at| letter(PAID, amount, at);
    match deed {
        Deed::Approve => Consequences { taken: Some(amount), letters: vec![paid(now)] },
        Deed::Twice => Consequences { taken: Some(amount), letters: vec![paid(now), paid(now)] },
        // An order is younger than its payment, so its window ends before this.
        Deed::Late => Consequences { taken: Some(amount), letters: vec![paid(now + late + Duration::from_secs(2))] },
        Deed::Decline => Consequences { taken: None, letters: vec![letter("payment.failed", amount, now)] },
        Deed::WrongAmount => Consequences { taken: None, letters: vec![letter(PAID, Fen(amount.0 + 1), now)] },
    }
}

#[cfg(test)]
mod tests {
    use super::super::notice::{Notice, read};
    use super::*;

    #[test]
    fn money_is_taken_exactly_where_a_true_notice_says_so() {
        let now = Millis(1_783_123_200_000);
        for word in ["approve", "decline", "twice", "late", "wrong-amount"] {
            let deed = Deed::from_word(word).unwrap();
            let made = consequences(deed, OrderId(5), Fen(1200), "txn_1", now, Duration::from_mins(15));
            let says = |letter: &Letter| match read(letter.body.as_bytes()).unwrap() {
                Notice::Paid(paid) => paid.order == OrderId(5) && paid.transaction == "txn_1" && paid.amount == Fen(1200),
                Notice::Other => false,
            };
            assert_eq!(made.taken.is_some(), made.letters.iter().all(says), "{word}");
            assert_eq!(made.letters.len(), if deed == Deed::Twice { 2 } else { 1 });
            assert_eq!(made.letters[0].send_at > now + Duration::from_mins(15), deed == Deed::Late);
        }
        assert_eq!(Deed::from_word("Approve"), None);
    }
}
