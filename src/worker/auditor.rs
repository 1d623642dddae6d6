//! The auditor: looks for drift in every sale about once in three quarters of a minute, whichever of the workers has the turn.

use std::time::Duration;

use crate::service::ServiceError;
use crate::service::drift::Drift;
use crate::service::sale_index::CLOSED_WITHIN;
use crate::shutdown::Shutdown;
use crate::worker::backoff::{Backoff, jittered};

/// A lane is audited once in this time, by whoever asks first. With the wait below and the second look it stays under the
/// minute within which drift is to be found.
const TURN: Duration = Duration::from_secs(42);
/// Between two questions whose turn it is, at most.
const ASK_EVERY: Duration = Duration::from_secs(12);

/// The loop.
pub async fn run(drift: Drift, shutdown: Shutdown) {
    let mut backoff = Backoff::new(Duration::from_secs(1), ASK_EVERY);
    let mut wait = jittered(ASK_EVERY);
    while shutdown.sleep(wait).await {
        wait = match round(&drift).await {
            Ok(()) => {
                backoff.reset();
                jittered(ASK_EVERY)
            }
            Err(error) => {
                tracing::debug!(%error, "the sales cannot be audited now");
                backoff.next_wait()
            }
        };
    }
}

async fn round(drift: &Drift) -> Result<(), ServiceError> {
    let mine = drift.take_turns(TURN).await?;
    if mine.is_empty() {
        return Ok(());
    }
    let round = drift.round(&mine, CLOSED_WITHIN).await?;
    metrics::counter!("seckill_audits_total").increment(round.looked as u64);
    if round.suspected > 0 {
        tracing::info!(?round, "the sales were audited");
    }
    Ok(())
}
