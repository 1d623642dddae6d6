//! Orders that have a row: reading them, and moving them from one state to the next. `place.rs` has their beginning.

use sqlx::QueryBuilder;

use super::run::{bounded, changed, on_store, on_tx, push_list};
use super::tx::Inner;
use super::{Store, StoreError, Tx};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::order::{CloseReason, Order, Refund, Status};
use crate::domain::time::Millis;

/// The statement of [`Store::due_orders`]; public, so that a test can ask both databases for its plan.
pub const DUE_ORDERS: &str = "SELECT id FROM orders WHERE status = 'PENDING' AND pay_before <= $1 ORDER BY pay_before LIMIT $2";

/// The statement of [`Store::next_deadline`]; public, so that a test can ask both databases for its plan.
pub const NEXT_DEADLINE: &str = "SELECT pay_before FROM orders WHERE status = 'PENDING' ORDER BY pay_before LIMIT 1";

/// What a change of state writes beside the state; what is none stays as it was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When it was paid.
    pub paid_at: Option<Millis>,
    /// When it was cancelled or timed out.
    pub closed_at: Option<Millis>,
    /// When the money had gone back.
    pub refunded_at: Option<Millis>,
    /// Why it was closed.
    pub close_reason: Option<CloseReason>,
    /// What the buyer shows in the shop. Leaving PAID voids it.
    pub coupon_code: Option<String>,
    /// REFUNDED only: the unit goes back on sale, the order is not live any more.
    pub restock: bool,
}

#[derive(sqlx::FromRow)]
pub(super) struct OrderRow {
    id: i64,
    user_id: i64,
    voucher_id: i64,
    voucher_title: String,
    status: String,
    version: i64,
    pay_amount: i64,
    epoch: i64,
    created_at: i64,
    pay_before: Option<i64>,
    paid_at: Option<i64>,
    closed_at: Option<i64>,
    refunded_at: Option<i64>,
    close_reason: Option<String>,
    coupon_code: Option<String>,
    refund_due: bool,
    refund_done: bool,
}

impl TryFrom<OrderRow> for Order {
    type Error = StoreError;
    fn try_from(row: OrderRow) -> Result<Self, StoreError> {
        let status = Status::from_row(&row.status).ok_or(StoreError::Corrupt("orders.status"))?;
        let close_reason = match row.close_reason {
            Some(word) => Some(CloseReason::from_row(&word).ok_or(StoreError::Corrupt("orders.close_reason"))?),
            None => None,
        };
        let refund = if row.refund_due || status == Status::Refunding {
            Some(Refund::Due)
        } else if row.refund_done || status == Status::Refunded {
            Some(Refund::Done)
        } else {
            None
        };
        Ok(Self {
            id: OrderId(row.id),
            user: UserId(row.user_id),
            voucher: VoucherId(row.voucher_id),
            voucher_title: row.voucher_title,
            status,
            version: row.version,
            ahead: None,
            pay_amount: Fen(row.pay_amount),
            epoch: row.epoch,
            created_at: Millis(row.created_at),
            pay_before: row.pay_before.map(Millis),
            paid_at: row.paid_at.map(Millis),
            closed_at: row.closed_at.map(Millis),
            refunded_at: row.refunded_at.map(Millis),
            close_reason,
            coupon_code: row.coupon_code,
            refund,
        })
    }
}

pub(super) fn into_orders(rows: Vec<OrderRow>) -> Result<Vec<Order>, StoreError> {
    rows.into_iter().map(Order::try_from).collect()
}

/// Every reading of orders: the row, its voucher's title, and whether money is on its way back (`payment_by_order`).
/// COALESCE gives the columns of a row that is missing (an outer join) a value to decode.
macro_rules! select_order {
    ($more:literal, $from:literal) => {
        concat!(
            "SELECT COALESCE(o.id, 0) AS id, COALESCE(o.user_id, 0) AS user_id, COALESCE(o.voucher_id, 0) AS voucher_id, \
             COALESCE(o.status, 'FAILED') AS status, COALESCE(o.version, 0) AS version, \
             COALESCE(o.pay_amount, 0) AS pay_amount, COALESCE(o.epoch, 0) AS epoch, \
             COALESCE(o.created_at, 0) AS created_at, o.pay_before, o.paid_at, o.closed_at, o.refunded_at, o.close_reason, \
             o.coupon_code, COALESCE((SELECT v.title FROM voucher v WHERE v.id = o.voucher_id), '') AS voucher_title, \
             EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.id AND p.state = 'REFUND_DUE') AS refund_due, \
             EXISTS (SELECT 1 FROM payment p WHERE p.order_id = o.id AND p.state = 'REFUNDED') AS refund_done",
            $more,
            " FROM ",
            $from
        )
    };
}

pub(super) use select_order;

const ORDER_BY_ID: &str = select_order!("", "orders o WHERE o.id = $1");

#[derive(sqlx::FromRow)]
struct OrderAndEpoch {
    sale_epoch: Option<i64>,
    #[sqlx(flatten)]
    order: OrderRow,
}

impl Store {
    /// One order. Uses the primary key.
    pub async fn order(&self, id: OrderId) -> Result<Option<Order>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(ORDER_BY_ID).bind(id.0).fetch_optional(conn))?;
        row.map(Order::try_from).transpose()
    }

    /// One order and the epoch of one sale, each if there, in one snapshot: read one after the other, a rebuild in between
    /// would make a saved order look lost. Uses the primary keys.
    pub async fn order_and_epoch(&self, id: OrderId, voucher: VoucherId) -> Result<(Option<Order>, Option<Epoch>), StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, OrderAndEpoch>(select_order!(
            ", s.epoch AS sale_epoch",
            "(SELECT 1 AS one) x LEFT JOIN orders o ON o.id = $1 LEFT JOIN flash_sale s ON s.voucher_id = $2"
        )).bind(id.0).bind(voucher.0).fetch_one(conn))?;
        let order = if row.order.id == 0 { None } else { Some(row.order.try_into()?) };
        Ok((order, row.sale_epoch))
    }

    /// A user's orders below `before`, newest first. Uses `orders_by_user`.
    pub async fn orders_of(&self, user: UserId, before: Option<OrderId>, limit: i64) -> Result<Vec<Order>, StoreError> {
        let below = before.map_or(i64::MAX, |id| id.0);
        into_orders(on_store!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(select_order!(
            "", "orders o WHERE o.user_id = $1 AND o.id < $2 ORDER BY o.id DESC LIMIT $3"
        )).bind(user.0).bind(below).bind(limit).fetch_all(conn))?)
    }

    /// A user's live orders and those that changed at or after `since`, newest first. Uses `orders_by_user`.
    pub async fn live_and_recent(&self, user: UserId, since: Millis, limit: i64) -> Result<Vec<Order>, StoreError> {
        into_orders(on_store!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(select_order!(
            "",
            "orders o WHERE o.user_id = $1 AND (o.live OR o.created_at >= $2 OR o.paid_at >= $2 OR o.closed_at >= $2 \
             OR o.refunded_at >= $2) ORDER BY o.id DESC LIMIT $3"
        )).bind(user.0).bind(since.0).bind(limit).fetch_all(conn))?)
    }

    /// The live order that a user has of a voucher. Uses `orders_one_live`.
    pub async fn live_order_of(&self, user: UserId, voucher: VoucherId) -> Result<Option<Order>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(
            select_order!("", "orders o WHERE o.voucher_id = $1 AND o.user_id = $2 AND o.live")
        ).bind(voucher.0).bind(user.0).fetch_optional(conn))?;
        row.map(Order::try_from).transpose()
    }

    /// The live orders that a user has of `vouchers`, one a voucher at most. Uses `orders_one_live`.
    pub async fn held_by(&self, user: UserId, vouchers: &[VoucherId]) -> Result<Vec<Order>, StoreError> {
        if vouchers.is_empty() {
            return Ok(Vec::new());
        }
        into_orders(on_store!(self, Db, conn => async {
            let mut sql = QueryBuilder::<Db>::new(select_order!("", "orders o WHERE o.live AND o.user_id = "));
            sql.push_bind(user.0).push(" AND o.voucher_id IN ");
            push_list(&mut sql, vouchers.iter().map(|v| v.0));
            sql.build_query_as::<OrderRow>().persistent(false).fetch_all(conn).await
        })?)
    }

    /// PENDING orders whose time to pay is over at `now`, the longest overdue first. Uses `orders_due`, never the table.
    pub async fn due_orders(&self, now: Millis, limit: i64) -> Result<Vec<OrderId>, StoreError> {
        let ids = on_store!(self, Db, conn =>
            sqlx::query_scalar::<Db, i64>(DUE_ORDERS).bind(now.0).bind(limit).fetch_all(conn))?;
        Ok(ids.into_iter().map(OrderId).collect())
    }

    /// When the next PENDING order falls due; none: there is no such order. Uses `orders_due`, never the table.
    pub async fn next_deadline(&self) -> Result<Option<Millis>, StoreError> {
        let at = on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(NEXT_DEADLINE).fetch_optional(conn))?;
        Ok(at.map(Millis))
    }
}

macro_rules! transition {
    ($guard:literal) => {
        concat!(
            "UPDATE orders SET status = $3, live = $4, version = version + 1, paid_at = COALESCE($5, paid_at), \
             closed_at = COALESCE($6, closed_at), refunded_at = COALESCE($7, refunded_at), \
             close_reason = COALESCE($8, close_reason), \
             coupon_code = CASE WHEN $3 = 'PAID' THEN COALESCE($9, coupon_code) END WHERE id = $1",
            $guard
        )
    };
}

impl Tx {
    /// As [`Store::due_orders`], and on Postgres locked for this transaction, without those that another one has locked: two
    /// workers then close different orders instead of waiting for each other. SQLite has one writer anyway. Uses `orders_due`.
    pub async fn take_due_orders(&mut self, now: Millis, limit: i64) -> Result<Vec<OrderId>, StoreError> {
        let ids = match &mut self.inner {
            Inner::Sqlite(tx) => {
                bounded(sqlx::query_scalar::<_, i64>(DUE_ORDERS).bind(now.0).bind(limit).fetch_all(&mut **tx)).await
            }
            Inner::Postgres(tx) => {
                let text = "SELECT id FROM orders WHERE status = 'PENDING' AND pay_before <= $1 ORDER BY pay_before LIMIT $2 \
                            FOR UPDATE SKIP LOCKED";
                bounded(sqlx::query_scalar::<_, i64>(text).bind(now.0).bind(limit).fetch_all(&mut **tx)).await
            }
        };
        self.spoiled |= ids.is_err();
        Ok(ids?.into_iter().map(OrderId).collect())
    }

    /// Moves an order from one state to another and answers it as it now is; none: it is not in `from`, and nothing changed.
    /// Which move is allowed is `domain::order`'s to say; of two that race, one gets none. Uses the primary key.
    pub async fn transition(
        &mut self,
        id: OrderId,
        from: Status,
        to: Status,
        stamps: &Stamps,
    ) -> Result<Option<Order>, StoreError> {
        let live = match to {
            Status::Queued | Status::Cancelled | Status::Failed => false,
            Status::Pending | Status::Paid | Status::Refunding => true,
            Status::Refunded => !stamps.restock,
        };
        let text = transition!(" AND status = $2");
        #[cfg(feature = "fault-injection")]
        let text = if crate::fault::mutant("unguarded-update") { transition!(" AND $2 <> ''") } else { text };
        let done = changed!(
            self,
            text,
            id.0,
            from.as_str(),
            to.as_str(),
            live,
            stamps.paid_at.map(|at| at.0),
            stamps.closed_at.map(|at| at.0),
            stamps.refunded_at.map(|at| at.0),
            stamps.close_reason.map(CloseReason::as_str),
            stamps.coupon_code.as_deref()
        )?;
        if done == 0 {
            return Ok(None);
        }
        self.order(id).await
    }

    /// One order as this transaction sees it. Uses the primary key.
    pub async fn order(&mut self, id: OrderId) -> Result<Option<Order>, StoreError> {
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(ORDER_BY_ID).bind(id.0).fetch_optional(conn))?;
        row.map(Order::try_from).transpose()
    }
}
