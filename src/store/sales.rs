//! Sales: stock, epoch and window. The hot row is written here and nowhere else.
//!
//! Every statement that changes a sale has its condition in its own WHERE; nobody reads a number here and writes it back.

use std::time::Duration;

use super::run::{changed, on_store, on_tx};
use super::{Store, StoreError, Tx};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::ledger::Figures;
use crate::domain::sale::Sale;
use crate::domain::time::Millis;
use crate::domain::voucher::NewSale;

#[derive(sqlx::FromRow)]
pub(super) struct SaleRow {
    voucher_id: i64,
    stock_total: i64,
    stock_left: i64,
    epoch: i64,
    epoch_claimed: i64,
    paused: bool,
    captcha: bool,
    begin_at: i64,
    end_at: i64,
    version: i64,
}

impl From<SaleRow> for Sale {
    fn from(row: SaleRow) -> Self {
        Self {
            voucher: VoucherId(row.voucher_id),
            stock_total: row.stock_total,
            stock_left: row.stock_left,
            epoch: row.epoch,
            epoch_claimed: row.epoch_claimed,
            paused: row.paused,
            begin: Millis(row.begin_at),
            end: Millis(row.end_at),
            captcha: row.captcha,
            version: row.version,
        }
    }
}

macro_rules! sale_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " voucher_id, stock_total, stock_left, epoch, epoch_claimed, paused, captcha, begin_at, end_at, version ",
            $after
        )
    };
}

impl Store {
    /// One sale. Uses the primary key.
    pub async fn sale(&self, voucher: VoucherId) -> Result<Option<Sale>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, SaleRow>(
            sale_columns!("SELECT", "FROM flash_sale WHERE voucher_id = $1")
        ).bind(voucher.0).fetch_optional(conn))?;
        Ok(row.map(Sale::from))
    }

    /// The sales that are still to come, on, or over for less than `closed_within`, by their end. Uses `flash_sale_by_end`.
    pub async fn sales_not_over(&self, now: Millis, closed_within: Duration) -> Result<Vec<Sale>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, SaleRow>(
            sale_columns!("SELECT", "FROM flash_sale WHERE end_at > $1 ORDER BY end_at, voucher_id")
        ).bind((now - closed_within).0).fetch_all(conn))?;
        Ok(rows.into_iter().map(Sale::from).collect())
    }

    /// Every sale there ever was, by voucher, for the audit. Reads the table.
    pub async fn all_sales(&self) -> Result<Vec<Sale>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, SaleRow>(
            sale_columns!("SELECT", "FROM flash_sale ORDER BY voucher_id")
        ).fetch_all(conn))?;
        Ok(rows.into_iter().map(Sale::from).collect())
    }

    /// Burns the next number of a sale for a rebuild and answers it with the epoch as it is: `(claim, epoch)`; none: no such
    /// sale. Committed by itself before it returns, so a number is never handed out twice. Uses the primary key.
    pub async fn burn_claim(&self, voucher: VoucherId) -> Result<Option<(Epoch, Epoch)>, StoreError> {
        let mut tx = self.begin().await?;
        let burnt = on_tx!(tx, Db, conn => sqlx::query_as::<Db, (i64, i64)>(
            "UPDATE flash_sale SET epoch_claimed = epoch_claimed + 1 WHERE voucher_id = $1 RETURNING epoch_claimed, epoch"
        ).bind(voucher.0).fetch_optional(conn))?;
        tx.commit().await?;
        Ok(burnt)
    }

    /// `I`, `D`, `A` and `U` of a sale in one snapshot (`r` and `f` stay 0: they are Redis' to say). Uses the primary key,
    /// `orders_one_live` and `outbox_open_by_voucher`.
    pub async fn figures(&self, voucher: VoucherId) -> Result<Option<Figures>, StoreError> {
        let row = on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, i64, i64, i64)>(
            "SELECT s.stock_total, s.stock_left, \
             (SELECT COUNT(*) FROM orders o WHERE o.voucher_id = s.voucher_id AND o.live), \
             (SELECT COUNT(*) FROM outbox x WHERE x.voucher_id = s.voucher_id AND x.kind = 'release' AND x.done_at IS NULL) \
             FROM flash_sale s WHERE s.voucher_id = $1"
        ).bind(voucher.0).fetch_optional(conn))?;
        Ok(row.map(|(i, d, a, u)| Figures { i, d, a, u, r: 0, f: 0 }))
    }

    /// Who holds a unit of a voucher, and under which order. Uses `orders_one_live`.
    pub async fn live_orders_of(&self, voucher: VoucherId) -> Result<Vec<(UserId, OrderId)>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(LIVE_HOLDERS).bind(voucher.0).fetch_all(conn))?;
        Ok(rows.into_iter().map(|(user, order)| (UserId(user), OrderId(order))).collect())
    }
}

const LIVE_HOLDERS: &str = "SELECT user_id, id FROM orders WHERE voucher_id = $1 AND live ORDER BY user_id";

impl Tx {
    /// Puts a voucher on sale, with nothing sold and the gate never loaded.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: it has a sale already. [`StoreError::UnknownReference`]: no such voucher.
    pub async fn insert_sale(&mut self, voucher: VoucherId, sale: &NewSale) -> Result<(), StoreError> {
        let text = "INSERT INTO flash_sale (voucher_id, stock_total, stock_left, captcha, begin_at, end_at) \
                    VALUES ($1, $2, $2, $3, $4, $5)";
        changed!(self, text, voucher.0, sale.stock, sale.captcha, sale.begin.0, sale.end.0).map(drop)
    }

    /// Moves the epoch from the one that was `seen` to `to` (a burnt claim) and changes the stock by `delta`; false: somebody
    /// else moved it first. From here on the row is locked. Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Other`]: the stock would go below nothing (a check of the table).
    pub async fn move_epoch(&mut self, voucher: VoucherId, seen: Epoch, to: Epoch, delta: i64) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET epoch = $3, stock_total = stock_total + $4, stock_left = stock_left + $4 \
                    WHERE voucher_id = $1 AND epoch = $2";
        Ok(changed!(self, text, voucher.0, seen, to, delta)? == 1)
    }

    /// Locks the sale's row and reads it as it is under the lock; none: no such sale. Uses the primary key.
    pub async fn sale_locked(&mut self, voucher: VoucherId) -> Result<Option<Sale>, StoreError> {
        // An update that changes nothing is the one lock that both databases know.
        let row = on_tx!(self, Db, conn => sqlx::query_as::<Db, SaleRow>(
            sale_columns!("UPDATE flash_sale SET stock_left = stock_left WHERE voucher_id = $1 RETURNING", "")
        ).bind(voucher.0).fetch_optional(conn))?;
        Ok(row.map(Sale::from))
    }

    /// Who holds a unit of a voucher, and under which order; exact only after the sale's row is locked. Uses
    /// `orders_one_live`.
    pub async fn live_holders(&mut self, voucher: VoucherId) -> Result<Vec<(UserId, OrderId)>, StoreError> {
        let rows = on_tx!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(LIVE_HOLDERS).bind(voucher.0).fetch_all(conn))?;
        Ok(rows.into_iter().map(|(user, order)| (UserId(user), OrderId(order))).collect())
    }

    /// Takes `k` units (0 only locks and checks the epoch) where the epoch is still `epoch` and that many are left; false:
    /// roll back. The last statement of its transaction: this is the row that everybody waits for. Uses the primary key.
    pub async fn take_units(&mut self, voucher: VoucherId, epoch: Epoch, k: i64) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET stock_left = stock_left - $3 \
                    WHERE voucher_id = $1 AND epoch = $2 AND stock_left >= $3";
        let text = if crate::fault::mutant("no-epoch") {
            "UPDATE flash_sale SET stock_left = stock_left - $3 WHERE voucher_id = $1 AND $2 > 0 AND stock_left >= $3"
        } else {
            text
        };
        Ok(changed!(self, text, voucher.0, epoch, k)? == 1)
    }

    /// Puts one unit back, last in the transaction that ended its order; false: no such sale. Uses the primary key.
    ///
    /// # Errors
    /// [`StoreError::Other`]: more would be left than was ever on sale (a check of the table).
    pub async fn return_unit(&mut self, voucher: VoucherId) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET stock_left = stock_left + 1 WHERE voucher_id = $1";
        Ok(changed!(self, text, voucher.0)? == 1)
    }

    /// The epoch and what is left, as committed before this statement; none: no such sale. Uses the primary key.
    pub async fn sale_epoch_and_left(&mut self, voucher: VoucherId) -> Result<Option<(Epoch, i64)>, StoreError> {
        on_tx!(self, Db, conn => sqlx::query_as::<Db, (i64, i64)>(
            "SELECT epoch, stock_left FROM flash_sale WHERE voucher_id = $1"
        ).bind(voucher.0).fetch_optional(conn))
    }

    /// Locks the row where the epoch is still `epoch` and nothing is left; false: it is not so. Uses the primary key.
    pub async fn touch_sale_sold_out(&mut self, voucher: VoucherId, epoch: Epoch) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET stock_left = stock_left WHERE voucher_id = $1 AND epoch = $2 AND stock_left < 1";
        Ok(changed!(self, text, voucher.0, epoch)? == 1)
    }

    /// Stops or resumes a sale where its version is still `version`; false: somebody else was faster. Uses the primary key.
    pub async fn set_paused(&mut self, voucher: VoucherId, paused: bool, version: i64) -> Result<bool, StoreError> {
        let text = "UPDATE flash_sale SET paused = $3, version = version + 1 WHERE voucher_id = $1 AND version = $2";
        Ok(changed!(self, text, voucher.0, version, paused)? == 1)
    }
}
