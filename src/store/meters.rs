//! Counts for whoever watches over the shop. Each one reads an index that holds open things alone.

use super::run::on_store;
use super::{Store, StoreError};
use crate::domain::time::Millis;

/// Connections of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolFigures {
    /// Which pool: `reader`, `writer`, or `all` where there is one.
    pub pool: &'static str,
    /// Connections that somebody holds.
    pub used: u32,
    /// Connections at rest.
    pub idle: u32,
}

impl PoolFigures {
    fn of<D: sqlx::Database>(name: &'static str, pool: &sqlx::Pool<D>) -> Self {
        let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
        Self { pool: name, used: pool.size().saturating_sub(idle), idle }
    }
}

impl Store {
    /// Rows of the outbox that are not done, by kind. Uses `outbox_due`.
    pub async fn open_outbox(&self) -> Result<Vec<(String, i64)>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, (String, i64)>(
            "SELECT kind, COUNT(*) FROM outbox WHERE done_at IS NULL GROUP BY kind ORDER BY kind"
        ).fetch_all(conn))
    }

    /// Refunds that are due since before `since`. Uses `refund_due`.
    pub async fn refunds_due_since(&self, since: Millis) -> Result<i64, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT COUNT(*) FROM refund WHERE state = 'DUE' AND created_at < $1"
        ).bind(since.0).fetch_one(conn))
    }

    /// The connections of this process. Asks nobody.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolFigures> {
        match self {
            Self::Sqlite(pools) => {
                vec![PoolFigures::of("reader", &pools.readers), PoolFigures::of("writer", &pools.writer)]
            }
            Self::Postgres(pool) => vec![PoolFigures::of("all", pool)],
        }
    }
}
