//! Where each order is paid: the provider's page, remembered so that a second click leads to the same payment.

use super::run::{changed, on_store};
use super::{Store, StoreError, Tx};
use crate::domain::ids::OrderId;
use crate::domain::time::Millis;

impl Store {
    /// The page on which an order is paid; none: no payment was started. Uses the primary key.
    pub async fn payment_link(&self, order: OrderId) -> Result<Option<String>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, String>(
            "SELECT pay_url FROM payment_link WHERE order_id = $1"
        ).bind(order.0).fetch_optional(conn))
    }
}

impl Tx {
    /// Remembers the payment that was started for an order; false: one is remembered already, and stays. Uses the primary
    /// key.
    pub async fn put_payment_link(
        &mut self,
        order: OrderId,
        payment_id: &str,
        pay_url: &str,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let text = "INSERT INTO payment_link (order_id, payment_id, pay_url, created_at) VALUES ($1, $2, $3, $4) \
                    ON CONFLICT (order_id) DO NOTHING";
        Ok(changed!(self, text, order.0, payment_id, pay_url, now.0)? == 1)
    }
}
