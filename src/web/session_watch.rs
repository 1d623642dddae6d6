//! Ends the sockets of sessions that are over: one look a second for all of them, instead of one by each socket.
//!
//! A logout is told by the bus at once; this is for what nobody tells (a session that expires) and for what the bus lost.

use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::web::state::AppState;

const EVERY: Duration = Duration::from_secs(1);
/// Sessions in one round trip.
const CHUNK: usize = 500;
/// A session is looked at this often even when nothing is said about it; spread, so that a thousand sockets that came
/// together are not looked at together for ever.
const AT_LEAST_EVERY_MS: std::ops::Range<u64> = 20_000..40_000;

/// Runs until the end of the process.
pub async fn run(state: AppState) {
    let shutdown = state.shutdown.clone();
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.begun() => return,
            _ = ticks.tick() => {}
        }
        let now = state.clock.now();
        for chunk in state.hub.sessions_to_look_at(now).chunks(CHUNK) {
            let last = match state.sessions.last_instants(chunk).await {
                Ok(last) => last,
                Err(error) => {
                    // Nobody is thrown out because Redis is away.
                    tracing::debug!(%error, "sessions of open sockets could not be looked at");
                    break;
                }
            };
            for (session, last) in chunk.iter().zip(last) {
                match last {
                    None => state.hub.end_session(session),
                    Some(last) => {
                        let later = now + Duration::from_millis(rand::random_range(AT_LEAST_EVERY_MS));
                        state.hub.look_again(session, last.min(later));
                    }
                }
            }
        }
    }
}
