//! A latency histogram in whole numbers: 64 steps for each doubling, so that a figure is right to 2 percent.
//!
//! Only counting lives here; what is measured and how it is printed is told elsewhere.

use std::time::Duration;

const STEP_BITS: u32 = 6;
const STEPS: u32 = 1 << STEP_BITS;
const BUCKETS: usize = ((32 - STEP_BITS + 1) * STEPS) as usize;

/// Counts lengths of time in microseconds, up to 71 minutes; longer ones count as that.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

/// Values below 64 stand alone; above, the six bits after the leading one choose the step.
fn bucket_of(micros: u32) -> usize {
    let shift = (micros | 1).ilog2().saturating_sub(STEP_BITS);
    (shift * STEPS + (micros >> shift)) as usize
}

/// The largest value that falls into a bucket.
fn top_of(bucket: usize) -> u32 {
    let bucket = u32::try_from(bucket).unwrap_or(u32::MAX);
    let shift = (bucket / STEPS).saturating_sub(1);
    let low = u64::from(bucket - shift * STEPS) << shift;
    u32::try_from(low + (1 << shift) - 1).unwrap_or(u32::MAX)
}

impl Histogram {
    /// Counts one length of time.
    pub fn record(&mut self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.counts[bucket_of(micros)] += 1;
        self.total += 1;
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The time that `per_mille` of 1000 stayed within, rounded up by 2 percent at most; none when nothing was counted.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<Duration> {
        let rank = (self.total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_micros(u64::from(top_of(bucket))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_values_and_is_at_most_two_percent_wide() {
        for value in (0..5000).chain([65_535, 65_536, 1_000_000, u32::MAX - 1, u32::MAX]) {
            let top = top_of(bucket_of(value));
            assert!(top >= value, "{value} in a bucket up to {top}");
            assert!(u64::from(top - value) * 50 <= u64::from(value), "{value} in a bucket up to {top}");
        }
        assert_eq!(bucket_of(u32::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_read_from_merged_counts() {
        let (mut all, mut other) = (Histogram::default(), Histogram::default());
        assert_eq!(all.quantile(500), None);
        (1..=500).for_each(|ms| all.record(Duration::from_millis(ms)));
        (501..=1000).for_each(|ms| other.record(Duration::from_millis(ms)));
        all.merge(&other);
        assert_eq!(all.count(), 1000);
        for (per_mille, ms) in [(500, 500), (990, 990), (1000, 1000)] {
            let found = all.quantile(per_mille).unwrap();
            let exact = Duration::from_millis(ms);
            assert!(found >= exact && found <= exact * 51 / 50, "{per_mille}: {found:?}");
        }
    }
}
