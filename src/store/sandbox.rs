//! The sandbox provider's books: payments started, money in and out, notices on their way. Another company's tables, which
//! only happen to lie in the same file.

use super::run::{changed, on_store, on_tx};
use super::{Store, StoreError, Tx};
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::time::Millis;

/// A payment that somebody may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPayment {
    /// Its name, which nobody can guess.
    pub id: String,
    /// For which order of the shop.
    pub order: OrderId,
    /// How much.
    pub amount: Fen,
    /// Where notices go.
    pub callback_url: String,
    /// Where the buyer goes afterwards.
    pub return_url: String,
}

/// Which way money went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the buyer.
    Paid,
    /// Back to the buyer.
    Refunded,
}

impl Way {
    /// The word of the row.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Refunded => "refunded",
        }
    }
}

/// A line of the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxEntry {
    /// Which way.
    pub way: Way,
    /// What makes it the same movement: the transaction of a payment, the idempotency key of a refund.
    pub key: String,
    /// The transaction.
    pub transaction: String,
    /// The order that it was for.
    pub order: OrderId,
    /// How much.
    pub amount: Fen,
    /// When.
    pub at: Millis,
}

/// A notice on its way.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct SandboxLetter {
    /// `webhook-id`.
    pub id: String,
    /// Where it goes.
    pub callback_url: String,
    /// What it says.
    pub body: String,
    /// How often it was sent in vain.
    pub attempts: i64,
}

type EntryRow = (String, String, String, i64, i64, i64);

impl TryFrom<EntryRow> for SandboxEntry {
    type Error = StoreError;
    fn try_from((kind, key, transaction, order, amount, at): EntryRow) -> Result<Self, StoreError> {
        let way = [Way::Paid, Way::Refunded].into_iter().find(|way| way.as_str() == kind);
        let way = way.ok_or(StoreError::Corrupt("sandbox_entry.kind"))?;
        Ok(Self { way, key, transaction, order: OrderId(order), amount: Fen(amount), at: Millis(at) })
    }
}

type PaymentRow = (String, i64, i64, String, String);

impl From<PaymentRow> for SandboxPayment {
    fn from((id, order, amount, callback_url, return_url): PaymentRow) -> Self {
        Self { id, order: OrderId(order), amount: Fen(amount), callback_url, return_url }
    }
}

impl Store {
    /// A payment by its name. Uses the primary key.
    pub async fn sandbox_payment(&self, id: &str) -> Result<Option<SandboxPayment>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(
            "SELECT id, order_id, amount, callback_url, return_url FROM sandbox_payment WHERE id = $1"
        ).bind(id).fetch_optional(conn))?;
        Ok(row.map(SandboxPayment::from))
    }

    /// Every line of the books, oldest first.
    pub async fn sandbox_entries(&self) -> Result<Vec<SandboxEntry>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, EntryRow>(
            "SELECT kind, entry_key, transaction_id, order_id, amount, created_at FROM sandbox_entry ORDER BY id"
        ).fetch_all(conn))?;
        rows.into_iter().map(SandboxEntry::try_from).collect()
    }

    /// What a transaction took, and for which order; none: unknown. Uses `sandbox_entry_by_transaction`.
    pub async fn sandbox_taken(&self, transaction: &str) -> Result<Option<(Fen, OrderId)>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(
            "SELECT amount, order_id FROM sandbox_entry WHERE transaction_id = $1 AND kind = 'paid'"
        ).bind(transaction).fetch_optional(conn))?;
        Ok(row.map(|(amount, order)| (Fen(amount), OrderId(order))))
    }

    /// Notices that are due at `now`, the longest waiting first. Uses `sandbox_letter_due`.
    pub async fn sandbox_letters_due(&self, now: Millis, limit: i64) -> Result<Vec<SandboxLetter>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, SandboxLetter>(
            "SELECT id, callback_url, body, attempts FROM sandbox_letter WHERE done_at IS NULL AND next_at <= $1 \
             ORDER BY next_at LIMIT $2"
        ).bind(now.0).bind(limit).fetch_all(conn))
    }
}

impl Tx {
    /// Writes a payment down and answers the order's one payment, this or an earlier one. Uses the unique index on the order.
    pub async fn put_sandbox_payment(&mut self, payment: &SandboxPayment, now: Millis) -> Result<SandboxPayment, StoreError> {
        let text = "INSERT INTO sandbox_payment (id, order_id, amount, callback_url, return_url, created_at) \
                    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (order_id) DO NOTHING";
        let (callback, back) = (payment.callback_url.as_str(), payment.return_url.as_str());
        changed!(self, text, payment.id.as_str(), payment.order.0, payment.amount.0, callback, back, now.0)?;
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(
            "SELECT id, order_id, amount, callback_url, return_url FROM sandbox_payment WHERE order_id = $1"
        ).bind(payment.order.0).fetch_one(conn))?;
        Ok(row.into())
    }

    /// Writes a movement of money down; none: this is a new one. Else the line that its key stands for, unchanged. Uses the
    /// unique index on kind and key.
    pub async fn put_sandbox_entry(&mut self, entry: &SandboxEntry) -> Result<Option<SandboxEntry>, StoreError> {
        let text = "INSERT INTO sandbox_entry (kind, entry_key, transaction_id, order_id, amount, created_at) \
                    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (kind, entry_key) DO NOTHING";
        let (kind, key, transaction) = (entry.way.as_str(), entry.key.as_str(), entry.transaction.as_str());
        if changed!(self, text, kind, key, transaction, entry.order.0, entry.amount.0, entry.at.0)? == 1 {
            return Ok(None);
        }
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, EntryRow>(
            "SELECT kind, entry_key, transaction_id, order_id, amount, created_at FROM sandbox_entry \
             WHERE kind = $1 AND entry_key = $2"
        ).bind(kind).bind(key).fetch_one(conn))?;
        row.try_into().map(Some)
    }

    /// Puts a notice on its way, not before `send_at`. Uses the primary key.
    pub async fn put_sandbox_letter(&mut self, id: &str, to: &str, body: &str, send_at: Millis) -> Result<(), StoreError> {
        let text = "INSERT INTO sandbox_letter (id, callback_url, body, next_at) VALUES ($1, $2, $3, $4)";
        changed!(self, text, id, to, body, send_at.0).map(drop)
    }

    /// Takes a notice off its way: it was answered, or is given up. Uses the primary key.
    pub async fn finish_sandbox_letter(&mut self, id: &str, now: Millis) -> Result<(), StoreError> {
        changed!(self, "UPDATE sandbox_letter SET done_at = $2 WHERE id = $1 AND done_at IS NULL", id, now.0).map(drop)
    }

    /// Puts a notice off until `next_at` and counts the attempt. Uses the primary key.
    pub async fn retry_sandbox_letter(&mut self, id: &str, next_at: Millis) -> Result<(), StoreError> {
        let text = "UPDATE sandbox_letter SET attempts = attempts + 1, next_at = $2 WHERE id = $1 AND done_at IS NULL";
        changed!(self, text, id, next_at.0).map(drop)
    }
}
