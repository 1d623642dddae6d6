//! How far a lane's queue is worked off and how fast: measured a few times a second at most, for everybody who asks.
//!
//! One figure of the stream answers "how many before me" for every buyer; nothing is ever counted by scanning.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::domain::ids::Lane;
use crate::queue::Queue;

/// How long one measurement, or one failure, serves everybody.
const FRESH: Duration = Duration::from_millis(200);
/// What the rate looks back over.
const WINDOW: Duration = Duration::from_secs(10);
/// A shorter look back says nothing about a rate.
const LEAST: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct Seen {
    asked_at: Option<Instant>,
    gone: Option<i64>,
    /// Since the queue was empty last, oldest first: an idle minute says nothing about the speed of work.
    samples: VecDeque<(Instant, i64)>,
}

impl Seen {
    fn note(&mut self, now: Instant, gone: i64, len: i64) {
        // Fewer than before: a new stream.
        if len == 0 || self.gone.is_some_and(|before| gone < before) {
            self.samples.clear();
        }
        while self.samples.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, gone));
        self.gone = Some(gone);
    }

    fn seconds_for(&self, entries: i64) -> Option<u64> {
        let ((from, first), (to, last)) = (self.samples.front()?, self.samples.back()?);
        let (time, done) = (to.duration_since(*from), last - first);
        if time < LEAST || done <= 0 {
            return None;
        }
        let ms = i64::try_from(time.as_millis()).ok()?.saturating_mul(entries.max(0)) / done;
        Some(u64::try_from(ms).ok()?.div_ceil(1000).max(1))
    }
}

/// The queues of all lanes, as this process measures them.
pub struct Drain {
    queue: Queue,
    lanes: Mutex<HashMap<Lane, Seen>>,
}

impl Drain {
    /// Measures `queue` when somebody asks.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        Self { queue, lanes: Mutex::default() }
    }

    /// How many entries of the lane are settled for good; none when the stream cannot be asked. Never falls while the
    /// stream lives, so `position - 1 - gone` never grows.
    pub async fn gone(&self, lane: Lane) -> Option<i64> {
        let mut lanes = self.lanes.lock().await;
        let seen = lanes.entry(lane).or_default();
        if seen.asked_at.is_some_and(|at| at.elapsed() < FRESH) {
            return seen.gone;
        }
        let answer = self.queue.depth(lane).await;
        // After the wait, and after a failure too: a crowd must not wait for one silence after the other.
        let now = Instant::now();
        seen.asked_at = Some(now);
        match answer {
            Ok(depth) => seen.note(now, depth.entries_added - depth.len, depth.len),
            Err(error) => {
                tracing::debug!(%error, "the queue could not be measured");
                seen.gone = None;
                seen.samples.clear();
            }
        }
        seen.gone
    }

    /// About how many seconds the lane needs for `entries`, as it was worked off lately; none when nothing was.
    pub async fn seconds_for(&self, lane: Lane, entries: i64) -> Option<u64> {
        self.gone(lane).await?;
        self.lanes.lock().await.get(&lane)?.seconds_for(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_work_and_not_of_the_idle_time_before_it() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut seen = Seen::default();
        for second in 0..9 {
            seen.note(at(second * 1000), 50, 0);
        }
        assert_eq!(seen.seconds_for(100), None, "nothing was worked off");
        seen.note(at(9000), 150, 900);
        assert_eq!(seen.seconds_for(1000), Some(10));
        seen.note(at(10_000), 350, 700);
        assert_eq!(seen.seconds_for(700), Some(5));
        assert_eq!(seen.seconds_for(0), Some(1));
        seen.note(at(11_000), 3, 1);
        assert_eq!(seen.seconds_for(10), None, "a new stream begins anew");
    }
}
