//! The last ten minutes of each sale, a sample a second, for the plot of the control room. In this process alone, bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::ids::VoucherId;
use crate::domain::time::Millis;
use crate::service::figures::{Figures, SaleFigures};
use crate::service::sales::Sales;
use crate::shutdown::Shutdown;

/// Between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// Samples kept: ten minutes.
const KEPT: usize = 600;
/// Sales sampled at once; those that end first go first.
const MOST_SALES: usize = 50;
/// Around its window a sale is sampled too: early clicks and the last of the queue are part of the picture.
const AROUND: Duration = Duration::from_mins(2);
/// What the drain rate looks back over.
const RATE_OVER: Duration = Duration::from_secs(10);

/// One sale at one instant. All are running totals, but for `left` and `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Millis,
    /// Admitted since the sale was made.
    pub admitted: i64,
    /// Saved as rows since then.
    pub saved: i64,
    /// Paid or refunded since then.
    pub paid: i64,
    /// Refused since then, for whatever reason.
    pub refused: i64,
    /// Units left at the gate.
    pub left: i64,
    /// Entries of its lane that wait to be saved.
    pub waiting: i64,
}

impl From<&SaleFigures> for Sample {
    fn from(f: &SaleFigures) -> Self {
        Self {
            at: f.as_of,
            admitted: f.admitted(),
            saved: f.books.rows,
            paid: f.books.paid + f.books.refunding + f.books.refunded,
            refused: f.refusals(),
            left: f.terms().map_or(f.books.left, |terms| terms.r),
            waiting: f.waiting.unwrap_or(0),
        }
    }
}

/// The samples of all sales that are on.
#[derive(Debug, Default)]
pub struct Rings(Mutex<HashMap<VoucherId, VecDeque<Sample>>>);

impl Rings {
    fn lock(&self) -> MutexGuard<'_, HashMap<VoucherId, VecDeque<Sample>>> {
        // Nothing that holds the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The samples of a sale, oldest first; empty when this process has none.
    #[must_use]
    pub fn of(&self, voucher: VoucherId) -> Vec<Sample> {
        self.lock().get(&voucher).map(|ring| ring.iter().copied().collect()).unwrap_or_default()
    }

    /// The sales that are sampled here.
    #[must_use]
    pub fn sampled(&self) -> Vec<VoucherId> {
        self.lock().keys().copied().collect()
    }

    /// Orders of a sale saved in each second, lately, rounded; none before there are two samples.
    #[must_use]
    pub fn saved_per_second(&self, voucher: VoucherId) -> Option<i64> {
        let rings = self.lock();
        let ring = rings.get(&voucher)?;
        let last = ring.back()?;
        let first = ring.iter().find(|sample| sample.at >= last.at - RATE_OVER)?;
        let ms = last.at.0 - first.at.0;
        (ms > 0).then(|| ((last.saved - first.saved).max(0) * 1000 + ms / 2) / ms)
    }

    fn note(&self, voucher: VoucherId, sample: Sample) {
        let mut rings = self.lock();
        let ring = rings.entry(voucher).or_default();
        if ring.back().is_some_and(|last| last.at >= sample.at) {
            return;
        }
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(sample);
    }

    /// Samples the sales that are on, until the end of the process.
    pub async fn fill(self: Arc<Self>, sales: Arc<Sales>, figures: Arc<Figures>, shutdown: Shutdown) {
        while shutdown.sleep(EVERY).await {
            let now = sales.clock.now();
            let mut on: Vec<_> = sales.index.sales().into_iter().map(|(_, sale)| sale).collect();
            on.retain(|sale| sale.begin - AROUND <= now && now <= sale.end + AROUND);
            on.sort_unstable_by_key(|sale| (sale.end, sale.voucher));
            on.truncate(MOST_SALES);
            for sale in &on {
                match figures.within(sale.voucher, EVERY / 2).await {
                    Ok(Some(figures)) => self.note(sale.voucher, Sample::from(&*figures)),
                    Ok(None) => {}
                    Err(error) => tracing::debug!(voucher.id = %sale.voucher, %error, "no sample of a sale"),
                }
            }
            self.lock().retain(|voucher, _| on.iter().any(|sale| sale.voucher == *voucher));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_keeps_ten_minutes_and_knows_its_speed() {
        let rings = Rings::default();
        let sample =
            |s: i64| Sample { at: Millis(s * 1000), admitted: 0, saved: s * 30, paid: 0, refused: 0, left: 0, waiting: 0 };
        rings.note(VoucherId(1), sample(0));
        assert_eq!(rings.saved_per_second(VoucherId(1)), None);
        for s in 0..700 {
            rings.note(VoucherId(1), sample(s));
        }
        let kept = rings.of(VoucherId(1));
        assert_eq!((kept.len(), kept[0].at, rings.saved_per_second(VoucherId(1))), (KEPT, Millis(100_000), Some(30)));
        assert!(rings.of(VoucherId(2)).is_empty());
    }
}
