//! The releaser: applies release rows to the gate, at once when one was written, else once a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::service::release::Releases;
use crate::shutdown::Shutdown;
use crate::worker::backoff::Backoff;
use crate::worker::crew::Crew;

/// Between two looks of all workers together when nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The loop.
pub async fn run(releases: Releases, wake: Arc<Notify>, crew: Crew, shutdown: Shutdown) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    while !shutdown.has_begun() {
        let wait = match releases.apply_due().await {
            Ok(round) => {
                backoff.reset();
                if round.done > 0 { Duration::ZERO } else { crew.pause(LOOK_EVERY) }
            }
            Err(error) => {
                if !backoff.is_failing() {
                    tracing::warn!(%error, "releases wait");
                }
                backoff.next_wait()
            }
        };
        tokio::select! {
            () = wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
            () = shutdown.begun() => return,
        }
    }
}
