//! What the gate counts of one sale, for the control room: one round trip, one instant, no set read.

use std::collections::HashMap;

use redis::Value;

use super::look::{read, read_refused, read_sale, typed};
use super::{Gate, GateError, SaleHash};
use crate::domain::ids::{Epoch, UserId, VoucherId};
use crate::domain::ledger::GateCounts;
use crate::keys;
use crate::redis::info_field;

/// The counts of one sale at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GateFigures {
    /// The hash; none when it is missing, not whole or of another type.
    pub sale: Option<SaleHash>,
    /// Units, holders and the stream; none when a key is missing.
    pub counts: Option<GateCounts>,
    /// Entries of the lane's stream that are not settled.
    pub waiting: i64,
    /// How often each answer but OK was given, by its code.
    pub refused: Vec<(String, i64)>,
}

impl Gate {
    /// What the gate counts of `voucher` now.
    pub async fn figures(&self, voucher: VoucherId) -> Result<GateFigures, GateError> {
        let lane = self.lane(voucher);
        let mut asked = redis::pipe();
        asked.atomic().ignore_errors().cmd("INFO").arg("server").cmd("HGETALL").arg(keys::sale(lane, voucher));
        asked.cmd("GET").arg(keys::stock(lane, voucher)).cmd("HLEN").arg(keys::holders(lane, voucher));
        asked.cmd("XINFO").arg("STREAM").arg(keys::stream(lane));
        let mut answers = asked.query_async::<Vec<Value>>(&mut self.redis.shared()).await?.into_iter();
        let mut next = || answers.next().ok_or_else(|| GateError::BadReply(String::from("too few answers")));
        let info: String = read(next()?)?;
        let hash: HashMap<String, String> = typed(next()?)?.unwrap_or_default();
        let stock: Option<String> = typed::<Option<String>>(next()?)?.flatten();
        let holders: Option<i64> = typed(next()?)?;
        // An error here is a stream that is missing, or something else in its place.
        let stream: Option<HashMap<String, Value>> = read(next()?).ok();
        let number = |name: &str| match stream.as_ref()?.get(name) {
            Some(Value::Int(n)) => Some(*n),
            _ => None,
        };
        let sale = read_sale(&hash, info_field(&info, "run_id")).filter(|sale| sale.run_id_fits);
        let counts = || {
            let sale = sale?;
            Some(GateCounts {
                stock: stock?.parse().ok()?,
                holders: holders?,
                total: sale.total,
                waiting: number("length")?,
                added: number("entries-added")?,
                epoch: sale.epoch,
            })
        };
        let counts = counts();
        Ok(GateFigures { sale, counts, waiting: number("length").unwrap_or(0), refused: read_refused(&hash) })
    }

    /// Who was turned away from a sale, as it was written last; the test of a user costs nothing.
    pub async fn turned_away(&self, voucher: VoucherId) -> Result<TurnedAway, GateError> {
        let key = keys::turned_away(self.lane(voucher), voucher);
        let bits: Option<Vec<u8>> = redis::cmd("GET").arg(key).query_async(&mut self.redis.shared()).await?;
        Ok(TurnedAway(bits.unwrap_or_default()))
    }

    /// Ends the sale at the gate, at `end` or now, whichever is earlier; false when the gate is of another epoch.
    pub async fn end(&self, voucher: VoucherId, epoch: Epoch, end: crate::domain::time::Millis) -> Result<bool, GateError> {
        let keys = [keys::sale(self.lane(voucher), voucher)];
        let reply: String = crate::redis::scripts::END
            .call(&mut self.redis.shared(), &keys, |call| {
                call.arg(epoch).arg(end.0);
            })
            .await?;
        super::yes_or_no(&reply, "SET", "STALE")
    }
}

/// The people turned away from one sale: a bit for each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnedAway(Vec<u8>);

impl TurnedAway {
    /// How many.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.0.iter().map(|byte| i64::from(byte.count_ones())).sum()
    }

    /// Whether `user` is among them.
    #[must_use]
    pub fn contains(&self, user: UserId) -> bool {
        let bit = user.0.rem_euclid(super::tally::BITS);
        let byte = usize::try_from(bit / 8).ok().and_then(|i| self.0.get(i)).copied().unwrap_or(0);
        // Redis numbers bits from the highest.
        byte & (0x80 >> (bit % 8)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_numbered_as_redis_numbers_them() {
        let away = TurnedAway(vec![0b1000_0001, 0b0100_0000]);
        let found: Vec<i64> = (0..64).filter(|n| away.contains(UserId(*n))).collect();
        assert_eq!((found, away.count()), (vec![0, 7, 9], 3));
    }
}
