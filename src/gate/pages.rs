//! Holders a page at a time, and whose turn it is to look at them: for the audit that runs beside a sale.
//!
//! Nothing of a sale is written here.

use std::time::Duration;

use super::{Gate, GateError};
use crate::domain::ids::{Lane, OrderId, UserId, VoucherId};
use crate::keys;

/// HSCAN's step.
const SCAN: usize = 1000;

/// Some holders of a voucher.
#[derive(Debug, Clone, Default)]
pub struct HoldersPage {
    /// Where the next page begins; none: this was the last.
    pub next: Option<String>,
    /// User and order. HSCAN may tell one twice.
    pub holders: Vec<(UserId, OrderId)>,
    /// Fields that are no user id, or hold no order id.
    pub unreadable: usize,
}

impl Gate {
    /// One page of a voucher's holders, about a thousand; `from`: none, or the last page's `next`.
    pub async fn holders_page(&self, voucher: VoucherId, from: Option<&str>) -> Result<HoldersPage, GateError> {
        let key = keys::holders(self.lane(voucher), voucher);
        let mut call = redis::cmd("HSCAN");
        call.arg(&key).arg(from.unwrap_or("0")).arg("COUNT").arg(SCAN);
        let (next, some): (String, Vec<String>) = call.query_async(&mut self.redis.shared()).await?;
        let mut page = HoldersPage { next: (next != "0").then_some(next), ..HoldersPage::default() };
        for pair in some.chunks_exact(2) {
            match (pair[0].parse(), pair[1].parse()) {
                (Ok(user), Ok(order)) => page.holders.push((user, order)),
                _ => page.unreadable += 1,
            }
        }
        Ok(page)
    }

    /// The orders under which these users hold a unit of `voucher`, in their order and at one instant.
    pub async fn held_by(&self, voucher: VoucherId, users: &[UserId]) -> Result<Vec<Option<OrderId>>, GateError> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let mut call = redis::cmd("HMGET");
        call.arg(keys::holders(self.lane(voucher), voucher));
        for user in users {
            call.arg(user.0);
        }
        let held: Vec<Option<String>> = call.query_async(&mut self.redis.shared()).await?;
        Ok(held.into_iter().map(|order| order?.parse().ok()).collect())
    }

    /// Whether it is this caller's turn to audit the lane: true once in `time` among all who ask. Two may do it at once
    /// when Redis forgets; that costs work alone.
    pub async fn take_audit_turn(&self, lane: Lane, time: Duration) -> Result<bool, GateError> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut call = redis::cmd("SET");
        call.arg(keys::audit_turn(lane)).arg(1).arg("NX").arg("PX").arg(ms);
        let set: Option<String> = call.query_async(&mut self.redis.shared()).await?;
        Ok(set.is_some())
    }

    /// The vouchers that were loaded into a lane and whose keys were not given an end yet.
    pub async fn loaded(&self, lane: Lane) -> Result<Vec<VoucherId>, GateError> {
        let mut call = redis::cmd("SMEMBERS");
        call.arg(keys::lane_sales(lane));
        let members: Vec<String> = call.query_async(&mut self.redis.shared()).await?;
        Ok(members.iter().filter_map(|voucher| voucher.parse().ok()).collect())
    }

    /// The lane that a voucher's keys are in.
    #[must_use]
    pub fn lane_of(&self, voucher: VoucherId) -> Lane {
        self.lane(voucher)
    }
}
