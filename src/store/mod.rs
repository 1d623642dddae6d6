//! SQL, and nothing but SQL: the truth about who bought what. No other room names a table.
//!
//! [`Store`] reads; what must happen together with something else is written through a [`Tx`]. Every statement is one text
//! that means the same on SQLite and Postgres; the contract test runs each of them on both. Rules are `domain/`'s.

mod audit_log;
mod connect;
mod control;
mod dead_letters;
mod error;
mod follow_ups;
mod id_blocks;
mod meters;
mod migrate;
mod orders;
mod outbox;
mod payment_links;
mod payments;
mod place;
mod reports;
mod run;
mod sales;
mod sandbox;
mod settings;
mod shops;
mod standing;
mod tx;
mod users;
mod vouchers;

use std::path::Path;
use std::time::Duration;

use sqlx::PgPool;

pub use audit_log::AuditLine;
pub use connect::SqlitePools;
pub use control::TALLY;
pub use dead_letters::{BuriedLetter, DeadLetter, LetterState};
pub use error::StoreError;
pub use meters::PoolFigures;
pub use orders::{DUE_ORDERS, NEXT_DEADLINE, Stamps};
pub use outbox::{OpenRelease, OutboxLine, OutboxRow, RELEASE, Release};
pub use payments::{EventSeen, NewPayment, Payment, RefundRow};
pub use place::{KnownOrder, NewOrder};
pub use reports::{KeptCounts, OrderFilter, OrderLine};
pub use sandbox::{SandboxEntry, SandboxLetter, SandboxPayment, Way};
pub use shops::{NewShop, Page, Shop, ShopType};
pub use standing::Standing;
pub use tx::Tx;
pub use users::Credentials;
pub use vouchers::{Inserted, OnSale, VoucherTexts};

use run::{bounded, on_store};

pub use run::with_patience;

/// How long a ping waits for a server that says nothing.
const PING_WITHIN: Duration = Duration::from_millis(900);

/// The database, whichever it is. Cheap to clone; all clones share the connections.
#[derive(Debug, Clone)]
pub enum Store {
    /// One file, one writer, several readers.
    Sqlite(SqlitePools),
    /// A server, shared by many instances.
    Postgres(PgPool),
}

impl Store {
    /// Opens `sqlite://PATH` (the path as it is, nothing decoded; created when missing) or `postgres://…`. No schema yet:
    /// call [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// [`StoreError::BadUrl`], or why the database cannot be opened now.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if let Some(path) = url.strip_prefix("sqlite://") {
            connect::open_sqlite(Path::new(path)).await.map(Self::Sqlite)
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            connect::open_postgres(url).await.map(Self::Postgres)
        } else {
            Err(StoreError::BadUrl)
        }
    }

    /// Asks for one answer, for the readiness check: within about a second, or an error.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let asked = async {
            on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>("SELECT CAST(1 AS BIGINT)").fetch_one(conn)).map(drop)
        };
        with_patience(PING_WITHIN, asked).await
    }

    /// Closes every connection; waits for those in use. On SQLite the last one folds the write-ahead log into the file.
    pub async fn close(&self) {
        let closing = async {
            match self {
                Self::Sqlite(pools) => {
                    pools.readers.close().await;
                    pools.writer.close().await;
                }
                Self::Postgres(pool) => pool.close().await,
            }
            Ok(())
        };
        if let Err(error) = bounded(closing).await {
            tracing::warn!(%error, "the database was not closed in order");
        }
    }
}
