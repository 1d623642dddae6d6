//! Orders coming to be: the statements of the placing transaction. Few and multi-row, because this is the hot path.
//!
//! "Not returned" has two meanings (the id is there already, or its buyer has a live order); `identify` tells them apart.

use sqlx::QueryBuilder;

use super::run::{ROWS, on_tx, push_list};
use super::{StoreError, Tx};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::order::{CloseReason, Status};
use crate::domain::time::Millis;

/// An admitted order that is to be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    /// Its id, from admission.
    pub id: OrderId,
    /// Its buyer.
    pub user: UserId,
    /// Its voucher.
    pub voucher: VoucherId,
    /// The sale's epoch at admission.
    pub epoch: Epoch,
    /// When the gate let it in.
    pub admitted_at: Millis,
    /// The price.
    pub pay_amount: Fen,
    /// When the row is written.
    pub created_at: Millis,
    /// Until when it may be paid.
    pub pay_before: Millis,
}

/// An id that has a row, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownOrder {
    /// The id.
    pub id: OrderId,
    /// The row's buyer.
    pub user: UserId,
    /// The row's voucher.
    pub voucher: VoucherId,
    /// Where it stands.
    pub status: Status,
}

impl Tx {
    /// Refuses orders of users that do not exist, before anything is written. A look-up instead of a reference in the
    /// schema: that one would lock a row of `users` for each order (the migration says what it costs). It is as good,
    /// because users are never deleted. Uses the primary key of `users`, on Postgres too: asked with IN it would read the
    /// whole table.
    async fn know_users_of(&mut self, orders: &[NewOrder]) -> Result<(), StoreError> {
        for chunk in orders.chunks(ROWS) {
            let unknown = on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("SELECT COUNT(*) FROM (");
                sql.push_values(chunk, |mut row, order| {
                    row.push_bind(order.user.0);
                });
                sql.push(") AS buyer WHERE (SELECT u.id FROM users u WHERE u.id = buyer.column1) IS NULL");
                sql.build_query_scalar::<i64>().persistent(chunk.len() == ROWS).fetch_one(conn).await
            })?;
            if unknown > 0 {
                return Err(StoreError::UnknownReference);
            }
        }
        Ok(())
    }

    /// Saves orders as PENDING and answers, ascending, the ids that became rows. Left out: ids that have a row, and buyers
    /// with a live order of that voucher (of two in one call the first wins). Give them in ascending order of ids, so that
    /// two transactions wait for each other in one direction only. Uses the primary key and `orders_one_live`. Rows and not
    /// arrays (UNNEST) on Postgres too: measured with batches of 500, both take the same time.
    ///
    /// # Errors
    /// [`StoreError::UnknownReference`]: one of the users does not exist, nothing was saved; halve until it stands alone.
    pub async fn insert_pending(&mut self, orders: &[NewOrder]) -> Result<Vec<OrderId>, StoreError> {
        self.know_users_of(orders).await?;
        let mut saved = Vec::with_capacity(orders.len());
        for chunk in orders.chunks(ROWS) {
            saved.extend(on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new(
                    "INSERT INTO orders (id, user_id, voucher_id, epoch, admitted_at, pay_amount, created_at, pay_before, \
                     status, live) ",
                );
                sql.push_values(chunk, |mut row, order| {
                    row.push_bind(order.id.0).push_bind(order.user.0).push_bind(order.voucher.0).push_bind(order.epoch)
                        .push_bind(order.admitted_at.0).push_bind(order.pay_amount.0).push_bind(order.created_at.0)
                        .push_bind(order.pay_before.0).push("'PENDING', TRUE");
                });
                sql.push(" ON CONFLICT DO NOTHING RETURNING id");
                sql.build_query_scalar::<i64>().persistent(chunk.len() == ROWS).fetch_all(conn).await
            })?);
        }
        saved.sort_unstable();
        Ok(saved.into_iter().map(OrderId).collect())
    }

    /// Saves orders as FAILED for one reason and answers, ascending, the ids that became rows; an id that has a row keeps it,
    /// and must get no release. Uses the primary key.
    ///
    /// # Errors
    /// As [`insert_pending`](Self::insert_pending).
    pub async fn insert_failed(
        &mut self,
        orders: &[NewOrder],
        reason: CloseReason,
        now: Millis,
    ) -> Result<Vec<OrderId>, StoreError> {
        self.know_users_of(orders).await?;
        let mut saved = Vec::with_capacity(orders.len());
        for chunk in orders.chunks(ROWS) {
            saved.extend(on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new(
                    "INSERT INTO orders (id, user_id, voucher_id, epoch, admitted_at, pay_amount, created_at, closed_at, \
                     close_reason, status, live) ",
                );
                sql.push_values(chunk, |mut row, order| {
                    row.push_bind(order.id.0).push_bind(order.user.0).push_bind(order.voucher.0).push_bind(order.epoch)
                        .push_bind(order.admitted_at.0).push_bind(order.pay_amount.0).push_bind(order.created_at.0)
                        .push_bind(now.0).push_bind(reason.as_str()).push("'FAILED', FALSE");
                });
                sql.push(" ON CONFLICT (id) DO NOTHING RETURNING id");
                sql.build_query_scalar::<i64>().persistent(chunk.len() == ROWS).fetch_all(conn).await
            })?);
        }
        saved.sort_unstable();
        Ok(saved.into_iter().map(OrderId).collect())
    }

    /// Which of `ids` have a row, and whose each is. Uses the primary key.
    pub async fn identify(&mut self, ids: &[OrderId]) -> Result<Vec<KnownOrder>, StoreError> {
        let mut known = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(ROWS) {
            let rows = on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("SELECT id, user_id, voucher_id, status FROM orders WHERE id IN ");
                push_list(&mut sql, chunk.iter().map(|id| id.0));
                sql.build_query_as::<(i64, i64, i64, String)>().persistent(false).fetch_all(conn).await
            })?;
            for (id, user, voucher, status) in rows {
                let status = Status::from_row(&status).ok_or(StoreError::Corrupt("orders.status"))?;
                known.push(KnownOrder { id: OrderId(id), user: UserId(user), voucher: VoucherId(voucher), status });
            }
        }
        Ok(known)
    }
}
