//! When a row of the outbox is tried again: later with every attempt, never for good, never in step with its neighbours.

use std::time::Duration;

/// The wait before attempt `attempts + 1`: between half and the whole of `first · 2^attempts`, at most `most`.
#[must_use]
pub(super) fn wait_before(attempts: i64, first: Duration, most: Duration) -> Duration {
    let doublings = u32::try_from(attempts.clamp(0, 16)).unwrap_or(16);
    let whole = first.saturating_mul(1 << doublings).min(most);
    let ms = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX).max(2);
    Duration::from_millis(rand::random_range(ms / 2..=ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_a_bound() {
        let (first, most) = (Duration::from_millis(500), Duration::from_secs(30));
        for (attempts, whole) in [(0, 500), (1, 1000), (5, 16_000), (6, 30_000), (60, 30_000), (i64::MAX, 30_000)] {
            let wait = u64::try_from(wait_before(attempts, first, most).as_millis()).unwrap();
            assert!((whole / 2..=whole).contains(&wait), "{wait} of {whole}");
        }
    }
}
