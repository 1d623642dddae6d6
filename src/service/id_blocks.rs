//! Which blocks of order ids are ours. Redis hands out numbers; SQL says that each is handed out once.
//!
//! Redis may forget its counter (a flush, a failover, a deleted key); then a block that is registered already is refused
//! here, and the counter is raised above the highest one.

use futures_util::future::BoxFuture;

use crate::domain::time::UtcDay;
use crate::gate::order_ids::{BlockRegistry, Registered};
use crate::store::Store;

/// Registers blocks in SQL.
#[derive(Clone)]
pub struct SqlBlocks(pub Store);

impl BlockRegistry for SqlBlocks {
    fn register(&self, day: UtcDay, first: i64) -> BoxFuture<'_, Result<Registered, String>> {
        Box::pin(async move {
            if crate::fault::mutant("blocks-not-registered") {
                return Ok(Registered::Yes);
            }
            if self.0.register_block(day, first).await.map_err(|e| e.to_string())? {
                return Ok(Registered::Yes);
            }
            let highest = self.0.highest_block(day).await.map_err(|e| e.to_string())?.unwrap_or(first);
            Ok(Registered::Taken { highest })
        })
    }
}
