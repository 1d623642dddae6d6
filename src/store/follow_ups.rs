//! What follows a payment or a refund on the rows of order and outbox, each exactly once.

use super::run::{changed, on_store};
use super::{OutboxRow, Store, StoreError, Tx};
use crate::domain::ids::{OrderId, VoucherId};
use crate::domain::order::Order;
use crate::domain::time::Millis;

impl Store {
    /// The outbox row of a key, done or not; none: nothing was ever written under it. Uses the unique index on `dedupe_key`.
    pub async fn outbox_row(&self, dedupe_key: &str) -> Result<Option<OutboxRow>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, OutboxRow>(
            "SELECT id, kind, dedupe_key, payload, attempts FROM outbox WHERE dedupe_key = $1"
        ).bind(dedupe_key).fetch_optional(conn))
    }
}

impl Tx {
    /// Takes an outbox row for this transaction: what it asks for is done by what else the transaction does. False: it was
    /// done before, do nothing. Of two that race, the second waits and gets false. Uses the primary key.
    pub async fn take_outbox(&mut self, row: i64, now: Millis) -> Result<bool, StoreError> {
        let text = "UPDATE outbox SET done_at = $2 WHERE id = $1 AND done_at IS NULL";
        Ok(changed!(self, text, row, now.0)? == 1)
    }

    /// Gives a paid order its code and answers it as it now is; none: it is not paid any more, or has one. Uses the primary
    /// key.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: the code belongs to another order (`orders_coupon`); take another.
    pub async fn give_coupon(&mut self, order: OrderId, code: &str) -> Result<Option<Order>, StoreError> {
        let text = "UPDATE orders SET coupon_code = $2, version = version + 1 \
                    WHERE id = $1 AND status = 'PAID' AND coupon_code IS NULL";
        if changed!(self, text, order.0, code)? == 0 {
            return Ok(None);
        }
        self.order(order).await
    }

    /// Notes on an order that money beside its own came or went: its version grows, and an order that was closed unpaid gets
    /// the times of the money that came too late. Its status stays. Uses the primary key.
    pub async fn note_money(
        &mut self,
        order: OrderId,
        came_at: Option<Millis>,
        went_at: Option<Millis>,
    ) -> Result<Option<Order>, StoreError> {
        let text = "UPDATE orders SET version = version + 1, \
                    paid_at = CASE WHEN status IN ('CANCELLED', 'FAILED') THEN COALESCE(paid_at, $2) ELSE paid_at END, \
                    refunded_at = CASE WHEN status IN ('CANCELLED', 'FAILED') THEN COALESCE(refunded_at, $3) ELSE refunded_at END \
                    WHERE id = $1";
        let done = changed!(self, text, order.0, came_at.map(|at| at.0), went_at.map(|at| at.0))?;
        if done == 0 { Ok(None) } else { self.order(order).await }
    }

    /// Puts `k` units back, last in the transaction that ended their orders; false: no such sale. Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Other`]: more would be left than was ever on sale (a check of the table).
    pub async fn return_units(&mut self, voucher: VoucherId, k: i64) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET stock_left = stock_left + $2 WHERE voucher_id = $1";
        Ok(changed!(self, text, voucher.0, k)? == 1)
    }
}
