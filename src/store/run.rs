//! How a statement reaches whichever database it is: one text, two drivers, one limit of time.
//!
//! Used by the other files of this room only. `Db` in a statement's expression names the driver of the arm it runs in.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Encode, QueryBuilder, Type};

use super::StoreError;

/// Rows that one statement carries at most; both drivers' limits on bound values are far above it.
pub(super) const ROWS: usize = 512;

/// The longest that a caller waits for one answer. Above the server's own limits, so that it only ends what those cannot
/// reach: a server that no longer answers at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// Runs one exchange with the database within the limit of time.
pub(super) async fn bounded<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_WITHIN, work).await {
        Ok(answer) => answer.map_err(StoreError::from),
        Err(_) => Err(StoreError::Unavailable(String::from("no answer in time"))),
    }
}

tokio::task_local! {
    /// How long a statement of this task may wait for a server that says nothing.
    static PATIENCE: Duration;
}

/// Runs `work`, in which no statement waits longer than `limit` for a Postgres server that says nothing: somebody waits for
/// `work`. Commits keep their time, for nobody could say what became of them; so does SQLite, which is no server.
pub async fn with_patience<F: Future>(limit: Duration, work: F) -> F::Output {
    PATIENCE.scope(limit, work).await
}

/// As [`bounded`], for one statement on Postgres.
pub(super) async fn asked<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
    let limit = PATIENCE.try_with(|limit| *limit).unwrap_or(ANSWER_WITHIN);
    match tokio::time::timeout(limit, bounded(work)).await {
        Ok(answer) => answer,
        Err(_) => Err(StoreError::Unavailable(String::from("no answer in the time that a visitor waits"))),
    }
}

/// Reads outside any transaction: `on_store!(store, Db, conn => statement)`.
macro_rules! on_store {
    ($store:expr, $db:ident, $conn:ident => $work:expr) => {
        match $store {
            $crate::store::Store::Sqlite(pools) => {
                type $db = sqlx::Sqlite;
                let $conn = &pools.readers;
                $crate::store::run::bounded($work).await
            }
            $crate::store::Store::Postgres(pool) => {
                type $db = sqlx::Postgres;
                let $conn = pool;
                $crate::store::run::asked($work).await
            }
        }
    };
}

/// Runs a statement inside a transaction: `on_tx!(tx, Db, conn => statement)`. A failed one spoils the transaction.
macro_rules! on_tx {
    ($tx:expr, $db:ident, $conn:ident => $work:expr) => {{
        let answer = match &mut $tx.inner {
            $crate::store::tx::Inner::Sqlite(tx) => {
                type $db = sqlx::Sqlite;
                let $conn = &mut **tx;
                $crate::store::run::bounded($work).await
            }
            $crate::store::tx::Inner::Postgres(tx) => {
                type $db = sqlx::Postgres;
                let $conn = &mut **tx;
                $crate::store::run::asked($work).await
            }
        };
        $tx.spoiled |= answer.is_err();
        answer
    }};
}

/// Runs a writing statement inside a transaction and answers how many rows it changed: `changed!(tx, text, value, …)`.
macro_rules! changed {
    ($tx:expr, $text:expr $(, $value:expr)*) => {
        $crate::store::run::on_tx!($tx, Db, conn => async {
            let done = sqlx::query::<Db>($text)$(.bind($value))*.execute(conn).await;
            done.map(|done| done.rows_affected())
        })
    };
}

pub(super) use {changed, on_store, on_tx};

/// Appends `(1, 2, 3)`; an empty list matches nothing.
pub(super) fn push_list<DB>(sql: &mut QueryBuilder<DB>, ids: impl IntoIterator<Item = i64>)
where
    DB: Database,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    sql.push("(NULL");
    for id in ids {
        sql.push(", ").push_bind(id);
    }
    sql.push(")");
}
