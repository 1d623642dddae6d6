//! The transaction: everything written through it happens together or not at all.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Postgres, Sqlite, Transaction};

use super::run::bounded;
use super::{Store, StoreError};

/// An open transaction. Dropping it rolls it back.
///
/// On SQLite it holds the one writer from its first instant (`BEGIN IMMEDIATE`), so nothing in it meets a lock or an
/// overtaken snapshot; on Postgres it is READ COMMITTED, and each statement sees what was committed before it began.
#[derive(Debug)]
pub struct Tx {
    pub(super) inner: Inner,
    pub(super) spoiled: bool,
}

#[derive(Debug)]
pub(super) enum Inner {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

impl Store {
    /// Opens a transaction; waits for the writer (SQLite) at most 5 s, for a connection (Postgres) at most 1 s.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        let inner = match self {
            Self::Sqlite(pools) => Inner::Sqlite(bounded(pools.writer.begin_with("BEGIN IMMEDIATE")).await?),
            Self::Postgres(pool) => Inner::Postgres(bounded(pool.begin()).await?),
        };
        Ok(Tx { inner, spoiled: false })
    }

    /// As [`begin`](Self::begin), for callers with somebody waiting: [`StoreError::Unavailable`] after `limit`. On Postgres,
    /// where it is a statement that meets a lock, that one is [`StoreError::Busy`] after `limit`.
    pub async fn begin_within(&self, limit: Duration) -> Result<Tx, StoreError> {
        let begin = async {
            let Self::Postgres(pool) = self else { return self.begin().await };
            // One message, so it costs no round trip; the connection's own limit is back when the transaction ends.
            let text = format!("BEGIN; SET LOCAL lock_timeout = {}", limit.as_millis());
            let tx = bounded(pool.begin_with(AssertSqlSafe(text))).await?;
            Ok(Tx { inner: Inner::Postgres(tx), spoiled: false })
        };
        match tokio::time::timeout(limit, begin).await {
            Ok(tx) => tx,
            Err(_) => Err(StoreError::Unavailable(String::from("the writer is taken"))),
        }
    }
}

impl Tx {
    /// Makes it durable: on disk before this returns.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: unknown whether it happened. After a statement of it failed it is rolled back and
    /// [`StoreError::Corrupt`] is returned; without this check Postgres would answer such a commit with a quiet rollback.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.spoiled {
            return Err(StoreError::Corrupt("commit after a failed statement"));
        }
        match self.inner {
            Inner::Sqlite(tx) => bounded(tx.commit()).await,
            Inner::Postgres(tx) => bounded(tx.commit()).await,
        }
    }

    /// Undoes it at once. Dropping does the same a little later, when the connection is back in its pool.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.inner {
            Inner::Sqlite(tx) => bounded(tx.rollback()).await,
            Inner::Postgres(tx) => bounded(tx.rollback()).await,
        }
    }
}
