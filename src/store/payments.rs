//! Money that came in and money that goes back. What a notice means for an order is `service/`'s to carry out.

use sqlx::QueryBuilder;

use super::run::{ROWS, changed, on_store, on_tx, push_list};
use super::{Store, StoreError, Tx};
use crate::domain::ids::OrderId;
use crate::domain::money::Fen;
use crate::domain::payment::PaymentState;
use crate::domain::time::Millis;

/// Whether a notice was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventSeen {
    /// Never.
    Fresh,
    /// With the same body: a repeat.
    SameBody,
    /// With another body: not from where it says.
    OtherBody,
}

/// A payment to be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPayment<'a> {
    /// Who took the money.
    pub provider: &'a str,
    /// Its name for the transaction, unique with the provider.
    pub transaction: &'a str,
    /// For which order; its row may be missing.
    pub order: OrderId,
    /// How much.
    pub amount: Fen,
    /// Where it stands.
    pub state: PaymentState,
}

/// A payment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Which.
    pub id: i64,
    /// Who took the money.
    pub provider: String,
    /// Its name for the transaction.
    pub transaction: String,
    /// For which order.
    pub order: OrderId,
    /// How much.
    pub amount: Fen,
    /// Where it stands.
    pub state: PaymentState,
    /// When it was written down.
    pub created_at: Millis,
}

/// A refund that the provider has to be asked for, until it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundRow {
    /// The payment that goes back.
    pub payment: Payment,
    /// The key of every attempt.
    pub idem_key: String,
    /// How much.
    pub amount: Fen,
}

#[derive(sqlx::FromRow)]
struct PaymentRow {
    id: i64,
    provider: String,
    transaction_id: String,
    order_id: i64,
    amount: i64,
    state: String,
    created_at: i64,
}

impl TryFrom<PaymentRow> for Payment {
    type Error = StoreError;
    fn try_from(row: PaymentRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id,
            provider: row.provider,
            transaction: row.transaction_id,
            order: OrderId(row.order_id),
            amount: Fen(row.amount),
            state: PaymentState::from_row(&row.state).ok_or(StoreError::Corrupt("payment.state"))?,
            created_at: Millis(row.created_at),
        })
    }
}

#[derive(sqlx::FromRow)]
struct DueRefund {
    idem_key: String,
    refund_amount: i64,
    #[sqlx(flatten)]
    payment: PaymentRow,
}

macro_rules! select_payment {
    ($more:literal, $from:literal) => {
        concat!("SELECT p.id, p.provider, p.transaction_id, p.order_id, p.amount, p.state, p.created_at", $more, " FROM ", $from)
    };
}

fn into_payments(rows: Vec<PaymentRow>) -> Result<Vec<Payment>, StoreError> {
    rows.into_iter().map(Payment::try_from).collect()
}

impl Store {
    /// The payments of an order, oldest first. Uses `payment_by_order`.
    pub async fn payments_of(&self, order: OrderId) -> Result<Vec<Payment>, StoreError> {
        into_payments(on_store!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(
            select_payment!("", "payment p WHERE p.order_id = $1 ORDER BY p.id")
        ).bind(order.0).fetch_all(conn))?)
    }

    /// Payments that came before their order's row and can be decided now, oldest first: the row is there, or they wait since
    /// `since` or longer. For the sweep, because two transactions can miss each other. Uses `payment_early` and the orders'
    /// primary key.
    pub async fn ripe_early_payments(&self, since: Millis, limit: i64) -> Result<Vec<Payment>, StoreError> {
        into_payments(on_store!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(select_payment!(
            "",
            "payment p WHERE p.state = 'EARLY' AND (p.created_at <= $1 OR EXISTS (SELECT 1 FROM orders o WHERE o.id = p.order_id)) \
             ORDER BY p.id LIMIT $2"
        )).bind(since.0).bind(limit).fetch_all(conn))?)
    }

    /// The refund of a payment that the provider has not confirmed; none: nothing is owed. Uses the primary keys.
    pub async fn due_refund(&self, payment: i64) -> Result<Option<RefundRow>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, DueRefund>(select_payment!(
            ", r.idem_key, r.amount AS refund_amount",
            "refund r JOIN payment p ON p.id = r.payment_id WHERE r.state = 'DUE' AND r.payment_id = $1"
        )).bind(payment).fetch_optional(conn))?;
        let refund = |row: DueRefund| {
            Ok(RefundRow { payment: row.payment.try_into()?, idem_key: row.idem_key, amount: Fen(row.refund_amount) })
        };
        row.map(refund).transpose()
    }
}

impl Tx {
    /// Remembers a notice by the provider's id for it; `body_digest` tells a repeat from a forgery. Uses the primary key.
    pub async fn record_event(
        &mut self,
        provider: &str,
        event_id: &str,
        body_digest: &str,
        now: Millis,
    ) -> Result<EventSeen, StoreError> {
        let text = "INSERT INTO webhook_event (provider, event_id, body_digest, received_at) VALUES ($1, $2, $3, $4) \
                    ON CONFLICT (provider, event_id) DO NOTHING";
        if changed!(self, text, provider, event_id, body_digest, now.0)? == 1 {
            return Ok(EventSeen::Fresh);
        }
        let known = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, String>(
            "SELECT body_digest FROM webhook_event WHERE provider = $1 AND event_id = $2"
        ).bind(provider).bind(event_id).fetch_optional(conn))?;
        Ok(if known.as_deref() == Some(body_digest) { EventSeen::SameBody } else { EventSeen::OtherBody })
    }

    /// Writes a payment down and answers its id; none: this transaction is known, nothing changed, answer and stop. Uses the
    /// unique index on provider and transaction.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: another payment is applied to that order already (`payment_one_applied`).
    pub async fn insert_payment(&mut self, payment: &NewPayment<'_>, now: Millis) -> Result<Option<i64>, StoreError> {
        on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "INSERT INTO payment (provider, transaction_id, order_id, amount, state, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (provider, transaction_id) DO NOTHING RETURNING id"
        ).bind(payment.provider).bind(payment.transaction).bind(payment.order.0).bind(payment.amount.0)
         .bind(payment.state.as_str()).bind(now.0).fetch_optional(conn))
    }

    /// The payment of a transaction; none: never heard of. Uses the unique index on provider and transaction.
    pub async fn payment_by_transaction(&mut self, provider: &str, transaction: &str) -> Result<Option<Payment>, StoreError> {
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(
            select_payment!("", "payment p WHERE p.provider = $1 AND p.transaction_id = $2")
        ).bind(provider).bind(transaction).fetch_optional(conn))?;
        row.map(Payment::try_from).transpose()
    }

    /// The payments that wait for one of these orders, oldest first. Uses `payment_early`, which is empty nearly always (this
    /// is the hot path), then `payment_by_order`.
    pub async fn early_payments_of(&mut self, orders: &[OrderId]) -> Result<Vec<Payment>, StoreError> {
        let mut found = Vec::new();
        let any = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, bool>(
            "SELECT EXISTS (SELECT 1 FROM payment WHERE state = 'EARLY')"
        ).fetch_one(conn))?;
        if !any {
            return Ok(found);
        }
        for chunk in orders.chunks(ROWS) {
            let rows = on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new(select_payment!("", "payment p WHERE p.state = 'EARLY' AND p.order_id IN "));
                push_list(&mut sql, chunk.iter().map(|id| id.0));
                sql.push(" ORDER BY p.id");
                sql.build_query_as::<PaymentRow>().persistent(chunk.len() == ROWS).fetch_all(conn).await
            })?;
            found.extend(into_payments(rows)?);
        }
        Ok(found)
    }

    /// The payment that paid an order; none: it is not paid. Uses `payment_by_order`.
    pub async fn applied_payment_of(&mut self, order: OrderId) -> Result<Option<Payment>, StoreError> {
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, PaymentRow>(
            select_payment!("", "payment p WHERE p.order_id = $1 AND p.state = 'APPLIED'")
        ).bind(order.0).fetch_optional(conn))?;
        row.map(Payment::try_from).transpose()
    }

    /// Moves a payment from one state to another; false: it is not in `from`, and nothing changed. Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: to APPLIED, when another payment is applied to that order already.
    pub async fn set_payment_state(&mut self, payment: i64, from: PaymentState, to: PaymentState) -> Result<bool, StoreError> {
        let text = "UPDATE payment SET state = $3 WHERE id = $1 AND state = $2";
        Ok(changed!(self, text, payment, from.as_str(), to.as_str())? == 1)
    }

    /// Owes a payment back, once for ever and under one key; false: it is owed already. Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: the key belongs to another payment.
    pub async fn insert_refund(&mut self, payment: i64, idem_key: &str, amount: Fen, now: Millis) -> Result<bool, StoreError> {
        let text = "INSERT INTO refund (payment_id, idem_key, amount, state, created_at) VALUES ($1, $2, $3, 'DUE', $4) \
                    ON CONFLICT (payment_id) DO NOTHING";
        Ok(changed!(self, text, payment, idem_key, amount.0, now.0)? == 1)
    }

    /// Notes that the provider has sent a payment back; false: that was noted before. Uses the primary key.
    pub async fn finish_refund(&mut self, payment: i64, now: Millis) -> Result<bool, StoreError> {
        let text = "UPDATE refund SET state = 'DONE', done_at = $2 WHERE payment_id = $1 AND state = 'DUE'";
        Ok(changed!(self, text, payment, now.0)? == 1)
    }
}
