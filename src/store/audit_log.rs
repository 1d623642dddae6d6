//! The audit log: who changed what, from what to what. Written in the transaction of the change, never edited.

use super::run::{changed, on_store};
use super::{Store, StoreError, Tx};
use crate::domain::ids::VoucherId;
use crate::domain::time::Millis;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Which.
    pub id: i64,
    /// Who did it, as the caller names him.
    pub who: String,
    /// What was done.
    pub action: String,
    /// To what.
    pub subject: String,
    /// What was there before, where that says something.
    pub before: Option<String>,
    /// What is there now, where that says something.
    pub after: Option<String>,
    /// When.
    pub created_at: Millis,
}

type Row = (i64, String, String, String, Option<String>, Option<String>, i64);

impl From<Row> for AuditLine {
    fn from((id, who, action, subject, before, after, at): Row) -> Self {
        Self { id, who, action, subject, before, after, created_at: Millis(at) }
    }
}

impl Store {
    /// Lines below `before_id`, newest first. Uses the primary key.
    pub async fn audit_lines(&self, before_id: Option<i64>, limit: i64) -> Result<Vec<AuditLine>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, Row>(
            "SELECT id, who, action, subject, before_value, after_value, created_at FROM audit_log \
             WHERE id < $1 ORDER BY id DESC LIMIT $2"
        ).bind(before_id.unwrap_or(i64::MAX)).bind(limit).fetch_all(conn))?;
        Ok(rows.into_iter().map(AuditLine::from).collect())
    }

    /// As [`audit_lines`](Self::audit_lines), of one sale, and only what moved its units or counted them anew. Reads the log
    /// from its end until it has enough: what people do to sales is little.
    pub async fn stock_lines(
        &self,
        voucher: VoucherId,
        before_id: Option<i64>,
        limit: i64,
    ) -> Result<Vec<AuditLine>, StoreError> {
        let rows = on_store!(self, Db, conn => sqlx::query_as::<Db, Row>(
            "SELECT id, who, action, subject, before_value, after_value, created_at FROM audit_log \
             WHERE id < $1 AND subject = $2 \
             AND action IN ('sale.create', 'sale.stock', 'sale.rebuild', 'gate.rebuild', 'books.mend') ORDER BY id DESC LIMIT $3"
        ).bind(before_id.unwrap_or(i64::MAX)).bind(format!("voucher {voucher}")).bind(limit).fetch_all(conn))?;
        Ok(rows.into_iter().map(AuditLine::from).collect())
    }
}

impl Tx {
    /// Writes a line.
    pub async fn audit(
        &mut self,
        who: &str,
        action: &str,
        subject: &str,
        before: Option<&str>,
        after: Option<&str>,
        now: Millis,
    ) -> Result<(), StoreError> {
        let text = "INSERT INTO audit_log (who, action, subject, before_value, after_value, created_at) \
                    VALUES ($1, $2, $3, $4, $5, $6)";
        changed!(self, text, who, action, subject, before, after, now.0).map(drop)
    }
}
