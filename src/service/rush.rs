//! Whether people are buying just now: a count of clicks. Who has time to spare looks at it and gives way; nothing waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The clicks of this process since it began; cheap to clone, all clones count together.
#[derive(Debug, Clone, Default)]
pub struct Rush(Arc<AtomicU64>);

impl Rush {
    /// Counts a click on "buy".
    pub fn click(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were: another number than a moment ago means that people are buying.
    #[must_use]
    pub fn clicks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
