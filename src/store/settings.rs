//! Settings that are fixed for the life of the data.

use super::run::{changed, on_tx};
use super::{Store, StoreError};

impl Store {
    /// Keeps `value` under `name` when nothing is kept there yet, and answers what is kept. Uses the primary key.
    pub async fn keep_setting(&self, name: &str, value: &str) -> Result<String, StoreError> {
        let mut tx = self.begin().await?;
        changed!(tx, "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", name, value)?;
        let kept = on_tx!(tx, Db, conn =>
            sqlx::query_scalar::<Db, String>("SELECT value FROM setting WHERE name = $1").bind(name).fetch_one(conn))?;
        tx.commit().await?;
        Ok(kept)
    }
}
