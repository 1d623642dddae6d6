//! Writing a sale into the gate as SQL has it, also with a very large holder set.

use super::{Gate, GateError};
use crate::domain::ids::{Epoch, OrderId, UserId, VoucherId};
use crate::domain::time::Millis;
use crate::keys;
use crate::redis::scripts::{LOAD, STAGE};

/// Holders that travel in one call.
const CHUNK: usize = 5000;

/// A sale as SQL has it under its row lock.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// The voucher on sale.
    pub voucher: VoucherId,
    /// The number that this rebuild burnt: the new epoch.
    pub claim: Epoch,
    /// Units without a live order (`D`).
    pub left: i64,
    /// Every live order, with its user.
    pub holders: &'a [(UserId, OrderId)],
    /// Units ever put on sale (`I`); must be `left` and the holders together.
    pub total: i64,
    /// Stopped by the merchant.
    pub paused: bool,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after it.
    pub end: Millis,
}

impl Gate {
    /// Loads the sale, shut; [`Gate::open`] comes after the commit. False: a later rebuild is under way.
    ///
    /// Makes the lane's stream when it is missing, and then shuts every other sale of that lane, for their entries are
    /// gone with it. Large holder sets are put together aside, and take effect in one step.
    pub async fn load(&self, load: &Load<'_>) -> Result<bool, GateError> {
        let (lane, voucher) = (self.lane(load.voucher), load.voucher);
        let staging = [keys::holders_staging(lane, voucher)];
        let inline = load.holders.len() <= CHUNK;
        if !inline {
            for chunk in load.holders.chunks(CHUNK) {
                let reply: String = STAGE
                    .call(&mut self.redis.shared(), &staging, |call| {
                        call.arg(load.claim);
                        for (user, order) in chunk {
                            call.arg(user.0).arg(order.0);
                        }
                    })
                    .await?;
                if !super::yes_or_no(&reply, "STAGED", "REFUSED")? {
                    return Ok(false);
                }
            }
        }
        let [staging] = staging;
        let keys = [
            keys::sale(lane, voucher),
            keys::stock(lane, voucher),
            keys::holders(lane, voucher),
            staging,
            keys::stream(lane),
            keys::lane_sales(lane),
            keys::places(lane),
        ];
        let reply: String = LOAD
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(load.claim).arg(load.left).arg(load.total).arg(i64::from(load.paused));
                call.arg(load.begin.0).arg(load.end.0).arg(voucher.0).arg(keys::GROUP);
                call.arg(if inline { 0 } else { load.holders.len() });
                for (user, order) in load.holders.iter().filter(|_| inline) {
                    call.arg(user.0).arg(order.0);
                }
            })
            .await?;
        match reply.as_str() {
            "STAGE_LOST" => Err(GateError::BadReply(String::from("the staged holders were lost before the load"))),
            reply => super::yes_or_no(reply, "LOADED", "REFUSED"),
        }
    }
}
