//! A mutant: the classic reload. A buyer who finds the stock key missing fills it from SQL himself, on the request path.
//!
//! Under the feature `fault-injection` only. It forgets the entries that are still under way, so it oversells the gate.

use super::Gate;
use crate::domain::ids::VoucherId;
use crate::keys;

impl Gate {
    /// Writes what SQL has left, as if nobody were under way.
    pub(crate) async fn reload_on_request(&self, voucher: VoucherId, left: i64) {
        let lane = self.lane(voucher);
        let holders: i64 =
            redis::cmd("HLEN").arg(keys::holders(lane, voucher)).query_async(&mut self.redis.shared()).await.unwrap_or_default();
        let new: redis::RedisResult<Option<String>> =
            redis::cmd("SET").arg(keys::stock(lane, voucher)).arg(left).arg("NX").query_async(&mut self.redis.shared()).await;
        if matches!(new, Ok(Some(_))) {
            let mut total = redis::cmd("HSET");
            total.arg(keys::sale(lane, voucher)).arg("state").arg("open").arg("total").arg(left + holders);
            if let Err(error) = total.exec_async(&mut self.redis.shared()).await {
                tracing::warn!(%error, "the mutant could not reload");
            }
        }
    }
}
