//! How orders stand, asked a page at a time: for whoever compares the books with the gate while a sale goes on.
//!
//! Reads only, but for one repair: the units left of a sale, counted anew under its lock.

use sqlx::QueryBuilder;

use super::run::{changed, on_store, push_list};
use super::{Store, StoreError, Tx};
use crate::domain::ids::{OrderId, UserId, VoucherId};

/// How one order stands, as one snapshot has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub order: OrderId,
    /// Whose.
    pub user: UserId,
    /// Of which voucher.
    pub voucher: VoucherId,
    /// It holds its unit.
    pub live: bool,
    /// Its unit is on its way back to the gate.
    pub releasing: bool,
}

impl Store {
    /// Live orders of a voucher by user, above `after`, at most `limit`. Uses `orders_one_live`.
    pub async fn live_page(&self, voucher: VoucherId, after: UserId, limit: i64) -> Result<Vec<(UserId, OrderId)>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(
            "SELECT user_id, id FROM orders WHERE voucher_id = $1 AND live AND user_id > $2 ORDER BY user_id LIMIT $3"
        ).bind(voucher.0).bind(after.0).bind(limit).fetch_all(conn))?;
        Ok(rows.into_iter().map(|(user, order)| (UserId(user), OrderId(order))).collect())
    }

    /// How these orders stand, in one snapshot; an order without a row is left out. Uses the primary key and the unique
    /// index on `dedupe_key`.
    pub async fn standings(&self, orders: &[OrderId]) -> Result<Vec<Standing>, StoreError> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let rows = on_store!(self, Db, conn => async {
            let mut sql = QueryBuilder::<Db>::new(
                "SELECT o.id, o.user_id, o.voucher_id, o.live, EXISTS (SELECT 1 FROM outbox x \
                 WHERE x.dedupe_key = 'release:' || CAST(o.id AS TEXT) AND x.done_at IS NULL) FROM orders o WHERE o.id IN ",
            );
            push_list(&mut sql, orders.iter().map(|order| order.0));
            sql.build_query_as::<(i64, i64, i64, bool, bool)>().persistent(false).fetch_all(conn).await
        })?;
        let standing = |(id, user, voucher, live, releasing)| Standing {
            order: OrderId(id),
            user: UserId(user),
            voucher: VoucherId(voucher),
            live,
            releasing,
        };
        Ok(rows.into_iter().map(standing).collect())
    }
}

impl Tx {
    /// Writes what the live orders leave of a sale's total; its row must be locked, and `left` counted after that. Uses the
    /// primary key.
    ///
    /// # Errors
    /// [`StoreError::Other`]: below nothing or above the total (a check of the table).
    pub async fn mend_stock_left(&mut self, voucher: VoucherId, left: i64) -> Result<(), StoreError> {
        changed!(self, "UPDATE flash_sale SET stock_left = $2 WHERE voucher_id = $1", voucher.0, left).map(drop)
    }
}
