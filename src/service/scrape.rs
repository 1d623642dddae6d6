//! What `/metrics` has to ask the stores for: how long the queues are, what is open, what is late.
//!
//! Asked when somebody scrapes, so that nobody's idle shop counts for nobody; bounded, so that a store that is away costs
//! the scraper a second and the figure that says so.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::domain::ids::Lane;
use crate::queue::{Depth, Queue, QueueError};
use crate::store::{Store, StoreError};
use crate::telemetry::meters;

/// How long a store is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long one look serves every scraper.
const FRESH: Duration = Duration::from_millis(500);
/// A refund that is due for longer wants a person: the provider has been asked a dozen times.
const OVERDUE: Duration = Duration::from_mins(5);
/// Kinds of rows in the outbox that are shown also when there are none.
const KINDS: [&str; 4] = ["release", "refund", "coupon", "credits"];

/// Looks at the stores for the figures.
pub struct Scrape {
    store: Store,
    queue: Queue,
    lanes: u16,
    clock: Clock,
    looked: Mutex<Option<Instant>>,
}

impl Scrape {
    /// Looks at these stores.
    #[must_use]
    pub fn new(store: Store, queue: Queue, lanes: u16, clock: Clock) -> Self {
        Self { store, queue, lanes, clock, looked: Mutex::default() }
    }

    /// Brings every figure that is read from a store up to date, within about a second. A store that cannot be asked leaves
    /// its figures as they were and shows as down.
    pub async fn look(&self) {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        for pool in self.store.pools() {
            metrics::gauge!("seckill_pool_connections", "pool" => pool.pool, "state" => "used").set(pool.used);
            metrics::gauge!("seckill_pool_connections", "pool" => pool.pool, "state" => "idle").set(pool.idle);
        }
        let (redis, database) =
            tokio::join!(tokio::time::timeout(PATIENCE, self.streams()), tokio::time::timeout(PATIENCE, self.books()));
        meters().redis_up.set(f64::from(u8::from(matches!(redis, Ok(Ok(()))))));
        meters().database_up.set(f64::from(u8::from(matches!(database, Ok(Ok(()))))));
        *looked = Some(Instant::now());
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people; 2^53 entries do not fit into a stream")]
    async fn streams(&self) -> Result<(), QueueError> {
        let depths = join_all((0..self.lanes).map(|lane| self.queue.depth(Lane(lane)))).await;
        for (lane, depth) in depths.into_iter().enumerate() {
            let Depth { len, pending, lag, .. } = depth?;
            let lane = lane.to_string();
            metrics::gauge!("seckill_stream_length", "lane" => lane.clone()).set(len as f64);
            // Redis cannot tell the lag of a group when entries were deleted by hand.
            metrics::gauge!("seckill_stream_lag", "lane" => lane).set(lag.unwrap_or(len - pending).max(0) as f64);
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people; 2^53 rows do not fit onto a disk")]
    async fn books(&self) -> Result<(), StoreError> {
        let open = self.store.open_outbox().await?;
        let count = |kind: &str| open.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
        let known = KINDS.iter().map(|kind| (*kind, count(kind)));
        let others = open.iter().filter(|(kind, _)| !KINDS.contains(&kind.as_str())).map(|(kind, n)| (kind.as_str(), *n));
        for (kind, n) in known.chain(others) {
            metrics::gauge!("seckill_outbox_open", "kind" => kind.to_owned()).set(n as f64);
        }
        meters().dead_letters.set(self.store.open_dead_letter_count().await? as f64);
        meters().refunds_overdue.set(self.store.refunds_due_since(self.clock.now() - OVERDUE).await? as f64);
        Ok(())
    }
}
