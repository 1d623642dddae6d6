//! Looking at the gate without changing it: for pages, for the reconciler and for the audit.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::{Gate, GateError};
use crate::domain::ids::{Epoch, Lane, OrderId, UserId, VoucherId};
use crate::domain::ledger::gate_sum_holds;
use crate::domain::time::Millis;
use crate::keys;
use crate::redis::info_field;

/// A sale's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleHash {
    /// Whether anybody may be admitted at all.
    pub open: bool,
    /// Stopped by the merchant.
    pub paused: bool,
    /// The epoch that it was loaded with.
    pub epoch: Epoch,
    /// The highest rebuild that closed or loaded it.
    pub claim: Epoch,
    /// Whether it was loaded on the very server that answers now.
    pub run_id_fits: bool,
    /// Units ever put on sale.
    pub total: i64,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after it.
    pub end: Millis,
}

/// The gate of one sale at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GateSnapshot {
    /// The hash; none when it is missing or not whole, or when one of the sale's keys is of another type.
    pub sale: Option<SaleHash>,
    /// Units left; none when the key is missing or no number.
    pub stock: Option<i64>,
    /// Number of holders.
    pub holders: i64,
    /// How often each answer but OK was given, by its code, since the sale was first loaded.
    pub refused: Vec<(String, i64)>,
    /// Whether the lane's stream exists.
    pub stream_there: bool,
}

impl GateSnapshot {
    /// The first thing that does not fit what SQL says, in the words of `lua/admit.lua`; none: ready to admit.
    #[must_use]
    pub fn misfit(&self, epoch: Epoch) -> Option<&'static str> {
        let Some(sale) = self.sale else { return Some("sale") };
        match self.stock {
            _ if sale.epoch != epoch => Some("epoch"),
            _ if !sale.run_id_fits => Some("run_id"),
            None => Some("stock"),
            _ if !self.stream_there => Some("stream"),
            Some(stock) if !gate_sum_holds(stock, self.holders, sale.total) => Some("sum"),
            _ if !sale.open => Some("closed"),
            Some(_) => None,
        }
    }
}

/// HSCAN's step.
const SCAN: usize = 1000;

impl Gate {
    /// The gate of one sale.
    pub async fn snapshot(&self, voucher: VoucherId) -> Result<GateSnapshot, GateError> {
        Ok(self.snapshots(&[voucher]).await?.pop().unwrap_or_default())
    }

    /// The gates of several sales, in their order; one round trip, and one instant, for each lane.
    pub async fn snapshots(&self, vouchers: &[VoucherId]) -> Result<Vec<GateSnapshot>, GateError> {
        let mut found = vec![GateSnapshot::default(); vouchers.len()];
        let mut lanes: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
        for (i, voucher) in vouchers.iter().enumerate() {
            lanes.entry(self.lane(*voucher)).or_default().push(i);
        }
        for (lane, places) in lanes {
            // One transaction: a purchase between two reads would look like books that do not balance.
            let mut asked = redis::pipe();
            // A key of another type must not hide the gates of all other sales: it answers for its own sale alone.
            asked.atomic().ignore_errors().cmd("INFO").arg("server").cmd("TYPE").arg(keys::stream(lane));
            for voucher in places.iter().map(|i| vouchers[*i]) {
                asked.cmd("HGETALL").arg(keys::sale(lane, voucher));
                asked.cmd("GET").arg(keys::stock(lane, voucher)).cmd("HLEN").arg(keys::holders(lane, voucher));
            }
            let mut answers = asked.query_async::<Vec<redis::Value>>(&mut self.redis.shared()).await?.into_iter();
            let mut next = || answers.next().ok_or_else(|| GateError::BadReply(String::from("too few answers")));
            let info: String = read(next()?)?;
            let stream_there = read::<String>(next()?)? == "stream";
            for place in places {
                let hash: Option<HashMap<String, String>> = typed(next()?)?;
                let stock: Option<Option<String>> = typed(next()?)?;
                let holders: Option<i64> = typed(next()?)?;
                let all_typed = hash.is_some() && stock.is_some() && holders.is_some();
                let hash = hash.unwrap_or_default();
                found[place] = GateSnapshot {
                    sale: if all_typed { read_sale(&hash, info_field(&info, "run_id")) } else { None },
                    stock: stock.flatten().and_then(|text| text.parse().ok()),
                    holders: holders.unwrap_or_default(),
                    refused: read_refused(&hash),
                    stream_there,
                };
            }
        }
        Ok(found)
    }

    /// Units left at the gate for each voucher, in one round trip; none where the gate has no figure.
    pub async fn stocks(&self, vouchers: &[VoucherId]) -> Result<Vec<Option<i64>>, GateError> {
        if vouchers.is_empty() {
            return Ok(Vec::new());
        }
        let mut asked = redis::pipe();
        for voucher in vouchers {
            asked.cmd("GET").arg(keys::stock(self.lane(*voucher), *voucher));
        }
        let answers: Vec<Option<String>> = asked.query_async(&mut self.redis.shared()).await?;
        Ok(answers.into_iter().map(|text| text?.parse().ok()).collect())
    }

    /// Every holder of a voucher. Not of one instant: who comes or goes meanwhile may be missing or there.
    pub async fn holders(&self, voucher: VoucherId) -> Result<HashMap<UserId, OrderId>, GateError> {
        let key = keys::holders(self.lane(voucher), voucher);
        let mut all = HashMap::new();
        let mut cursor = String::from("0");
        loop {
            let (next, some): (String, Vec<String>) =
                redis::cmd("HSCAN").arg(&key).arg(&cursor).arg("COUNT").arg(SCAN).query_async(&mut self.redis.shared()).await?;
            for pair in some.chunks(2) {
                match pair {
                    [user, order] => match (user.parse(), order.parse()) {
                        (Ok(user), Ok(order)) => all.insert(user, order),
                        _ => return Err(GateError::BadReply(format!("a holder of voucher {voucher}: {pair:?}"))),
                    },
                    _ => return Err(GateError::BadReply(String::from("half a holder"))),
                };
            }
            if next == "0" {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// Where among `vouchers` the user holds a unit: voucher, order, and the epoch of that sale's hash. One round trip.
    pub async fn find_holder(&self, vouchers: &[VoucherId], user: UserId) -> Result<Vec<(VoucherId, OrderId, Epoch)>, GateError> {
        if vouchers.is_empty() {
            return Ok(Vec::new());
        }
        let mut asked = redis::pipe();
        for voucher in vouchers {
            let lane = self.lane(*voucher);
            asked.cmd("HGET").arg(keys::holders(lane, *voucher)).arg(user.0);
            asked.cmd("HGET").arg(keys::sale(lane, *voucher)).arg("epoch");
        }
        let answers: Vec<Option<String>> = asked.query_async(&mut self.redis.shared()).await?;
        let pairs = vouchers.iter().zip(answers.chunks(2));
        let held = pairs.filter_map(|(voucher, pair)| match pair {
            [Some(order), Some(epoch)] => Some((*voucher, order.parse().ok()?, epoch.parse().ok()?)),
            _ => None,
        });
        Ok(held.collect())
    }

    /// Lets the keys of a sale that is long over go away after `time`. A later load makes them last again.
    pub async fn expire_keys_of(&self, voucher: VoucherId, time: Duration) -> Result<(), GateError> {
        let lane = self.lane(voucher);
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut asked = redis::pipe();
        asked.atomic();
        for key in [keys::sale(lane, voucher), keys::stock(lane, voucher), keys::holders(lane, voucher)] {
            asked.cmd("PEXPIRE").arg(key).arg(ms).ignore();
        }
        asked.cmd("SREM").arg(keys::lane_sales(lane)).arg(voucher.0).ignore();
        Ok(asked.exec_async(&mut self.redis.shared()).await?)
    }
}

pub(super) fn read<T: redis::FromRedisValue>(value: redis::Value) -> Result<T, GateError> {
    let value = value.extract_error()?;
    redis::from_redis_value(value).map_err(|e| GateError::BadReply(e.to_string()))
}

/// As [`read`]; none when the key is of another type than was asked for.
pub(super) fn typed<T: redis::FromRedisValue>(value: redis::Value) -> Result<Option<T>, GateError> {
    match value {
        redis::Value::ServerError(error) if error.code() == "WRONGTYPE" => Ok(None),
        redis::Value::ServerError(error) => Err(redis::RedisError::from(error).into()),
        value => read(value).map(Some),
    }
}

pub(super) fn read_sale(hash: &HashMap<String, String>, run_id: Option<&str>) -> Option<SaleHash> {
    let number = |name: &str| hash.get(name)?.parse::<i64>().ok();
    Some(SaleHash {
        open: hash.get("state")? == "open",
        paused: hash.get("paused")? != "0",
        epoch: number("epoch")?,
        claim: number("claim")?,
        run_id_fits: Some(hash.get("run_id")?.as_str()) == run_id || crate::fault::mutant("no-run-id"),
        total: number("total")?,
        begin: Millis(number("begin")?),
        end: Millis(number("end")?),
    })
}

pub(super) fn read_refused(hash: &HashMap<String, String>) -> Vec<(String, i64)> {
    let mut refused: Vec<_> =
        hash.iter().filter_map(|(name, n)| Some((name.strip_prefix("refused:")?.to_owned(), n.parse().ok()?))).collect();
    refused.sort();
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_misfit_is_named_as_the_script_names_it() {
        let sale = SaleHash {
            open: true,
            paused: true,
            epoch: 2,
            claim: 2,
            run_id_fits: true,
            total: 10,
            begin: Millis(0),
            end: Millis(1),
        };
        let fit = GateSnapshot { sale: Some(sale), stock: Some(7), holders: 3, refused: vec![], stream_there: true };
        assert_eq!(fit.misfit(2), None);
        assert_eq!(fit.misfit(3), Some("epoch"));
        assert_eq!(GateSnapshot { sale: None, ..fit.clone() }.misfit(2), Some("sale"));
        assert_eq!(GateSnapshot { sale: Some(SaleHash { run_id_fits: false, ..sale }), ..fit.clone() }.misfit(2), Some("run_id"));
        assert_eq!(GateSnapshot { stock: None, ..fit.clone() }.misfit(2), Some("stock"));
        assert_eq!(GateSnapshot { stream_there: false, ..fit.clone() }.misfit(2), Some("stream"));
        assert_eq!(GateSnapshot { holders: 4, ..fit.clone() }.misfit(2), Some("sum"));
        assert_eq!(GateSnapshot { sale: Some(SaleHash { open: false, ..sale }), ..fit }.misfit(2), Some("closed"));
    }
}
