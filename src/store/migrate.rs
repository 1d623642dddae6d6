//! The schema: brought up to date at start, refused when it is newer than this program.

use std::future::Future;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgPool;
use sqlx::{ConnectOptions, Connection};

use super::connect::SqlitePools;
use super::{Store, StoreError};
use crate::fault::fail_point;

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// The most that all pending migrations, and the wait for another instance's, may take.
const WITHIN: Duration = Duration::from_mins(10);

impl Store {
    /// Applies what is pending; without anything pending it changes nothing. Instances that start together take turns.
    ///
    /// # Errors
    /// [`StoreError::SchemaTooNew`]: a newer version of this program was here; nothing was changed.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(pools) => judged(&SQLITE, migrate_sqlite(pools)).await,
            Self::Postgres(pool) => judged(&POSTGRES, migrate_postgres(pool)).await,
        }
    }
}

async fn judged(migrator: &Migrator, run: impl Future<Output = Result<(), MigrateError>>) -> Result<(), StoreError> {
    let known = migrator.iter().map(|m| m.version).max().unwrap_or(0);
    match tokio::time::timeout(WITHIN, run).await {
        Ok(Err(MigrateError::VersionMissing(found))) if found > known => Err(StoreError::SchemaTooNew { found, known }),
        Ok(outcome) => outcome.map_err(StoreError::from),
        Err(_) => Err(StoreError::Unavailable(String::from("the migrations took too long"))),
    }
}

/// All in one immediate transaction: SQLite has no lock for migrations, and two processes may start together.
async fn migrate_sqlite(pools: &SqlitePools) -> Result<(), MigrateError> {
    let mut tx = pools.writer.begin_with("BEGIN IMMEDIATE").await?;
    for version in versions(&SQLITE) {
        SQLITE.run_to(version, &mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}

/// On a connection of its own without the pool's limits of time: a migration may take long, or wait for another instance's.
async fn migrate_postgres(pool: &PgPool) -> Result<(), MigrateError> {
    let options = pool.connect_options().as_ref().clone().options([("lock_timeout", "0"), ("statement_timeout", "0")]);
    let mut connection = options.connect().await?;
    // One by one: whatever stops in between leaves whole migrations, and the next start goes on from there.
    let mut outcome = Ok(());
    for version in versions(&POSTGRES) {
        outcome = POSTGRES.run_to(version, &mut connection).await;
        if outcome.is_err() {
            break;
        }
    }
    connection.close().await?;
    outcome
}

/// Every version, in order; between the last two a test may end the process.
fn versions(migrator: &Migrator) -> impl Iterator<Item = i64> {
    let last = migrator.iter().map(|m| m.version).max();
    migrator.iter().map(|m| m.version).inspect(move |version| {
        if Some(*version) == last {
            fail_point("migrate-mid");
        }
    })
}
