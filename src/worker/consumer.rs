//! The consumer of one lane: reads admitted entries, has them saved, acknowledges after the commit, then tells.
//!
//! The order is the promise: commit, acknowledge, push. Whoever hears "order created" can read the order, and its entry is
//! gone from the stream.

use std::time::Duration;

use tokio::time::Instant;

use crate::fault::{fail_point, slow_point};
use crate::push::bus::Bus;
use crate::queue::{Delivery, Queue, QueueError, Reader};
use crate::service::change::Wakes;
use crate::service::place_orders::{PlaceError, PlaceOrders, Placed};
use crate::shutdown::Shutdown;
use crate::telemetry::meters;
use crate::worker::backoff::{Backoff, jittered};
use crate::worker::pace::Pace;

/// Entries of one batch.
const BATCH: usize = 1000;
/// How long a read waits for the first entry.
const BLOCK: Duration = Duration::from_secs(2);
/// Between two looks for entries whose consumer died.
const CLAIM_EVERY: Duration = Duration::from_secs(5);
/// An entry untouched for this long has lost its consumer: longer than the longest transaction.
const CLAIM_IDLE: Duration = Duration::from_secs(15);
/// The same right after a start: whoever was killed a moment ago is most likely our own former self. Claiming from a
/// consumer that lives after all costs double work, not a double effect.
const CLAIM_IDLE_AT_START: Duration = Duration::from_secs(1);

/// Between two looks for names that nobody uses any more: every start of a process makes one.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// A name unused for this long that holds no entry is dropped; one that holds an entry is never, or the entry would be lost.
const NAME_IDLE: Duration = Duration::from_mins(10);

/// Reads one lane until the process ends.
pub struct Consumer {
    /// Its connection and its name.
    pub reader: Reader,
    /// Where dead names are dropped.
    pub queue: Queue,
    /// Saves what was read.
    pub place: PlaceOrders,
    /// How fast it may save.
    pub pace: Pace,
    /// Tells the buyers.
    pub bus: Bus,
    /// Told what there is to do for the other loops.
    pub wakes: Wakes,
    /// The end.
    pub shutdown: Shutdown,
}

impl Consumer {
    /// The loop.
    pub async fn run(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let started = Instant::now();
        let mut claim_at = started;
        // After trouble: what this consumer was given and could not settle is still its own, on the server's list.
        let mut own = false;
        let mut sweep_at = started + jittered(SWEEP_EVERY);
        while !self.shutdown.has_begun() {
            if Instant::now() >= sweep_at {
                sweep_at = Instant::now() + jittered(SWEEP_EVERY);
                if let Err(error) = self.queue.drop_dead_consumers(self.reader.lane(), NAME_IDLE).await {
                    tracing::debug!(%error, "dead consumer names stay for now");
                }
            }
            let claims = Instant::now() >= claim_at;
            let idle = if started.elapsed() < CLAIM_IDLE { CLAIM_IDLE_AT_START } else { CLAIM_IDLE };
            let result = if own { self.take_up_own().await } else { self.step(claims.then_some(idle), BLOCK).await };
            own = result.is_err();
            match result {
                Ok(step) => {
                    if backoff.is_failing() {
                        tracing::info!("the consumer works again");
                        backoff.reset();
                    }
                    // A full hand of claimed entries means that there may be more.
                    if claims && step.claimed < self.pace.batch(BATCH) {
                        claim_at = Instant::now()
                            + jittered(if started.elapsed() < CLAIM_IDLE { Duration::from_secs(1) } else { CLAIM_EVERY });
                    }
                }
                Err(error) => {
                    if !backoff.is_failing() {
                        tracing::warn!(%error, "the consumer waits");
                    }
                    if !self.shutdown.sleep(backoff.next_wait()).await {
                        return;
                    }
                }
            }
        }
    }

    /// Finishes what this consumer was given before a connection broke.
    async fn take_up_own(&mut self) -> Result<Step, QueueError> {
        let mut step = Step::default();
        loop {
            if !self.pace.before_reading().await? {
                return Ok(step);
            }
            let batch = self.reader.own_pending(self.pace.batch(BATCH)).await?;
            if batch.is_empty() {
                return Ok(step);
            }
            self.finish(&batch, &mut step).await?;
            if self.shutdown.has_begun() {
                return Ok(step);
            }
        }
    }

    /// One round: entries of the dead when `claim_idle` is given, else new ones, waiting for them at most `block`.
    pub async fn step(&mut self, claim_idle: Option<Duration>, block: Duration) -> Result<Step, QueueError> {
        let mut step = Step::default();
        if !self.pace.before_reading().await? {
            return Ok(step);
        }
        if let Some(idle) = claim_idle {
            let claimed = self.reader.claim(idle, self.pace.batch(BATCH)).await?;
            step.claimed = claimed.len();
            self.finish(&claimed, &mut step).await?;
        }
        let shutdown = self.shutdown.clone();
        // Not cancelled at the end: an entry delivered to a call that was given up would wait for its claim.
        let fresh =
            self.reader.read_new(self.pace.batch(BATCH), if shutdown.has_begun() { Duration::ZERO } else { block }).await?;
        step.fresh = fresh.len();
        self.finish(&fresh, &mut step).await?;
        Ok(step)
    }

    /// Saves, acknowledges, tells; while the database is away it keeps the batch in hand, reads nothing new and tries
    /// again: deliveries must not count up because of an outage.
    async fn finish(&mut self, batch: &[Delivery], step: &mut Step) -> Result<(), QueueError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut rest = batch.to_vec();
        self.pace.before_saving(batch.len()).await;
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        meters().save_batch.record(batch.len() as f64);
        slow_point("after-read").await;
        if crate::fault::mutant("ack-before-commit") {
            let all: Vec<_> = rest.iter().map(|d| (d.stream_id, d.entry.as_ref().ok().map(|e| e.order))).collect();
            self.reader.settle(&all).await?;
        }
        loop {
            let mut placed = Placed::default();
            let result = self.place.place(self.reader.lane(), &rest, &mut placed).await;
            if !placed.settled.is_empty() {
                self.reader.settle(&placed.settled).await?;
                fail_point("after-ack");
                let done: std::collections::HashSet<_> = placed.settled.iter().map(|(id, _)| *id).collect();
                rest.retain(|d| !done.contains(&d.stream_id));
            }
            step.created += placed.created;
            step.failed += placed.failed;
            step.buried += placed.buried;
            meters().orders_saved.increment(placed.created as u64);
            meters().buried.increment(placed.buried as u64);
            self.bus.publish(&placed.events);
            if placed.releases {
                self.wakes.releases.notify_one();
            }
            if placed.created + placed.failed > 0 {
                self.wakes.early.notify_one();
            }
            if placed.money {
                self.wakes.paid();
                self.wakes.refunds.notify_one();
            }
            match result {
                Ok(()) => {
                    // What is left are second copies of an id that is settled: they go the same way.
                    let copies: Vec<_> = rest.iter().map(|d| (d.stream_id, d.entry.as_ref().ok().map(|e| e.order))).collect();
                    if !copies.is_empty() {
                        self.reader.settle(&copies).await?;
                    }
                    return Ok(());
                }
                Err(PlaceError::Later(error)) => {
                    if !backoff.is_failing() {
                        tracing::warn!(%error, waiting = rest.len(), "orders wait for the database");
                    }
                    if !self.shutdown.sleep(backoff.next_wait()).await {
                        return Ok(()); // unacknowledged: the next consumer claims them
                    }
                }
            }
        }
    }
}

/// What one round did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Entries taken over.
    pub claimed: usize,
    /// New entries.
    pub fresh: usize,
    /// Orders saved.
    pub created: usize,
    /// FAILED rows written.
    pub failed: usize,
    /// Entries put aside.
    pub buried: usize,
}
