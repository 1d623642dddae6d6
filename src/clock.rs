//! The clock: the only place that reads the time of day.
//!
//! Tests use the manual one: it stands on the real time plus an offset that they move, and every sleeper that waits for
//! an instant wakes when the offset jumps over it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::domain::time::Millis;

/// Reads the time; cheap to clone.
#[derive(Debug, Clone)]
pub struct Clock {
    /// Milliseconds added to the system's time; 0 for ever in production.
    offset: Arc<watch::Sender<i64>>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { offset: Arc::new(watch::Sender::new(0)) }
    }
}

impl Clock {
    /// The instant now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time of day")]
    pub fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(*self.offset.borrow()))
    }

    /// A clock that is wrong by this many milliseconds (tests only).
    #[must_use]
    pub fn wrong_by(ms: i64) -> Self {
        Self { offset: Arc::new(watch::Sender::new(ms)) }
    }

    /// Moves the clock forward (tests only; production never calls it) and wakes who waits for an instant.
    pub fn advance(&self, by: Duration) {
        self.offset.send_modify(|ms| *ms += i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
    }

    /// Returns once `now() >= at`, also when the clock was moved there. Looks at the time again at least every minute, so
    /// that a suspended machine or a corrected clock delays nobody by more.
    pub async fn sleep_until(&self, at: Millis) {
        let mut moved = self.offset.subscribe();
        loop {
            moved.borrow_and_update();
            let left = self.now().until(at);
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(Duration::from_mins(1))) => {}
                _ = moved.changed() => {}
            }
        }
    }
}
