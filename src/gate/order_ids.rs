//! Where order ids come from: blocks of the UTC day's sequence, taken ahead of need, so that a purchase never waits for one.
//!
//! A block counts only once the registry (SQL, behind a trait) has written it down: Redis may forget its counter, and a
//! number that two processes use gives two buyers one id.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::RngExt;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::domain::ids::OrderId;
use crate::domain::time::{Millis, UtcDay};
use crate::keys;
use crate::redis::Redis;
use crate::shutdown::Shutdown;

/// Numbers in a block: enough to go on selling for a while when SQL is away.
pub const BLOCK: i64 = 131_072;
/// A day's counter is of no use after this.
const COUNTER_LIFE: Duration = Duration::from_hours(48);
/// The next day's first block is fetched this long before midnight.
const BEFORE_MIDNIGHT: Duration = Duration::from_mins(1);
/// Blocks that may turn out to be taken before a refill gives up for now.
const ATTEMPTS: usize = 16;

/// What the registry says of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// Written down now: it is ours alone.
    Yes,
    /// Written down before, by anybody.
    Taken {
        /// The first number of the highest block of that day.
        highest: i64,
    },
}

/// Writes blocks down so that no number is given out twice, whatever Redis forgets.
pub trait BlockRegistry: Send + Sync {
    /// Writes down that the block which begins at `first` of `day`'s sequence is taken. The error is for the log.
    fn register(&self, day: UtcDay, first: i64) -> BoxFuture<'_, Result<Registered, String>>;
}

/// The numbers of one day that nobody has used.
struct Pool {
    day: UtcDay,
    /// Given back: their ids were never told to anybody.
    free: Vec<u32>,
    blocks: VecDeque<RangeInclusive<u32>>,
}

impl Pool {
    fn left(&self) -> usize {
        self.free.len() + self.blocks.iter().map(|block| block.size_hint().0).sum::<usize>()
    }

    fn take(&mut self) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        loop {
            match self.blocks.front_mut()?.next() {
                Some(number) => return Some(number),
                None => drop(self.blocks.pop_front()),
            }
        }
    }
}

/// Gives out order ids; shared by everybody in the process.
pub struct IdSource {
    clock: Clock,
    /// Today's pool, and tomorrow's shortly before midnight.
    pools: Mutex<Vec<Pool>>,
    wanted: Notify,
    filled: Notify,
}

impl IdSource {
    /// Starts fetching blocks in the background, until the shutdown.
    #[must_use]
    pub fn start(redis: Redis, clock: Clock, registry: Arc<dyn BlockRegistry>, shutdown: &Shutdown) -> Arc<Self> {
        let source = Arc::new(Self { clock, pools: Mutex::new(Vec::new()), wanted: Notify::new(), filled: Notify::new() });
        let (filling, until) = (Arc::clone(&source), shutdown.clone());
        shutdown.spawn_loop("order ids", async move { filling.keep_filled(&redis, &*registry, &until).await });
        source
    }

    /// An id that nobody else has; none when there is none at hand. Never waits.
    #[must_use]
    pub fn next(&self) -> Option<OrderId> {
        let now = self.clock.now();
        let mut pools = self.pools();
        let pool = pools.iter_mut().find(|pool| pool.day == now.utc_day());
        let (number, left) = pool.map_or((None, 0), |pool| (pool.take(), pool.left()));
        if left < half_a_block() {
            self.wanted.notify_one();
        }
        number.map(|number| OrderId::new(now, number))
    }

    /// Takes back an id that was certainly not admitted and was told to nobody; its number is used again.
    pub fn give_back(&self, id: OrderId) {
        // A number of a day that is over is worth nothing.
        if let Some(pool) = self.pools().iter_mut().find(|pool| pool.day == id.day()) {
            pool.free.push(id.sequence());
        }
    }

    /// Waits until ids are at hand; false when there are none after `limit`.
    pub async fn ready(&self, limit: Duration) -> bool {
        let some = async {
            loop {
                let filled = self.filled.notified();
                let today = self.clock.now().utc_day();
                if self.pools().iter().any(|pool| pool.day == today && pool.left() > 0) {
                    return;
                }
                filled.await;
            }
        };
        tokio::time::timeout(limit, some).await.is_ok()
    }

    fn pools(&self) -> MutexGuard<'_, Vec<Pool>> {
        // Nothing that holds the lock can leave it half done.
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn keep_filled(&self, redis: &Redis, registry: &dyn BlockRegistry, shutdown: &Shutdown) {
        let mut failures = 0_u32;
        while !shutdown.has_begun() {
            let pause = match self.fill(redis, registry).await {
                Ok(()) => {
                    failures = 0;
                    BEFORE_MIDNIGHT / 3
                }
                Err(why) => {
                    failures += 1;
                    tracing::warn!(why, left = self.pools().iter().map(Pool::left).sum::<usize>(), "no new block of order ids");
                    let step = Duration::from_millis(50) * 2_u32.pow(failures.min(5));
                    step.mul_f64(rand::rng().random_range(0.5..1.0))
                }
            };
            let wait = async {
                // After a failure the need is known; it must not shorten the pause.
                if failures == 0 {
                    tokio::select! {
                        () = self.wanted.notified() => {}
                        () = self.clock.sleep_until(self.clock.now() + pause) => {}
                    }
                } else {
                    tokio::time::sleep(pause).await;
                }
            };
            tokio::select! {
                () = wait => {}
                () = shutdown.begun() => return,
            }
        }
    }

    async fn fill(&self, redis: &Redis, registry: &dyn BlockRegistry) -> Result<(), String> {
        let days = days_needed(self.clock.now());
        self.pools().retain(|pool| days.contains(&pool.day));
        for day in days {
            while self.pools().iter().find(|pool| pool.day == day).map_or(0, Pool::left) < half_a_block() {
                let block = next_block(redis, registry, day).await?;
                let mut pools = self.pools();
                match pools.iter_mut().find(|pool| pool.day == day) {
                    Some(pool) => pool.blocks.push_back(block),
                    None => pools.push(Pool { day, free: Vec::new(), blocks: VecDeque::from([block]) }),
                }
                drop(pools);
                self.filled.notify_waiters();
            }
        }
        Ok(())
    }
}

fn half_a_block() -> usize {
    usize::try_from(BLOCK / 2).unwrap_or(usize::MAX)
}

fn days_needed(now: Millis) -> Vec<UtcDay> {
    let mut days = vec![now.utc_day(), (now + BEFORE_MIDNIGHT).utc_day()];
    days.dedup();
    days
}

async fn next_block(redis: &Redis, registry: &dyn BlockRegistry, day: UtcDay) -> Result<RangeInclusive<u32>, String> {
    let key = keys::order_sequence(day);
    let raise = async |by: i64| -> Result<i64, String> {
        let mut call = redis::pipe();
        call.cmd("INCRBY").arg(&key).arg(by).cmd("EXPIRE").arg(&key).arg(COUNTER_LIFE.as_secs()).ignore();
        let (value,): (i64,) = call.query_async(&mut redis.shared()).await.map_err(|e| e.to_string())?;
        Ok(value)
    };
    for _ in 0..ATTEMPTS {
        let last = raise(BLOCK).await?;
        let first = last - BLOCK + 1;
        // Blocks begin at 1, 1 + BLOCK, …: a counter that was moved by hand must not make one that overlaps another.
        let off = last.rem_euclid(BLOCK);
        if off != 0 || first < 1 {
            raise(if first < 1 { -last } else { BLOCK - off }).await?;
            continue;
        }
        let (Ok(from), Ok(to)) = (u32::try_from(first), u32::try_from(last)) else {
            return Err(String::from("the day's sequence is used up"));
        };
        match registry.register(day, first).await? {
            Registered::Yes => return Ok(from..=to),
            // The counter was lost: lift it over everything that was ever given out.
            Registered::Taken { highest } if highest > first => drop(raise(highest - first).await?),
            Registered::Taken { .. } => {}
        }
    }
    Err(String::from("every block was taken already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_day_is_prepared_just_before_midnight() {
        let midnight = Millis(20_000 * 86_400_000);
        assert_eq!(days_needed(midnight), [UtcDay(20_000)]);
        assert_eq!(days_needed(midnight - Duration::from_secs(61)), [UtcDay(19_999)]);
        assert_eq!(days_needed(midnight - Duration::from_secs(59)), [UtcDay(19_999), UtcDay(20_000)]);
    }

    #[test]
    fn numbers_that_were_given_back_are_used_first_and_none_twice() {
        let mut pool = Pool { day: UtcDay(1), free: vec![7], blocks: VecDeque::from([20..=21, 30..=30]) };
        assert_eq!(pool.left(), 4);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken, [7, 20, 21, 30]);
        assert_eq!(pool.left(), 0);
    }
}
