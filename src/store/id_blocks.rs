//! Blocks of the day's order sequence: a block may be used only once it is registered here, so that two processes never
//! give birth to the same id, whatever Redis remembers.

use super::run::{changed, on_store};
use super::{Store, StoreError};
use crate::domain::time::UtcDay;

impl Store {
    /// Registers the block of `day` that begins at `first`; false: it is taken, by anybody. Committed before it returns.
    /// Uses the primary key.
    pub async fn register_block(&self, day: UtcDay, first: i64) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let text = "INSERT INTO id_block (day, first) VALUES ($1, $2) ON CONFLICT (day, first) DO NOTHING";
        let done = changed!(tx, text, i64::from(day.0), first)?;
        tx.commit().await?;
        Ok(done == 1)
    }

    /// The first number of the day's highest registered block. Uses the primary key.
    pub async fn highest_block(&self, day: UtcDay) -> Result<Option<i64>, StoreError> {
        on_store!(self, Db, conn => sqlx::query_scalar::<Db, i64>(
            "SELECT first FROM id_block WHERE day = $1 ORDER BY first DESC LIMIT 1"
        ).bind(i64::from(day.0)).fetch_optional(conn))
    }
}
