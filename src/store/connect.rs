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
