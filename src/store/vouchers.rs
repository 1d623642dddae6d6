//! Vouchers with their sale, when they have one. The sale's own statements are `sales.rs`.

use std::time::Duration;

use sqlx::QueryBuilder;

use super::run::{changed, on_store, on_tx, push_list};
use super::sales::SaleRow;
use super::{Store, StoreError, Tx};
use crate::domain::ids::{ShopId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::time::Millis;
use crate::domain::voucher::{NewVoucher, Voucher};

/// What became of a voucher that was to be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// The voucher.
    pub id: VoucherId,
    /// False: the key was used before, this is the voucher of then, and nothing was added.
    pub fresh: bool,
}

/// The texts of a voucher, the part that an admin may edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoucherTexts<'a> {
    /// 1–100 characters.
    pub title: &'a str,
    /// 0–200 characters.
    pub sub_title: &'a str,
    /// 0–2000 characters.
    pub rules: &'a str,
}

/// What an order of a voucher costs and is called, for the one who saves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnSale {
    /// Which.
    pub voucher: VoucherId,
    /// The price of one unit.
    pub pay_value: Fen,
    /// The title, for people.
    pub title: String,
}

#[derive(sqlx::FromRow)]
struct VoucherRow {
    id: i64,
    shop_id: i64,
    title: String,
    sub_title: String,
    rules: String,
    pay_value: i64,
    actual_value: i64,
    voucher_version: i64,
    has_sale: bool,
    #[sqlx(flatten)]
    sale: SaleRow,
}

impl From<VoucherRow> for Voucher {
    fn from(row: VoucherRow) -> Self {
        let fields = NewVoucher {
            shop: ShopId(row.shop_id),
            title: row.title,
            sub_title: row.sub_title,
            rules: row.rules,
            pay_value: Fen(row.pay_value),
            actual_value: Fen(row.actual_value),
        };
        let sale = row.has_sale.then(|| row.sale.into());
        Self { id: VoucherId(row.id), fields, version: row.voucher_version, sale }
    }
}

/// The sale's columns have a value in every row; `has_sale` says whether they mean something.
macro_rules! select_voucher {
    ($rest:literal) => {
        concat!(
            "SELECT v.id, v.shop_id, v.title, v.sub_title, v.rules, v.pay_value, v.actual_value, v.version AS voucher_version, \
             s.voucher_id IS NOT NULL AS has_sale, v.id AS voucher_id, COALESCE(s.stock_total, 0) AS stock_total, \
             COALESCE(s.stock_left, 0) AS stock_left, COALESCE(s.epoch, 0) AS epoch, \
             COALESCE(s.epoch_claimed, 0) AS epoch_claimed, COALESCE(s.paused, FALSE) AS paused, \
             COALESCE(s.captcha, FALSE) AS captcha, COALESCE(s.begin_at, 0) AS begin_at, COALESCE(s.end_at, 0) AS end_at, \
             COALESCE(s.version, 0) AS version FROM voucher v LEFT JOIN flash_sale s ON s.voucher_id = v.id ",
            $rest
        )
    };
}

impl Store {
    /// One voucher. Uses the primary keys.
    pub async fn voucher(&self, id: VoucherId) -> Result<Option<Voucher>, StoreError> {
        let row = on_store!(self, Db, conn =>
            sqlx::query_as::<Db, VoucherRow>(select_voucher!("WHERE v.id = $1")).bind(id.0).fetch_optional(conn))?;
        Ok(row.map(Voucher::from))
    }

    /// The vouchers of a shop, oldest first, a thousand at most. Uses `voucher_by_shop` and the sale's primary key.
    pub async fn vouchers_of_shop(&self, shop: ShopId) -> Result<Vec<Voucher>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, VoucherRow>(
            select_voucher!("WHERE v.shop_id = $1 ORDER BY v.id LIMIT 1000")
        ).bind(shop.0).fetch_all(conn))?;
        Ok(rows.into_iter().map(Voucher::from).collect())
    }

    /// The vouchers whose sale is still to come, on, or over for less than `closed_within`. Uses `flash_sale_by_end`.
    pub async fn vouchers_not_over(&self, now: Millis, closed_within: Duration) -> Result<Vec<Voucher>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, VoucherRow>(
            select_voucher!("WHERE s.end_at > $1 ORDER BY v.id")
        ).bind((now - closed_within).0).fetch_all(conn))?;
        Ok(rows.into_iter().map(Voucher::from).collect())
    }

    /// Every voucher above `after` with the end of its sale; none: an everyday one. Uses the primary keys.
    pub async fn voucher_ends(&self, after: VoucherId) -> Result<Vec<(VoucherId, Option<Millis>)>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, (i64, Option<i64>)>(
            "SELECT v.id, s.end_at FROM voucher v LEFT JOIN flash_sale s ON s.voucher_id = v.id WHERE v.id > $1 ORDER BY v.id"
        ).bind(after.0).fetch_all(conn))?;
        Ok(rows.into_iter().map(|(id, end)| (VoucherId(id), end.map(Millis))).collect())
    }

    /// Price and title of those among `vouchers` that have a sale; one that is missing can never be ordered. Uses the
    /// primary keys.
    pub async fn prices_of(&self, vouchers: &[VoucherId]) -> Result<Vec<OnSale>, StoreError> {
        let rows = on_store!(self, Db, conn => async {
            let mut sql = QueryBuilder::<Db>::new(
                "SELECT v.id, v.pay_value, v.title FROM voucher v JOIN flash_sale s ON s.voucher_id = v.id WHERE v.id IN ",
            );
            push_list(&mut sql, vouchers.iter().map(|v| v.0));
            sql.build_query_as::<(i64, i64, String)>().fetch_all(conn).await
        })?;
        let on_sale = |(id, price, title)| OnSale { voucher: VoucherId(id), pay_value: Fen(price), title };
        Ok(rows.into_iter().map(on_sale).collect())
    }
}

impl Tx {
    /// Adds a voucher; with a key that was used before it answers the voucher of then. Uses the unique index on `idem_key`.
    ///
    /// # Errors
    /// [`StoreError::UnknownReference`]: no such shop.
    pub async fn insert_voucher(
        &mut self,
        voucher: &NewVoucher,
        idem_key: Option<&str>,
        now: Millis,
    ) -> Result<Inserted, StoreError> {
        let fresh = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "INSERT INTO voucher (shop_id, title, sub_title, rules, pay_value, actual_value, idem_key, created_at) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (idem_key) DO NOTHING RETURNING id"
        ).bind(voucher.shop.0).bind(voucher.title.as_str()).bind(voucher.sub_title.as_str()).bind(voucher.rules.as_str())
         .bind(voucher.pay_value.0).bind(voucher.actual_value.0).bind(idem_key).bind(now.0).fetch_optional(conn))?;
        if let Some(id) = fresh {
            return Ok(Inserted { id: VoucherId(id), fresh: true });
        }
        // A later statement sees what the insert has just waited for.
        let earlier = on_tx!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT id FROM voucher WHERE idem_key = $1"
        ).bind(idem_key).fetch_optional(conn))?;
        let id = earlier.map(VoucherId).ok_or(StoreError::Corrupt("a key that is taken and belongs to no voucher"))?;
        Ok(Inserted { id, fresh: false })
    }

    /// Replaces the texts where the version is still `version`; false: somebody else was faster, or no such voucher. Uses
    /// the primary key.
    pub async fn update_voucher_texts(
        &mut self,
        voucher: VoucherId,
        texts: VoucherTexts<'_>,
        version: i64,
    ) -> Result<bool, StoreError> {
        let done = changed!(
            self,
            "UPDATE voucher SET title = $3, sub_title = $4, rules = $5, version = version + 1 WHERE id = $1 AND version = $2",
            voucher.0,
            version,
            texts.title,
            texts.sub_title,
            texts.rules
        )?;
        Ok(done == 1)
    }
}
