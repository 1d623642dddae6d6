//! Refusals, counted in memory and written to Redis once a second: how often by code, and who was turned away.
//!
//! Not in the admission script: with a log that is synced before every answer, each batch of "sold out" would wait for
//! the disk, and everybody else on the server with it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Gate, GateError};
use crate::domain::admission::{Admission, Refusal};
use crate::domain::ids::{OrderId, UserId, VoucherId};
use crate::keys;
use crate::redis::scripts::{COUNT, TURNED_AWAY};

/// People who fit in one call.
const PEOPLE: usize = 1000;
/// Two people share a bit in a shop with more than 134 million of them.
pub(super) const BITS: i64 = 1 << 27;
/// How long the bits outlive their sale: as long as its other keys, and a day.
const KEEP: Duration = Duration::from_hours(8 * 24);

/// What was refused of one sale.
#[derive(Default)]
struct Counts {
    codes: BTreeMap<&'static str, i64>,
    away: HashSet<UserId>,
}

impl Counts {
    fn add(&mut self, other: Self) {
        for (code, n) in other.codes {
            *self.codes.entry(code).or_default() += n;
        }
        self.away.extend(other.away);
    }
}

/// What was refused and not written yet, by voucher.
#[derive(Default)]
pub(super) struct Tally(Mutex<HashMap<VoucherId, Counts>>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, HashMap<VoucherId, Counts>> {
        // Nothing that holds the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the refusals among a batch's verdicts.
    pub(super) fn add(&self, voucher: VoucherId, buyers: &[(UserId, OrderId)], verdicts: &[Admission]) {
        let mut refused = verdicts.iter().zip(buyers).filter_map(|(verdict, (user, _))| Some((code(verdict)?, user))).peekable();
        if refused.peek().is_some() {
            let mut tally = self.lock();
            let counts = tally.entry(voucher).or_default();
            for (code, user) in refused {
                *counts.codes.entry(code).or_default() += 1;
                if turns_away(code) {
                    counts.away.insert(*user);
                }
            }
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

/// Whether somebody who heard this came for nothing: not who was early, has a unit, or is asked to click again.
fn turns_away(code: &str) -> bool {
    !matches!(code, "DUPLICATE" | "NOT_BEGUN" | "BUSY")
}

impl Gate {
    /// Writes down what was refused since the last call. A crash loses what was not written; so does an unknown answer,
    /// for the counters may be short but never too high.
    pub async fn write_refusals(&self) -> Result<(), GateError> {
        let mut taken = std::mem::take(&mut *self.tally.lock());
        while let Some(voucher) = taken.keys().next().copied() {
            let Some(mut counts) = taken.remove(&voucher) else { continue };
            if let Err(error) = self.write_one(voucher, &mut counts).await {
                taken.insert(voucher, counts);
                let mut tally = self.tally.lock();
                for (voucher, counts) in taken {
                    tally.entry(voucher).or_default().add(counts);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes the counts of one sale; what may be written again stays in `counts` when it fails.
    async fn write_one(&self, voucher: VoucherId, counts: &mut Counts) -> Result<(), GateError> {
        let lane = self.lane(voucher);
        let keys = [keys::sale(lane, voucher), keys::turned_away(lane, voucher)];
        let people: Vec<UserId> = counts.away.iter().copied().collect();
        for some in people.chunks(PEOPLE) {
            // Bits may be set twice: what is not known to be written is written again.
            let answer: redis::RedisResult<String> = TURNED_AWAY
                .call(&mut self.redis.shared(), &keys, |call| {
                    call.arg(u64::try_from(KEEP.as_millis()).unwrap_or(u64::MAX));
                    for user in some {
                        call.arg(user.0.rem_euclid(BITS));
                    }
                })
                .await;
            answer?;
            for user in some {
                counts.away.remove(user);
            }
        }
        if counts.codes.is_empty() {
            return Ok(());
        }
        let answer: redis::RedisResult<String> = COUNT
            .call(&mut self.redis.shared(), &keys[..1], |call| {
                for (code, n) in &counts.codes {
                    call.arg(*code).arg(*n);
                }
            })
            .await;
        let error = answer.map(drop).map_err(GateError::from);
        if !matches!(error, Err(GateError::Unavailable(_))) {
            counts.codes.clear();
        }
        error
    }
}
