//! Makes few calls of many purchases: what arrives while a call is in flight forms the next batch.
//!
//! A purchase that finds its voucher idle is sent at once. One call at a time for each voucher: with two, single
//! purchases would keep overtaking the batch, and batches would stay small.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Gate, GateError, IdSource, MAX_BATCH};
use crate::domain::admission::Admission;
use crate::domain::ids::{Epoch, UserId, VoucherId};
use crate::shutdown::Shutdown;
use crate::telemetry::{Outcome, meters};

/// Purchases that may wait for their batch, for each voucher.
const QUEUE_ROOM: usize = 8192;
/// How long a purchase waits for its answer: a buyer hears something within a second.
const PATIENCE: Duration = Duration::from_millis(900);

/// Why a purchase got no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// It was never sent, or the gate refused to look at it: nothing was taken.
    #[error("the gate cannot be asked")]
    Unavailable,
    /// It was sent and no answer came: it may have been admitted.
    #[error("the gate gave no answer")]
    Uncertain,
    /// No order id is at hand: nothing was taken.
    #[error("no order id is at hand")]
    NoIds,
}

type Answer = Result<Admission, AdmitError>;

struct Waiter {
    ticket: u64,
    user: UserId,
    epoch: Epoch,
    answer: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiter>,
    next_ticket: u64,
    /// A task is sending this voucher's batches.
    running: bool,
    /// The last batch got no verdict: the next failure is no news, and a stampede must not become a log flood.
    in_trouble: bool,
}

/// The purchases of one voucher.
#[derive(Default)]
struct Lane(Mutex<Queue>);

impl Lane {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that holds the lock can leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch: all of one epoch, without those who gave up. None: idle now, and the caller's task must end.
    fn next_batch(&self) -> Option<Vec<Waiter>> {
        let mut queue = self.queue();
        let mut batch: Vec<Waiter> = Vec::new();
        while batch.len() < MAX_BATCH
            && let Some(next) = queue.waiting.front()
            && batch.first().is_none_or(|first| first.epoch == next.epoch)
        {
            batch.extend(queue.waiting.pop_front().filter(|waiter| !waiter.answer.is_closed()));
        }
        queue.running = !batch.is_empty();
        queue.running.then_some(batch)
    }

    /// Takes a waiter out again; false: it was sent by now.
    fn withdraw(&self, ticket: u64) -> bool {
        let mut queue = self.queue();
        let place = queue.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket);
        place.is_ok_and(|place| queue.waiting.remove(place).is_some())
    }
}

/// Takes purchases and sends them to the gate in batches; cheap to clone.
#[derive(Clone)]
pub struct Batcher(Arc<Parts>);

struct Parts {
    gate: Gate,
    ids: Arc<IdSource>,
    backlog: i64,
    shutdown: Shutdown,
    /// One for each sale that was ever asked for here: few, and small.
    lanes: Mutex<HashMap<VoucherId, Arc<Lane>>>,
}

impl Batcher {
    /// A batcher in front of `gate`, which also writes the gate's refusal counters. `backlog` is the number of unsaved entries from which nobody else comes in.
    #[must_use]
    pub fn new(gate: Gate, ids: Arc<IdSource>, backlog: i64, shutdown: Shutdown) -> Self {
        shutdown.spawn_loop("refusal counters", write_refusals(gate.clone(), shutdown.clone()));
        Self(Arc::new(Parts { gate, ids, backlog, shutdown, lanes: Mutex::default() }))
    }

    /// One purchase: its verdict, within about 900 ms. `epoch` is SQL's.
    ///
    /// When the caller goes away before the answer, the purchase is withdrawn if it was not sent yet.
    pub async fn admit(&self, voucher: VoucherId, epoch: Epoch, user: UserId) -> Answer {
        let lane = self.lane(voucher);
        let (answer, mut told) = oneshot::channel();
        let ticket = {
            let mut queue = lane.queue();
            if queue.waiting.len() >= QUEUE_ROOM {
                return Err(AdmitError::Unavailable);
            }
            let ticket = queue.next_ticket;
            queue.next_ticket += 1;
            queue.waiting.push_back(Waiter { ticket, user, epoch, answer });
            if !queue.running {
                queue.running = true;
                let (parts, lane) = (Arc::clone(&self.0), Arc::clone(&lane));
                self.0.shutdown.spawn(async move { parts.send_batches(voucher, &lane).await });
            }
            ticket
        };
        match tokio::time::timeout(PATIENCE, &mut told).await {
            Ok(Ok(answer)) => answer,
            // The sending task went away without an answer.
            Ok(Err(_)) => Err(AdmitError::Uncertain),
            Err(_) if lane.withdraw(ticket) => Err(AdmitError::Unavailable),
            Err(_) => told.try_recv().unwrap_or(Err(AdmitError::Uncertain)),
        }
    }

    fn lane(&self, voucher: VoucherId) -> Arc<Lane> {
        let mut lanes = self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lanes.entry(voucher).or_default())
    }
}

impl Parts {
    async fn send_batches(&self, voucher: VoucherId, lane: &Lane) {
        while let Some(batch) = lane.next_batch() {
            self.send(voucher, lane, batch).await;
        }
    }

    async fn send(&self, voucher: VoucherId, lane: &Lane, batch: Vec<Waiter>) {
        let Some(epoch) = batch.first().map(|waiter| waiter.epoch) else { return };
        // Ids are taken now and not at the door: whoever gave up meanwhile uses none.
        let (mut buyers, mut waiters) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for waiter in batch {
            if let Some(id) = self.ids.next() {
                buyers.push((waiter.user, id));
                waiters.push(waiter);
            } else {
                meters().admissions(Outcome::Unavailable, 1);
                tell(waiter, Err(AdmitError::NoIds));
            }
        }
        if buyers.is_empty() {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
        meters().admit_batch.record(buyers.len() as f64);
        let outcome = self.gate.admit(voucher, epoch, self.backlog, &buyers).await;
        let in_trouble = std::mem::replace(&mut lane.queue().in_trouble, outcome.is_err());
        match outcome {
            Ok(verdicts) => {
                count(&verdicts);
                for ((waiter, (_, id)), verdict) in waiters.into_iter().zip(buyers).zip(verdicts) {
                    // Every other verdict is definite: nobody has this id, so its number can serve again. But for one: he
                    // holds this very id, because something between us and the server sent the call twice.
                    if !matches!(verdict, Admission::Admitted { .. }) && verdict != Admission::Duplicate(id) {
                        self.ids.give_back(id);
                    }
                    tell(waiter, Ok(verdict));
                }
            }
            Err(error) => {
                if in_trouble {
                    tracing::debug!(%voucher, buyers = buyers.len(), %error, "again no verdict");
                } else {
                    tracing::warn!(%voucher, buyers = buyers.len(), %error, "purchases get no verdict");
                }
                let nothing_happened = matches!(error, GateError::Unavailable(_));
                let counted = if nothing_happened { Outcome::Unavailable } else { Outcome::Uncertain };
                meters().admissions(counted, buyers.len() as u64);
                for (waiter, (_, id)) in waiters.into_iter().zip(buyers) {
                    if nothing_happened {
                        self.ids.give_back(id);
                    }
                    tell(waiter, Err(if nothing_happened { AdmitError::Unavailable } else { AdmitError::Uncertain }));
                }
            }
        }
    }
}

/// Refusals are written once a second, and a last time at the end.
async fn write_refusals(gate: Gate, shutdown: Shutdown) {
    let mut going = true;
    while going {
        going = shutdown.sleep(Duration::from_secs(1)).await;
        if let Err(error) = gate.write_refusals().await {
            tracing::debug!(%error, "refusals were not counted");
        }
    }
}

/// One addition for each run of the same verdict: after the sell-out that is one a batch.
fn count(verdicts: &[Admission]) {
    for run in verdicts.chunk_by(|a, b| outcome_of(a) == outcome_of(b)) {
        meters().admissions(outcome_of(&run[0]), run.len() as u64);
    }
}

fn outcome_of(verdict: &Admission) -> Outcome {
    match verdict {
        Admission::Admitted { .. } => Outcome::Admitted,
        Admission::Duplicate(_) => Outcome::Duplicate,
        Admission::SoldOut => Outcome::SoldOut,
        Admission::NotBegun => Outcome::NotBegun,
        Admission::Ended => Outcome::Ended,
        Admission::Paused => Outcome::Paused,
        Admission::BacklogFull => Outcome::BacklogFull,
        Admission::NotReady(_) => Outcome::NotReady,
    }
}

fn tell(waiter: Waiter, answer: Answer) {
    let _gone_meanwhile = waiter.answer.send(answer);
}
