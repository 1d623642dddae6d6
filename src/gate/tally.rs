//! Refusals, counted in memory and written to the sale hash once a second.
//!
//! Not in the admission script: with a log that is synced before every answer, each batch of "sold out" would wait for
//! the disk, and everybody else on the server with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Gate, GateError};
use crate::domain::admission::{Admission, Refusal};
use crate::domain::ids::VoucherId;
use crate::keys;
use crate::redis::scripts::COUNT;

type Counts = BTreeMap<&'static str, i64>;

/// What was refused and not written yet, by voucher and code.
#[derive(Default)]
pub(super) struct Tally(Mutex<HashMap<VoucherId, Counts>>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, HashMap<VoucherId, Counts>> {
        // Nothing that holds the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the refusals among a batch's verdicts.
    pub(super) fn add(&self, voucher: VoucherId, verdicts: &[Admission]) {
        let mut codes = verdicts.iter().filter_map(code).peekable();
        if codes.peek().is_some() {
            let mut tally = self.lock();
            let counts = tally.entry(voucher).or_default();
            codes.for_each(|code| *counts.entry(code).or_default() += 1);
        }
    }
}

fn code(verdict: &Admission) -> Option<&'static str> {
    Some(match verdict {
        Admission::Duplicate(_) => "DUPLICATE",
        Admission::Paused => Refusal::Paused.code(),
        Admission::NotBegun => Refusal::NotBegun.code(),
        Admission::Ended => Refusal::Ended.code(),
        Admission::SoldOut => Refusal::SoldOut.code(),
        Admission::BacklogFull => "BUSY",
        Admission::Admitted { .. } | Admission::NotReady(_) => return None,
    })
}

impl Gate {
    /// Writes down what was refused since the last call. A crash loses what was not written; so does an unknown answer,
    /// for the counters may be short but never too high.
    pub async fn write_refusals(&self) -> Result<(), GateError> {
        let mut taken = std::mem::take(&mut *self.tally.lock());
        while let Some(voucher) = taken.keys().next().copied() {
            let Some(counts) = taken.remove(&voucher) else { continue };
            let keys = [keys::sale(self.lane(voucher), voucher)];
            let answer: redis::RedisResult<String> = COUNT
                .call(&mut self.redis.shared(), &keys, |call| {
                    for (code, n) in &counts {
                        call.arg(*code).arg(*n);
                    }
                })
                .await;
            if let Err(error) = answer.map_err(GateError::from) {
                if matches!(error, GateError::Unavailable(_)) {
                    taken.insert(voucher, counts);
                }
                let mut tally = self.tally.lock();
                for (voucher, counts) in taken {
                    let there = tally.entry(voucher).or_default();
                    for (code, n) in counts {
                        *there.entry(code).or_default() += n;
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }
}
