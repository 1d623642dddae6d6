//! Reading for lists and reports of one sale: its orders page by page, when it was sold out, what Redis counted.

use super::orders::{OrderRow, into_orders, select_order};
use super::run::{changed, on_store};
use super::{Store, StoreError, Tx};
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::domain::order::{CloseReason, Order, Status};
use crate::domain::time::Millis;

/// Which orders of a sale a list shows; none: any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderFilter {
    /// In this state.
    pub status: Option<Status>,
    /// Closed for this reason.
    pub reason: Option<CloseReason>,
    /// Holding a unit, or not.
    pub live: Option<bool>,
}

/// One line of a sale's orders for a table: the row and the money that came for it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OrderLine {
    /// The order.
    pub id: i64,
    /// Its buyer.
    pub user_id: i64,
    /// The word of its state.
    pub status: String,
    /// Why it was closed.
    pub close_reason: Option<String>,
    /// The price, in fen.
    pub pay_amount: i64,
    /// When the gate let it in, ms.
    pub admitted_at: i64,
    /// When it was saved, ms.
    pub created_at: i64,
    /// Until when it could be paid, ms.
    pub pay_before: Option<i64>,
    /// When it was paid, ms.
    pub paid_at: Option<i64>,
    /// When it was closed, ms.
    pub closed_at: Option<i64>,
    /// When its money had gone back, ms.
    pub refunded_at: Option<i64>,
    /// What the buyer shows.
    pub coupon_code: Option<String>,
}

/// What Redis counted of a sale that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCounts {
    /// JSON: code → how often.
    pub refused: String,
    /// People who were told no and never held a unit.
    pub turned_away: i64,
}

/// The instant at which, for the first time, no unit was left: walked from the rows, because every unit that ever left or
/// came back has its instant there.
const SOLD_OUT: &str = "SELECT MIN(at) FROM (SELECT at, SUM(d) OVER (ORDER BY at) AS gone FROM (\
    SELECT admitted_at AS at, 1 AS d FROM orders WHERE voucher_id = $1 \
    UNION ALL SELECT COALESCE(refunded_at, closed_at) AS at, -1 AS d FROM orders WHERE voucher_id = $1 AND NOT live \
    UNION ALL SELECT created_at AS at, -delta AS d FROM stock_change WHERE voucher_id = $1) moves) walked \
    WHERE gone >= (SELECT s.stock_total - COALESCE((SELECT SUM(c.delta) FROM stock_change c WHERE c.voucher_id = $1), 0) \
    FROM flash_sale s WHERE s.voucher_id = $1) ";

impl Store {
    /// Orders of a voucher below `before`, newest first. Walks `orders_by_voucher`, which knows state, reason and liveness,
    /// so that a rare state does not read the table.
    pub async fn orders_of_voucher(
        &self,
        voucher: VoucherId,
        filter: OrderFilter,
        before: Option<OrderId>,
        limit: i64,
    ) -> Result<Vec<Order>, StoreError> {
        let (status, reason) = (filter.status.map(Status::as_str), filter.reason.map(CloseReason::as_str));
        into_orders(on_store!(self, Db, conn => sqlx::query_as::<Db, OrderRow>(select_order!(
            "",
            "orders o WHERE o.voucher_id = $1 AND o.id < $2 AND ($3 IS NULL OR o.status = $3) \
             AND ($4 IS NULL OR o.close_reason = $4) AND ($5 IS NULL OR o.live = $5) ORDER BY o.id DESC LIMIT $6"
        )).bind(voucher.0).bind(before.map_or(i64::MAX, |id| id.0)).bind(status).bind(reason).bind(filter.live).bind(limit)
          .fetch_all(conn))?)
    }

    /// Orders of a voucher above `after`, oldest first, for a table. Uses `orders_by_voucher`.
    pub async fn order_lines(&self, voucher: VoucherId, after: i64, limit: i64) -> Result<Vec<OrderLine>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, OrderLine>(
            "SELECT id, user_id, status, close_reason, pay_amount, admitted_at, created_at, pay_before, paid_at, closed_at, \
             refunded_at, coupon_code FROM orders WHERE voucher_id = $1 AND id > $2 ORDER BY id LIMIT $3"
        ).bind(voucher.0).bind(after).bind(limit).fetch_all(conn))
    }

    /// Whoever held a unit of a voucher at any time, a page of users above `after`, each once.
    pub async fn buyers_of(&self, voucher: VoucherId, after: UserId, limit: i64) -> Result<Vec<UserId>, StoreError> {
        let ids = on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT DISTINCT user_id FROM orders WHERE voucher_id = $1 AND status <> 'FAILED' AND user_id > $2 \
             ORDER BY user_id LIMIT $3"
        ).bind(voucher.0).bind(after.0).bind(limit).fetch_all(conn))?;
        Ok(ids.into_iter().map(UserId).collect())
    }

    /// When, for the first time, no unit of a sale was left; none: never. Reads the orders of the sale.
    pub async fn sold_out_at(&self, voucher: VoucherId) -> Result<Option<Millis>, StoreError> {
        let at = on_store!(self, Db, conn => sqlx::query_scalar::<Db, Option<i64>>(SOLD_OUT).bind(voucher.0).fetch_one(conn))?;
        Ok(at.map(Millis))
    }

    /// Money of a sale, in fen: paid for its orders and kept, and gone back. Uses `payment_by_order`.
    pub async fn money_of(&self, voucher: VoucherId) -> Result<(i64, i64), StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(
            "SELECT CAST(COALESCE(SUM(CASE WHEN p.state = 'APPLIED' THEN p.amount ELSE 0 END), 0) AS BIGINT), \
             CAST(COALESCE(SUM(CASE WHEN p.state = 'REFUNDED' THEN p.amount ELSE 0 END), 0) AS BIGINT) \
             FROM orders o JOIN payment p ON p.order_id = o.id WHERE o.voucher_id = $1"
        ).bind(voucher.0).fetch_one(conn))
    }

    /// What was kept of Redis' counts; none: not yet. Uses the primary key.
    pub async fn kept_counts(&self, voucher: VoucherId) -> Result<Option<KeptCounts>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, (String, i64)>(
            "SELECT refused, turned_away FROM sale_report WHERE voucher_id = $1"
        ).bind(voucher.0).fetch_optional(conn))?;
        Ok(row.map(|(refused, turned_away)| KeptCounts { refused, turned_away }))
    }

    /// Sales that ended between `from` and `to` and whose counts were not kept yet. Uses `flash_sale_by_end`.
    pub async fn sales_to_keep(&self, from: Millis, to: Millis, limit: i64) -> Result<Vec<VoucherId>, StoreError> {
        let ids = on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT s.voucher_id FROM flash_sale s LEFT JOIN sale_report r ON r.voucher_id = s.voucher_id \
             WHERE s.end_at >= $1 AND s.end_at <= $2 AND r.voucher_id IS NULL ORDER BY s.end_at LIMIT $3"
        ).bind(from.0).bind(to.0).bind(limit).fetch_all(conn))?;
        Ok(ids.into_iter().map(VoucherId).collect())
    }
}

impl Tx {
    /// Keeps what Redis counted of a sale; what was kept stays as it is. Uses the primary key.
    pub async fn keep_counts(&mut self, voucher: VoucherId, kept: &KeptCounts, now: Millis) -> Result<(), StoreError> {
        let text = "INSERT INTO sale_report (voucher_id, refused, turned_away, created_at) VALUES ($1, $2, $3, $4) \
                    ON CONFLICT (voucher_id) DO NOTHING";
        changed!(self, text, voucher.0, kept.refused.as_str(), kept.turned_away, now.0).map(drop)
    }
}
