//! The reconciler: looks at every gate once a second, whichever of the workers, and at once when a buyer found one not ready.

use std::time::Duration;

use crate::fault::panic_point;
use crate::service::reconcile::{Nudge, Reconciler};
use crate::shutdown::Shutdown;
use crate::worker::backoff::Backoff;
use crate::worker::crew::Crew;

/// Between two looks of all workers together when nobody calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two looks however often somebody calls: a gate in a rebuild is not ready to every buyer.
const LOOK_AT_MOST_EVERY: Duration = Duration::from_millis(200);

/// The loop.
pub async fn run(reconciler: Reconciler, nudge: Nudge, crew: Crew, shutdown: Shutdown) {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(2));
    while !shutdown.has_begun() {
        panic_point("reconciler-panics");
        let wait = match reconciler.round().await {
            Ok(_) => {
                if backoff.is_failing() {
                    tracing::info!("the gates can be looked at again");
                }
                backoff.reset();
                crew.pause(LOOK_EVERY)
            }
            Err(error) => {
                if !backoff.is_failing() {
                    tracing::warn!(%error, "the gates cannot be looked at");
                }
                backoff.next_wait()
            }
        };
        if !shutdown.sleep(LOOK_AT_MOST_EVERY).await {
            return;
        }
        tokio::select! {
            () = nudge.asked() => {}
            () = tokio::time::sleep(wait) => {}
            () = shutdown.begun() => return,
        }
    }
}
