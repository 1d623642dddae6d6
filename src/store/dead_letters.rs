//! Dead letters: stream entries that no repeating will save, kept until a person decides.

use sha2::{Digest, Sha256};

use super::run::{changed, on_store};
use super::{Store, StoreError, Tx};
use crate::domain::ids::Lane;
use crate::domain::time::Millis;

/// An entry to be buried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id in the stream.
    pub stream_id: String,
    /// Its lane.
    pub lane: Lane,
    /// What it said, as JSON, bounded.
    pub entry_json: String,
    /// Why it cannot be saved.
    pub reason: String,
}

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterState {
    /// Waits for a person.
    Open,
    /// Tried again by hand; its order has a row now, or reads LOST.
    Retried,
    /// Given up by hand.
    Discarded,
}

impl LetterState {
    /// The word of API and SQL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Retried => "RETRIED",
            Self::Discarded => "DISCARDED",
        }
    }

    /// The state that a row's word means.
    #[must_use]
    pub fn from_row(word: &str) -> Option<Self> {
        [Self::Open, Self::Retried, Self::Discarded].into_iter().find(|state| state.as_str() == word)
    }
}

/// A dead letter as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuriedLetter {
    /// Which.
    pub id: i64,
    /// What was buried, and why.
    pub letter: DeadLetter,
    /// Where it stands.
    pub state: LetterState,
    /// When it was buried.
    pub created_at: Millis,
}

#[derive(sqlx::FromRow)]
struct LetterRow {
    id: i64,
    lane: i64,
    stream_id: String,
    entry: String,
    reason: String,
    state: String,
    created_at: i64,
}

impl TryFrom<LetterRow> for BuriedLetter {
    type Error = StoreError;
    fn try_from(row: LetterRow) -> Result<Self, StoreError> {
        let lane = Lane(u16::try_from(row.lane).map_err(|_| StoreError::Corrupt("dead_letter.lane"))?);
        Ok(Self {
            id: row.id,
            letter: DeadLetter { stream_id: row.stream_id, lane, entry_json: row.entry, reason: row.reason },
            state: LetterState::from_row(&row.state).ok_or(StoreError::Corrupt("dead_letter.state"))?,
            created_at: Millis(row.created_at),
        })
    }
}

macro_rules! select_letter {
    ($rest:literal) => {
        concat!("SELECT id, lane, stream_id, entry, reason, state, created_at FROM dead_letter ", $rest)
    };
}

impl Store {
    /// Dead letters below `before`, newest first, open and closed. Uses the primary key.
    pub async fn dead_letters(&self, before: Option<i64>, limit: i64) -> Result<Vec<BuriedLetter>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, LetterRow>(
            select_letter!("WHERE id < $1 ORDER BY id DESC LIMIT $2")
        ).bind(before.unwrap_or(i64::MAX)).bind(limit).fetch_all(conn))?;
        rows.into_iter().map(BuriedLetter::try_from).collect()
    }

    /// The ones that wait for a person, oldest first: the audit finds the places they hold. Uses `dead_letter_open`.
    pub async fn open_dead_letters(&self, limit: i64) -> Result<Vec<BuriedLetter>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, LetterRow>(
            select_letter!("WHERE state = 'OPEN' ORDER BY id LIMIT $1")
        ).bind(limit).fetch_all(conn))?;
        rows.into_iter().map(BuriedLetter::try_from).collect()
    }

    /// How many wait for a person. Uses `dead_letter_open`.
    pub async fn open_dead_letter_count(&self) -> Result<i64, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT COUNT(*) FROM dead_letter WHERE state = 'OPEN'"
        ).fetch_one(conn))
    }

    /// One dead letter. Uses the primary key.
    pub async fn dead_letter(&self, id: i64) -> Result<Option<BuriedLetter>, StoreError> {
        let row = on_store!(self, Db, conn =>
            sqlx::query_as::<Db, LetterRow>(select_letter!("WHERE id = $1")).bind(id).fetch_optional(conn))?;
        row.map(BuriedLetter::try_from).transpose()
    }
}

impl Tx {
    /// Buries an entry; false: this very entry was buried before, and that letter stays as it is. Another entry under the
    /// same stream id (a stream that was made again) is another letter. Uses the unique index on lane, stream id and digest.
    pub async fn bury(&mut self, letter: &DeadLetter, now: Millis) -> Result<bool, StoreError> {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(letter.entry_json.as_bytes()));
        let text = "INSERT INTO dead_letter (lane, stream_id, digest, entry, reason, created_at) \
                    VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (lane, stream_id, digest) DO NOTHING";
        let lane = i64::from(letter.lane.0);
        let (stream_id, entry, reason) = (letter.stream_id.as_str(), letter.entry_json.as_str(), letter.reason.as_str());
        Ok(changed!(self, text, lane, stream_id, digest.as_str(), entry, reason, now.0)? == 1)
    }

    /// Closes an open letter with what was decided; false: somebody else decided first. Uses the primary key.
    pub async fn close_dead_letter(&mut self, id: i64, decided: LetterState, now: Millis) -> Result<bool, StoreError> {
        let text = "UPDATE dead_letter SET state = $2, closed_at = $3 WHERE id = $1 AND state = 'OPEN'";
        Ok(changed!(self, text, id, decided.as_str(), now.0)? == 1)
    }
}
