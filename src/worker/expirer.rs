//! Closes orders that were not paid in time: sleeps until the next deadline, then closes what is due, batch by batch.
//!
//! The deadlines are in SQL, so nothing is lost with Redis or with a process; any number of processes may run this.

use std::time::Duration;

use crate::clock::Clock;
use crate::service::cancel::Cancels;
use crate::shutdown::Shutdown;
use crate::worker::backoff::Backoff;
use crate::worker::crew::Crew;

/// Orders of one transaction: its sale's row is held for its last statement only, and buying goes on between two of them.
const BATCH: i64 = 200;

/// The longest sleep of all workers together: an order that came since the last look and is due before the next one is closed
/// about this late. A look is one step in a partial index.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long orders that another worker is closing are left alone.
const IN_OTHER_HANDS: Duration = Duration::from_millis(20);

/// The loop.
pub async fn run(cancels: Cancels, clock: Clock, crew: Crew, shutdown: Shutdown) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    while !shutdown.has_begun() {
        let found = match cancels.close_due(BATCH).await {
            Ok(0) => cancels.next_deadline().await,
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        match found {
            Ok(deadline) => {
                backoff.reset();
                let latest = clock.now() + crew.pause(LOOK_EVERY);
                // What is overdue and yet was not found is in another worker's hands: it must not be asked for without a pause.
                let soonest = clock.now() + IN_OTHER_HANDS;
                tokio::select! {
                    () = clock.sleep_until(deadline.map_or(latest, |at| at.clamp(soonest, latest.max(soonest)))) => {}
                    () = shutdown.begun() => return,
                }
            }
            Err(error) => {
                if !backoff.is_failing() {
                    tracing::warn!(%error, "overdue orders wait");
                }
                if !shutdown.sleep(backoff.next_wait()).await {
                    return;
                }
            }
        }
    }
}
