//! How the process ends: one token that says "stop" and one tracker that says "all gone".
//!
//! Every long task is spawned through here, so that nothing is forgotten at the end.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Handed to every task; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    failed: CancellationToken,
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

    /// As [`spawn`](Self::spawn), for a loop that the shop cannot do without: when it panics, the process has to end.
    ///
    /// Not started again here: nobody knows what it left half done in the parts that it shares with others. A new process
    /// begins with what the stores say, and whoever runs this one starts it.
    pub fn spawn_loop<F>(&self, what: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let failed = self.failed.clone();
        self.spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() && !failed.is_cancelled() {
                failed.cancel();
                tracing::error!(what, "a background loop panicked; the process ends, so that it can be started anew");
            }
        });
    }

    /// Whether a loop that the shop cannot do without has panicked.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_cancelled()
    }

    /// Returns once such a loop has panicked.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
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
