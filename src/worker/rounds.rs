//! Runs a service's round again and again: at once while there is work or when somebody calls, else at its own pace, and
//! slower after trouble. Each kind of outbox row has a loop of its own, so that none waits for another's trouble.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::service::ServiceError;
use crate::shutdown::Shutdown;
use crate::worker::backoff::Backoff;
use crate::worker::crew::Crew;

/// Between two looks of all workers together when nobody calls: another process may have left something to do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a round may go on after the end has begun. What it leaves is in the outbox, and everything in a round may be
/// done again.
const GRACE: Duration = Duration::from_secs(2);

/// Returns a while after the end has begun.
async fn patience(shutdown: &Shutdown) {
    shutdown.begun().await;
    tokio::time::sleep(GRACE).await;
}

/// The loop. `round` answers how many things it did; 0: it may rest.
pub async fn run<R, F>(what: &'static str, wake: Arc<Notify>, crew: Crew, shutdown: Shutdown, round: R)
where
    R: Fn() -> F + Send,
    F: Future<Output = Result<usize, ServiceError>> + Send,
{
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
    while !shutdown.has_begun() {
        let result = tokio::select! {
            result = round() => result,
            () = patience(&shutdown) => return,
        };
        let wait = match result {
            Ok(done) => {
                if backoff.is_failing() {
                    tracing::info!(what, "goes on");
                }
                backoff.reset();
                if done > 0 { Duration::ZERO } else { crew.pause(LOOK_EVERY) }
            }
            Err(error) => {
                if !backoff.is_failing() {
                    tracing::warn!(what, %error, "waits");
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
