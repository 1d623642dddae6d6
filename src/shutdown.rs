//! How the process ends: one token that says "stop" and one tracker that says "all gone".
//!
//! Every long task is spawned through here, so that nothing is forgotten at the end.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Handed to every task; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// Tells every task to finish what it holds and return.
    pub fn begin(&self) {
        self.token.cancel();
        self.tasks.close();
    }

    /// Whether the end has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns once the end has begun.
    pub async fn begun(&self) {
        self.token.cancelled().await;
    }

    /// Runs `task` until it returns by itself; the end of the process waits for it.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts tasks")]
    pub fn spawn<F>(&self, task: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tasks.track_future(task))
    }

    /// Waits until every task has returned, for `limit` at most; false when some had not.
    pub async fn finished(&self, limit: Duration) -> bool {
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Sleeps for `time`, or returns at once when the end begins; false in that case.
    pub async fn sleep(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.begun() => false,
        }
    }
}
