//! What the database itself can do: multi-row INSERT, 500 orders a statement and a transaction, one connection, into the same
//! table with the same indexes and checks, and nothing else.

use sqlx::QueryBuilder;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::children;
use crate::database::{Db, on_db};
use crate::load::number;
use crate::shop;

/// Rows of one statement; each statement is a transaction.
const ROWS: usize = 500;

/// A database of its own.
pub struct RawInsert {
    db: Db,
    sale: i64,
    next_id: i64,
    _dir: TempDir,
}

impl RawInsert {
    /// An empty one, on SQLite or at this address of `PostgreSQL`.
    pub async fn new(postgres: Option<&str>) -> anyhow::Result<Self> {
        let dir = children::folder("raw")?;
        let db = Db::open(&shop::migrated(dir.path(), postgres).await?).await?;
        Ok(Self { db, sale: 0, next_id: 610_467_444_359_694_349, _dir: dir })
    }

    /// Inserts this many orders of another sale; orders a second.
    pub async fn insert(&mut self, orders: usize) -> anyhow::Result<f64> {
        self.sale += 1;
        let users: Vec<i64> = (1..=i64::try_from(orders)?).collect();
        let now = seckill::clock::Clock::default().now().0;
        let start = Instant::now();
        for chunk in users.chunks(ROWS) {
            let (sale, first) = (self.sale, self.next_id);
            self.next_id += i64::try_from(ROWS)?;
            on_db!(&self.db, pool => {
                let mut sql = QueryBuilder::new(
                    "INSERT INTO orders (id, user_id, voucher_id, epoch, admitted_at, pay_amount, created_at, pay_before, status, live) ",
                );
                sql.push_values((first..).zip(chunk), |mut row, (id, user)| {
                    row.push_bind(id).push_bind(*user).push_bind(sale).push_bind(1_i64).push_bind(now).push_bind(4900_i64)
                        .push_bind(now).push_bind(now + 900_000).push("'PENDING', TRUE");
                });
                sql.build().execute(pool).await?;
            });
        }
        Ok(number(orders as u64) / start.elapsed().as_secs_f64())
    }
}
