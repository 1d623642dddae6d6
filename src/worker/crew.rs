//! How many worker processes share the work, so that ten of them do not look ten times as often as one.
//!
//! A look that finds nothing costs the stores the same as one that finds something. What a process does itself wakes its own
//! loops at once; looking is for what others left behind, and any of them may find that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::fault::mutant;
use crate::queue::{Queue, process_name};
use crate::shutdown::Shutdown;
use crate::worker::backoff::jittered;

/// Between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Whoever was not heard of for this long is gone.
const GONE_AFTER: Duration = Duration::from_secs(16);
/// More than these do not stretch the pauses any further: the longest is what a thing that was left behind may wait.
const MOST: u32 = 10;

/// The worker processes of this shop, as far as this one knows; cheap to clone.
#[derive(Debug, Clone)]
pub struct Crew(Arc<AtomicU32>);

impl Crew {
    /// Nobody else is known.
    #[must_use]
    pub fn alone() -> Self {
        Self(Arc::new(AtomicU32::new(1)))
    }

    /// How many there are, from 1 to 10.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// What was counted.
    pub fn counted(&self, workers: usize) {
        self.0.store(u32::try_from(workers).unwrap_or(MOST).clamp(1, MOST), Ordering::Relaxed);
    }

    /// The pause until this process looks again, when all together are to look about once in `every`: that times their
    /// number, with jitter.
    #[must_use]
    pub fn pause(&self, every: Duration) -> Duration {
        jittered(every * self.size())
    }
}

/// Reports this process and counts, again and again. While nobody can be asked the last count stands.
pub async fn keep_count(crew: Crew, queue: Queue, shutdown: Shutdown) {
    let name = process_name();
    while !mutant("crew-of-one") {
        if let Ok(workers) = queue.muster(&name, GONE_AFTER).await {
            crew.counted(workers);
        }
        if !shutdown.sleep(jittered(REPORT_EVERY)).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_are_the_longer_each_waits_within_a_bound() {
        let crew = Crew::alone();
        for (counted, size) in [(0, 1), (1, 1), (4, 4), (10, 10), (5000, 10), (2, 2)] {
            crew.counted(counted);
            assert_eq!(crew.size(), size);
            let (pause, whole) = (crew.pause(Duration::from_secs(1)), Duration::from_secs(size.into()));
            assert!((whole / 2..=whole).contains(&pause), "{pause:?} for {counted}");
        }
    }
}
