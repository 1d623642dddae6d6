//! The outbox: what must still happen outside of SQL, written in the transaction that decided it.
//!
//! Rows are kept when done: their key makes a second put of the same thing do nothing.

use serde::{Deserialize, Serialize};
use sqlx::QueryBuilder;

use super::run::{ROWS, changed, on_store, on_tx, push_list};
use super::{Store, StoreError, Tx};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::time::Millis;

/// The kind of rows that give a unit back at the gate.
pub const RELEASE: &str = "release";

/// A unit to give back at the gate: the payload of a release row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Of which voucher.
    pub voucher: VoucherId,
    /// Who held it.
    pub user: UserId,
    /// Under which order.
    pub order: OrderId,
}

/// A row that is to be done.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OutboxRow {
    /// Which.
    pub id: i64,
    /// What is to be done.
    pub kind: String,
    /// What makes it the same thing.
    pub dedupe_key: String,
    /// JSON of the kind's own form.
    pub payload: String,
    /// How often it was put off.
    pub attempts: i64,
}

impl OutboxRow {
    /// What a release row asks for.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: the payload is of another kind.
    pub fn release(&self) -> Result<Release, StoreError> {
        serde_json::from_str(&self.payload).map_err(|_| StoreError::Corrupt("outbox.payload of a release"))
    }
}

/// A row as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct OutboxLine {
    /// Which.
    pub id: i64,
    /// What is to be done.
    pub kind: String,
    /// What makes it the same thing.
    pub dedupe_key: String,
    /// Of which voucher; none: of none in particular.
    pub voucher_id: Option<i64>,
    /// JSON of the kind's own form.
    pub payload: String,
    /// How often it was put off.
    pub attempts: i64,
    /// When it is tried next, ms.
    pub next_at: i64,
    /// When it was done, ms; none: it waits.
    pub done_at: Option<i64>,
}

macro_rules! select_line {
    ($rest:literal) => {
        concat!("SELECT id, kind, dedupe_key, voucher_id, payload, attempts, next_at, done_at FROM outbox ", $rest)
    };
}

/// A release row beside what SQL says of its sale, read in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRelease {
    /// Nobody has done it yet.
    pub open: bool,
    /// The sale's epoch; none: no such sale.
    pub epoch: Option<Epoch>,
    /// The sale is over (or does not exist): its gate is not needed any more.
    pub over: bool,
}

impl Store {
    /// Rows of a kind that are due at `now`, the longest waiting first. Uses `outbox_due`.
    pub async fn due_outbox(&self, kind: &str, now: Millis, limit: i64) -> Result<Vec<OutboxRow>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, OutboxRow>(
            "SELECT id, kind, dedupe_key, payload, attempts FROM outbox \
             WHERE kind = $1 AND next_at <= $2 AND done_at IS NULL ORDER BY next_at LIMIT $3"
        ).bind(kind).bind(now.0).bind(limit).fetch_all(conn))
    }

    /// Whether a release is still open, its sale's epoch and whether that sale is over at `now`, in one snapshot; none: no
    /// such row. Uses the primary keys.
    pub async fn release_and_epoch(&self, row: i64, now: Millis) -> Result<Option<OpenRelease>, StoreError> {
        let found = on_store!(self, Db, conn => sqlx::query_as::<Db, (bool, Option<i64>, Option<i64>)>(
            "SELECT x.done_at IS NULL, s.epoch, s.end_at FROM outbox x LEFT JOIN flash_sale s ON s.voucher_id = x.voucher_id \
             WHERE x.id = $1"
        ).bind(row).fetch_optional(conn))?;
        Ok(found.map(|(open, epoch, end)| OpenRelease { open, epoch, over: end.is_none_or(|end| end <= now.0) }))
    }

    /// Rows below `before`, newest first, done or not. Uses the primary key.
    pub async fn outbox_lines(&self, before: Option<i64>, limit: i64) -> Result<Vec<OutboxLine>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, OutboxLine>(
            select_line!("WHERE id < $1 ORDER BY id DESC LIMIT $2")
        ).bind(before.unwrap_or(i64::MAX)).bind(limit).fetch_all(conn))
    }

    /// Rows below `before` that wait, newest first; of one voucher, or of all. Uses `outbox_open`.
    pub async fn open_outbox_lines(
        &self,
        voucher: Option<VoucherId>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<OutboxLine>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_as::<Db, OutboxLine>(
            select_line!("WHERE done_at IS NULL AND id < $1 AND ($2 IS NULL OR voucher_id = $2) ORDER BY id DESC LIMIT $3")
        ).bind(before.unwrap_or(i64::MAX)).bind(voucher.map(|v| v.0)).bind(limit).fetch_all(conn))
    }

    /// Marks rows as done; those that are stay as they are. Uses the primary key.
    pub async fn finish_outbox(&self, rows: &[i64], now: Millis) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        tx.finish_outbox(rows, now).await?;
        tx.commit().await
    }

    /// Puts open rows off until `next_at` and counts the attempt. Uses the primary key.
    pub async fn retry_outbox(&self, rows: &[i64], next_at: Millis) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for chunk in rows.chunks(ROWS) {
            on_tx!(tx, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("UPDATE outbox SET attempts = attempts + 1, next_at = ");
                sql.push_bind(next_at.0).push(" WHERE done_at IS NULL AND id IN ");
                push_list(&mut sql, chunk.iter().copied());
                sql.build().persistent(false).execute(conn).await.map(drop)
            })?;
        }
        tx.commit().await
    }

    /// How many rows of a kind are not done, due or not. Uses `outbox_due`.
    pub async fn open_outbox_count(&self, kind: &str) -> Result<i64, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT COUNT(*) FROM outbox WHERE kind = $1 AND done_at IS NULL"
        ).bind(kind).fetch_one(conn))
    }

    /// The releases of a voucher that the gate has not applied yet (`U`, one by one). Uses `outbox_open_by_voucher`.
    pub async fn open_releases_of(&self, voucher: VoucherId) -> Result<Vec<Release>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, OutboxRow>(
            "SELECT id, kind, dedupe_key, payload, attempts FROM outbox \
             WHERE voucher_id = $1 AND kind = 'release' AND done_at IS NULL ORDER BY id"
        ).bind(voucher.0).fetch_all(conn))?;
        rows.iter().map(OutboxRow::release).collect()
    }
}

impl Tx {
    /// Writes down something to be done from `now` on; a key that was ever used does nothing and answers false. Uses the
    /// unique index on `dedupe_key`.
    pub async fn put_outbox(
        &mut self,
        kind: &str,
        dedupe_key: &str,
        payload_json: &str,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let text = "INSERT INTO outbox (kind, dedupe_key, payload, next_at) VALUES ($1, $2, $3, $4) \
                    ON CONFLICT (dedupe_key) DO NOTHING";
        Ok(changed!(self, text, kind, dedupe_key, payload_json, now.0)? == 1)
    }

    /// Writes down units to be given back at the gate, each order's once for ever; answers how many were new. Uses the
    /// unique index on `dedupe_key`.
    pub async fn put_releases(&mut self, releases: &[Release], now: Millis) -> Result<u64, StoreError> {
        let mut fresh = 0;
        for chunk in releases.chunks(ROWS) {
            fresh += on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("INSERT INTO outbox (kind, dedupe_key, voucher_id, payload, next_at) ");
                sql.push_values(chunk, |mut row, release| {
                    let payload = serde_json::json!(release).to_string();
                    row.push_bind(RELEASE).push_bind(format!("release:{}", release.order)).push_bind(release.voucher.0)
                        .push_bind(payload).push_bind(now.0);
                });
                sql.push(" ON CONFLICT (dedupe_key) DO NOTHING");
                sql.build().persistent(false).execute(conn).await.map(|done| done.rows_affected())
            })?;
        }
        Ok(fresh)
    }

    /// Marks rows as done together with what else this transaction does. Uses the primary key.
    pub async fn finish_outbox(&mut self, rows: &[i64], now: Millis) -> Result<(), StoreError> {
        for chunk in rows.chunks(ROWS) {
            on_tx!(self, Db, conn => async {
                let mut sql = QueryBuilder::<Db>::new("UPDATE outbox SET done_at = ");
                sql.push_bind(now.0).push(" WHERE done_at IS NULL AND id IN ");
                push_list(&mut sql, chunk.iter().copied());
                sql.build().persistent(false).execute(conn).await.map(drop)
            })?;
        }
        Ok(())
    }

    /// Marks every open release of a voucher as done, when a load of its gate has taken them in; answers how many. The
    /// sale's row must be locked. Uses `outbox_open_by_voucher`.
    pub async fn close_releases_of(&mut self, voucher: VoucherId, now: Millis) -> Result<u64, StoreError> {
        let text = "UPDATE outbox SET done_at = $2 WHERE voucher_id = $1 AND kind = 'release' AND done_at IS NULL";
        changed!(self, text, voucher.0, now.0)
    }
}
