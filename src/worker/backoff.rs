//! How long to wait after trouble: doubled with each failure, with jitter, so that many processes do not return as one.

use std::time::Duration;

/// Grows from `first` to `most`; a success puts it back.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts at `first`, never above `most`.
    #[must_use]
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, failures: 0 }
    }

    /// The next wait: between half and the whole of `first · 2^failures`, at most `most`.
    pub fn next_wait(&mut self) -> Duration {
        let whole = self.first.saturating_mul(1 << self.failures.min(16)).min(self.most);
        self.failures += 1;
        jittered(whole)
    }

    /// Whether the last attempt failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// All is well again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Between half and the whole of `whole`.
#[must_use]
pub fn jittered(whole: Duration) -> Duration {
    let ms = u64::try_from(whole.as_millis()).unwrap_or(u64::MAX).max(2);
    Duration::from_millis(rand::random_range(ms / 2..=ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_fall_back_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        for expected in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = backoff.next_wait();
            assert!((expected / 2..=expected).contains(&u64::try_from(wait.as_millis()).unwrap()), "{wait:?} for {expected}");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(100));
    }
}
