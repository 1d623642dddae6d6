//! What may go wrong with SQL, sorted by what the caller does next: wait and repeat, or give up.
//!
//! Decided by the kind and code of an error alone; its text is for the log.

use std::borrow::Cow;

use sqlx::error::{DatabaseError, ErrorKind};
use sqlx::migrate::MigrateError;

/// Why a statement, a commit or an opening did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique column has this value already.
    #[error("the value is taken")]
    Conflict,
    /// A reference points at nothing: a user, shop or voucher that does not exist.
    #[error("a reference points at nothing")]
    UnknownReference,
    /// Somebody else holds the lock for too long, or two transactions waited for each other. Nothing was changed; repeat.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// The database cannot be asked now, or did not answer in time. After a commit: unknown whether it happened; repeat.
    #[error("the database is away: {0}")]
    Unavailable(String),
    /// A row holds what this program never writes, or a transaction was to be committed after one of its statements failed.
    #[error("the database holds something unexpected: {0}")]
    Corrupt(&'static str),
    /// The schema was made by a newer version of this program.
    #[error("the database has schema {found}, this program knows {known}: start the newer version")]
    SchemaTooNew {
        /// The newest migration that was applied.
        found: i64,
        /// The newest migration that this program has.
        known: i64,
    },
    /// The address is neither `sqlite://PATH` nor `postgres://…`.
    #[error("a database address begins with sqlite:// or postgres://")]
    BadUrl,
    /// A migration did not apply, or was changed after it was applied.
    #[error("the schema cannot be brought up to date: {0}")]
    Migration(#[source] Box<MigrateError>),
    /// Anything else: a broken constraint, no permission, a mistake in a statement. Repeating does not help.
    #[error(transparent)]
    Other(sqlx::Error),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything: back off and repeat.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Unavailable(_))
    }
}

/// What a database's own code means.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Busy,
    Away,
    Permanent,
}

/// Postgres's SQLSTATE has five characters, SQLite's extended result code is a number of up to four digits.
fn verdict(code: &str) -> Verdict {
    if code.len() == 5 { postgres_verdict(code) } else { sqlite_verdict(code.parse().unwrap_or(0)) }
}

fn postgres_verdict(code: &str) -> Verdict {
    match code {
        // serialization failure, deadlock, lock timeout
        "40001" | "40P01" | "55P03" => Verdict::Busy,
        // query cancelled (statement timeout), an idle transaction ended, a standby that only reads (after a failover);
        // server ended, crashed, starting, database dropped, idle session ended; input or output failed
        "57014" | "25P03" | "25P04" | "25006" | "57P01" | "57P02" | "57P03" | "57P05" | "58000" | "58030" => Verdict::Away,
        // 08: the connection; 53: out of connections, memory, disk
        _ if code.starts_with("08") || code.starts_with("53") => Verdict::Away,
        _ => Verdict::Permanent,
    }
}

fn sqlite_verdict(extended: i32) -> Verdict {
    match extended & 0xff {
        // BUSY (also 517, a snapshot that was overtaken), LOCKED, PROTOCOL (a race for the write-ahead log)
        5 | 6 | 15 => Verdict::Busy,
        // NOMEM, IOERR, FULL, CANTOPEN
        7 | 10 | 13 | 14 => Verdict::Away,
        _ => Verdict::Permanent,
    }
}

fn from_database(error: Box<dyn DatabaseError>) -> StoreError {
    match error.kind() {
        ErrorKind::UniqueViolation => return StoreError::Conflict,
        ErrorKind::ForeignKeyViolation => return StoreError::UnknownReference,
        _ => {}
    }
    match verdict(&error.code().unwrap_or(Cow::Borrowed(""))) {
        Verdict::Busy => StoreError::Busy(error.to_string()),
        Verdict::Away => StoreError::Unavailable(error.to_string()),
        Verdict::Permanent => StoreError::Other(sqlx::Error::Database(error)),
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => from_database(error),
            // Protocol: the connection broke in the middle of a message. BeginFailed: the server ended it meanwhile.
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
            | sqlx::Error::InvalidSavePointStatement => Self::Unavailable(error.to_string()),
            error => Self::Other(error),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Self::from(error),
            error => Self::Migration(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_whether_waiting_helps() {
        for code in ["40P01", "40001", "55P03", "5", "517", "261", "6"] {
            assert_eq!(verdict(code), Verdict::Busy, "{code}");
        }
        for code in ["57014", "57P01", "57P03", "53300", "53100", "08006", "13", "10", "266", "778", "14"] {
            assert_eq!(verdict(code), Verdict::Away, "{code}");
        }
        for code in ["23505", "23503", "23514", "42P01", "22P02", "28P01", "275", "1", "19", "", "nonsense"] {
            assert_eq!(verdict(code), Verdict::Permanent, "{code}");
        }
    }

    #[test]
    fn a_lost_connection_and_a_full_pool_pass() {
        for error in [sqlx::Error::PoolTimedOut, sqlx::Error::WorkerCrashed, sqlx::Error::Io(std::io::Error::other("gone"))] {
            assert!(StoreError::from(error).is_transient());
        }
        assert!(!StoreError::from(sqlx::Error::RowNotFound).is_transient());
        assert!(!StoreError::Conflict.is_transient());
    }
}
