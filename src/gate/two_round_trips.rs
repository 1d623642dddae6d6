//! The negative control of the stampede: the checks and the writes of `lua/admit.lua`, the checks in one round trip and the
//! writes in the next. It oversells as soon as two processes sell; a harness that does not see that sees nothing.
//!
//! Under the feature `fault-injection` only.

use super::{Gate, GateError};
use crate::domain::admission::Admission;
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::keys;

impl Gate {
    /// As [`Gate::admit`], and wrong.
    pub(super) async fn admit_in_two_round_trips(
        &self,
        voucher: VoucherId,
        epoch: Epoch,
        buyers: &[(UserId, OrderId)],
    ) -> Result<Vec<Admission>, GateError> {
        let lane = self.lane(voucher);
        let (stock, holders, stream) = (keys::stock(lane, voucher), keys::holders(lane, voucher), keys::stream(lane));
        let users: Vec<i64> = buyers.iter().map(|(user, _)| user.0).collect();
        let mut checks = redis::pipe();
        checks.get(&stock).cmd("HMGET").arg(&holders).arg(&users);
        let (left, held): (i64, Vec<Option<i64>>) = checks.query_async(&mut self.redis.shared()).await?;

        let mut writes = redis::pipe();
        writes.atomic();
        let mut taken = 0;
        let mut verdicts = Vec::with_capacity(buyers.len());
        for ((user, order), held) in buyers.iter().zip(held) {
            verdicts.push(match held {
                Some(id) => Admission::Duplicate(OrderId(id)),
                None if left - taken <= 0 => Admission::SoldOut,
                None => {
                    taken += 1;
                    let fields =
                        [("id", order.0), ("userId", user.0), ("voucherId", voucher.0), ("epoch", epoch), ("admittedAt", 1)];
                    writes.cmd("XADD").arg(&stream).arg("NOMKSTREAM").arg("*").arg(&fields).ignore();
                    writes.hset(&holders, user.0, order.0).ignore();
                    Admission::Admitted { order: *order, position: 0 }
                }
            });
        }
        if taken > 0 {
            writes.decr(&stock, taken).ignore();
            writes.exec_async(&mut self.redis.shared()).await?;
        }
        Ok(verdicts)
    }
}
