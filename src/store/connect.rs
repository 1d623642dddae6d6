//! Opening the two databases: pools, their limits of time, and the settings that durability rests on.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};

use super::StoreError;
use super::run::bounded;

/// How long a reader, or any Postgres connection, is waited for: a visitor hears "busy" within a second.
const READER_WITHIN: Duration = Duration::from_secs(1);
/// How long the one SQLite writer is waited for, in this process and, by the busy timeout, between processes.
const WRITER_WITHIN: Duration = Duration::from_secs(5);

/// SQLite: everything is written through one connection, so that writers queue here in order of arrival instead of
/// polling the file's lock; readers never wait for it (write-ahead log).
#[derive(Debug, Clone)]
pub struct SqlitePools {
    pub(super) writer: SqlitePool,
    pub(super) readers: SqlitePool,
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).foreign_keys(true).busy_timeout(WRITER_WITHIN).disable_statement_logging() // a multi-row insert is a long text, and would be logged whole
}

/// Opens, and creates when missing, the database at `path`.
pub(super) async fn open_sqlite(path: &Path) -> Result<SqlitePools, StoreError> {
    let write = sqlite_options(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full) // a commit that was answered survives a power cut
        .pragma("wal_autocheckpoint", "4000") // 16 MB: fewer pauses for the copy back into the file
        .row_buffer_size(super::run::ROWS);
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(WRITER_WITHIN)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        // A full disk makes SQLite roll back by itself, and then the driver counts a transaction that is no more: such a
        // connection could never begin another one. It is replaced.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .connect_with(write);
    // The writer first: it creates the file, switches it to the write-ahead log and recovers what a crash left.
    let writer = bounded(writer).await?;
    let readers: PoolOptions<sqlx::Sqlite> =
        SqlitePoolOptions::new().max_connections(8).acquire_timeout(READER_WITHIN).max_lifetime(None).test_before_acquire(false);
    let readers = bounded(readers.connect_with(sqlite_options(path).read_only(true))).await?;
    Ok(SqlitePools { writer, readers })
}

/// The address with the limits that keep one stuck transaction from stopping everybody.
fn postgres_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|_| StoreError::BadUrl)?;
    Ok(options.application_name("seckill").disable_statement_logging())
}

/// Opens a pool; the server must answer.
pub(super) async fn open_postgres(url: &str) -> Result<PgPool, StoreError> {
    let options = postgres_options(url)?.options([
        ("synchronous_commit", "on"),
        ("default_transaction_isolation", "read committed"),
        ("lock_timeout", "3s"),
        ("statement_timeout", "10s"),
        ("idle_in_transaction_session_timeout", "10s"),
        // "already there" is no news: each start asks for the table of migrations.
        ("client_min_messages", "warning"),
    ]);
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .acquire_timeout(READER_WITHIN)
        // A connection that rested may have died with its server; one used a moment ago is not asked again.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > Duration::from_secs(1) {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        // One whose server went silent in the middle of a statement would otherwise be waited for until TCP gives up.
        .after_release(|connection, _| {
            Box::pin(async move {
                match tokio::time::timeout(Duration::from_secs(5), connection.ping()).await {
                    Ok(answer) => answer.map(|()| true),
                    Err(_) => Err(sqlx::Error::PoolTimedOut),
                }
            })
        })
        .connect_with(options);
    bounded(pool).await
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::*;
    use crate::domain::time::Millis;

    async fn opened() -> (Store, SqlitePools, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let pools = open_sqlite(&dir.path().join("shop.db")).await.unwrap();
        let store = Store::Sqlite(pools.clone());
        store.migrate().await.unwrap();
        (store, pools, dir)
    }

    #[tokio::test]
    async fn durability_rests_on_these_settings_of_the_writer() {
        let (_store, pools, _dir) = opened().await;
        let mut writer = pools.writer.acquire().await.unwrap();
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *writer).await.unwrap();
        let full: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *writer).await.unwrap();
        let keys: i64 = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(&mut *writer).await.unwrap();
        let wait: i64 = sqlx::query_scalar("PRAGMA busy_timeout").fetch_one(&mut *writer).await.unwrap();
        assert_eq!((mode.as_str(), full, keys, wait), ("wal", 2, 1, 5000));
        // A reader cannot write, whatever it is asked.
        assert!(sqlx::query("DELETE FROM shop_type").execute(&pools.readers).await.is_err());
    }

    #[tokio::test]
    async fn a_full_disk_is_said_to_pass() {
        let (store, pools, _dir) = opened().await;
        let pages: i64 = sqlx::query_scalar("PRAGMA page_count").fetch_one(&pools.writer).await.unwrap();
        let limit = sqlx::AssertSqlSafe(format!("PRAGMA max_page_count = {pages}"));
        sqlx::query(limit).execute(&pools.writer).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let full = tx.insert_users_bulk(19_900_000_000, 5000, Millis(1)).await.unwrap_err();
        assert!(matches!(full, StoreError::Unavailable(_)) && full.is_transient(), "{full}");
        drop(tx);
        store.begin().await.unwrap().commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_writer_whose_transaction_ended_by_itself_is_replaced() {
        let (store, pools, _dir) = opened().await;
        let mut tx = pools.writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
        // What SQLite does by itself on some errors, unknown to the driver.
        sqlx::query("ROLLBACK").execute(&mut *tx).await.unwrap();
        drop(tx);
        for _ in 0..2 {
            let mut tx = store.begin().await.unwrap();
            tx.audit("test", "a", "b", None, None, Millis(1)).await.unwrap();
            tx.commit().await.unwrap();
        }
        assert_eq!(store.audit_lines(None, 9).await.unwrap().len(), 2);
    }
}
