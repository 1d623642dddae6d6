//! The two databases as every design here uses them: the shop's own schema, its durability, its sizes of pools.
//!
//! One SQL text for both; `on_db!` repeats a body for each driver.

use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

/// A pool of either kind.
#[derive(Clone)]
pub enum Db {
    /// One writer, as in the shop.
    Sqlite(SqlitePool),
    /// Ten connections, as in the shop.
    Postgres(PgPool),
}

/// Runs a body that is written once, with the pool of whichever database it is.
macro_rules! on_db {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db {
            crate::database::Db::Sqlite($pool) => $body,
            crate::database::Db::Postgres($pool) => $body,
        }
    };
}
pub(crate) use on_db;

/// Long enough for the last of a queue of connections in front of a slow design.
const PATIENCE: Duration = Duration::from_secs(20);

impl Db {
    /// Opens an address as `--database-url` takes it, or `sqlite:` and a path.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .pragma("wal_autocheckpoint", "4000")
                .foreign_keys(true)
                .busy_timeout(PATIENCE)
                .disable_statement_logging();
            let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(PATIENCE).test_before_acquire(false);
            return Ok(Self::Sqlite(pool.connect_with(options).await?));
        }
        let options = PgConnectOptions::from_str(url)?.disable_statement_logging();
        let pool = PgPoolOptions::new().max_connections(10).acquire_timeout(PATIENCE).test_before_acquire(false);
        Ok(Self::Postgres(pool.connect_with(options).await?))
    }

    /// How a writing transaction begins: on SQLite it takes the lock at once, or two that read first could not both go on.
    pub fn begin(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN",
        }
    }

    /// Units that the books still have.
    pub async fn stock_left(&self, voucher: i64) -> anyhow::Result<i64> {
        Ok(on_db!(self, pool => sqlx::query_scalar("SELECT stock_left FROM flash_sale WHERE voucher_id = $1")
            .bind(voucher).fetch_one(pool).await?))
    }

    /// Orders that hold a unit.
    pub async fn live_orders(&self, voucher: i64) -> anyhow::Result<i64> {
        Ok(on_db!(self, pool => sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE voucher_id = $1 AND live")
            .bind(voucher).fetch_one(pool).await?))
    }

    /// A shop, a voucher and its sale of `units`, as the designs need them; the voucher's id.
    pub async fn add_sale(&self, units: i64) -> anyhow::Result<i64> {
        let end = 4_000_000_000_000_i64;
        on_db!(self, pool => {
            let shop: i64 = sqlx::query_scalar(
                "INSERT INTO shop (name, type_id, images, area, address, x, y, avg_price, score, open_hours, created_at) \
                 VALUES ('a', 1, '/a.png', 'a', 'a', 0, 0, 0, 40, 'a', 0) RETURNING id").fetch_one(pool).await?;
            let voucher: i64 = sqlx::query_scalar(
                "INSERT INTO voucher (shop_id, title, sub_title, rules, pay_value, actual_value, created_at) \
                 VALUES ($1, 'a', '', '', 4900, 10000, 0) RETURNING id").bind(shop).fetch_one(pool).await?;
            sqlx::query("INSERT INTO flash_sale (voucher_id, stock_total, stock_left, begin_at, end_at) VALUES ($1, $2, $2, 0, $3)")
                .bind(voucher).bind(units).bind(end).execute(pool).await?;
            Ok(voucher)
        })
    }
}

/// An order of one of the designs.
#[derive(Debug, Clone, Copy)]
pub struct NewOrder {
    /// Seconds and a sequence.
    pub id: i64,
    /// Whose.
    pub user: i64,
    /// Of what.
    pub voucher: i64,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It has a row.
    Yes,
    /// He has one already.
    Duplicate,
    /// No unit is left.
    SoldOut,
}

impl Db {
    /// The transaction that all the classic designs end in: count the user's orders, look at the stock, take a unit if there
    /// still is one, insert.
    pub async fn place(&self, order: NewOrder) -> anyhow::Result<Placed> {
        let now = seckill::clock::Clock::default().now().0;
        on_db!(self, pool => {
            let mut tx = pool.begin_with(self.begin()).await?;
            let has: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE user_id = $1 AND voucher_id = $2")
                .bind(order.user).bind(order.voucher).fetch_one(&mut *tx).await?;
            if has > 0 {
                return Ok(Placed::Duplicate);
            }
            let left: i64 = sqlx::query_scalar("SELECT stock_left FROM flash_sale WHERE voucher_id = $1")
                .bind(order.voucher).fetch_one(&mut *tx).await?;
            if left <= 0 {
                return Ok(Placed::SoldOut);
            }
            let taken = sqlx::query("UPDATE flash_sale SET stock_left = stock_left - 1 WHERE voucher_id = $1 AND stock_left > 0")
                .bind(order.voucher).execute(&mut *tx).await?;
            if taken.rows_affected() == 0 {
                return Ok(Placed::SoldOut);
            }
            sqlx::query(
                "INSERT INTO orders (id, user_id, voucher_id, epoch, admitted_at, pay_amount, created_at, pay_before, status, live) \
                 VALUES ($1, $2, $3, 1, $4, 4900, $4, $5, 'PENDING', TRUE)")
                .bind(order.id).bind(order.user).bind(order.voucher).bind(now).bind(now + 900_000).execute(&mut *tx).await?;
            tx.commit().await?;
            Ok(Placed::Yes)
        })
    }
}
