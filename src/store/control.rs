//! What the control room changes and counts. A sale's counts come from one statement: one snapshot of the books.

use super::run::{changed, on_store};
use super::{Store, StoreError, Tx};
use crate::domain::ids::VoucherId;
use crate::domain::ledger::Tally;
use crate::domain::time::Millis;

#[derive(sqlx::FromRow)]
struct CountRow {
    stock_total: i64,
    stock_left: i64,
    epoch: i64,
    version: i64,
    paused: bool,
    begin_at: i64,
    end_at: i64,
    unapplied: i64,
    status: String,
    close_reason: String,
    live: bool,
    n: i64,
}

/// The statement of [`Store::tally`]; public, so that a test can ask both databases for its plan.
pub const TALLY: &str = "SELECT s.stock_total, s.stock_left, s.epoch, s.version, s.paused, s.begin_at, s.end_at, \
    (SELECT COUNT(*) FROM outbox x WHERE x.voucher_id = s.voucher_id AND x.kind = 'release' AND x.done_at IS NULL) AS unapplied, \
    COALESCE(o.status, '') AS status, COALESCE(o.close_reason, '') AS close_reason, COALESCE(o.live, FALSE) AS live, \
    COALESCE(o.n, 0) AS n FROM flash_sale s LEFT JOIN (SELECT voucher_id, status, close_reason, live, COUNT(*) AS n \
    FROM orders WHERE voucher_id = $1 GROUP BY voucher_id, status, close_reason, live) o ON o.voucher_id = s.voucher_id \
    WHERE s.voucher_id = $1";

impl Store {
    /// Everything that SQL counts of one sale, in one snapshot; none: no such sale. Reads `orders_by_voucher` alone (its
    /// cost grows with the orders of that sale, not of the shop) and `outbox_open_by_voucher`.
    pub async fn tally(&self, voucher: VoucherId) -> Result<Option<Tally>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, CountRow>(TALLY).bind(voucher.0).fetch_all(conn))?;
        let Some(first) = rows.first() else { return Ok(None) };
        let mut tally = Tally {
            total: first.stock_total,
            left: first.stock_left,
            epoch: first.epoch,
            version: first.version,
            paused: first.paused,
            begin: Millis(first.begin_at),
            end: Millis(first.end_at),
            unapplied: first.unapplied,
            ..Tally::default()
        };
        for row in &rows {
            tally.rows += row.n;
            if row.live {
                tally.live += row.n;
            }
            *match (row.status.as_str(), row.close_reason.as_str()) {
                ("PENDING", _) => &mut tally.pending,
                ("PAID", _) => &mut tally.paid,
                ("CANCELLED", "TIMEOUT") => &mut tally.timed_out,
                ("CANCELLED", _) => &mut tally.cancelled,
                ("REFUNDING", _) => &mut tally.refunding,
                ("REFUNDED", _) => &mut tally.refunded,
                ("FAILED", _) => &mut tally.failed,
                ("", _) => continue,
                _ => return Err(StoreError::Corrupt("orders.status")),
            } += row.n;
        }
        Ok(Some(tally))
    }
}

impl Tx {
    /// Changes the units of a sale whose row is locked, and writes down when. What is checked first: enough are left.
    /// Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Other`]: the stock would go below nothing (a check of the table).
    pub async fn change_stock(&mut self, voucher: VoucherId, delta: i64, now: Millis) -> Result<(), StoreError> {
        let text = "UPDATE flash_sale SET stock_total = stock_total + $2, stock_left = stock_left + $2, version = version + 1 \
                    WHERE voucher_id = $1";
        changed!(self, text, voucher.0, delta)?;
        let text = "INSERT INTO stock_change (voucher_id, delta, created_at) VALUES ($1, $2, $3)";
        changed!(self, text, voucher.0, delta, now.0).map(drop)
    }

    /// Gives a sale whose row is locked another window. Uses the primary key.
    pub async fn set_window(&mut self, voucher: VoucherId, begin: Millis, end: Millis) -> Result<(), StoreError> {
        let text = "UPDATE flash_sale SET begin_at = $2, end_at = $3, version = version + 1 WHERE voucher_id = $1";
        changed!(self, text, voucher.0, begin.0, end.0).map(drop)
    }

    /// Raises the version of a sale whose row is locked: its texts were edited. Uses the primary key.
    pub async fn raise_sale_version(&mut self, voucher: VoucherId) -> Result<(), StoreError> {
        changed!(self, "UPDATE flash_sale SET version = version + 1 WHERE voucher_id = $1", voucher.0).map(drop)
    }
}
