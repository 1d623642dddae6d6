//! Many purchases, few calls: the batcher and the id source against a real server.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use seckill::clock::Clock;
use seckill::domain::admission::Admission;
use seckill::domain::ids::{OrderId, UserId, VoucherId};
use seckill::domain::time::{Millis, UtcDay};
use seckill::gate::{AdmitError, Batcher, BlockRegistry, Gate, IdSource, Load, Registered, order_ids};
use seckill::redis::Redis;
use seckill::shutdown::Shutdown;

use crate::support::redis::TestRedis;

const V: VoucherId = VoucherId(10);

/// A registry as SQL keeps it, but in memory: what the database does is tried by the store's own tests.
#[derive(Default)]
struct Blocks(Mutex<HashSet<(UtcDay, i64)>>);

impl BlockRegistry for Blocks {
    fn register(&self, day: UtcDay, first: i64) -> BoxFuture<'_, Result<Registered, String>> {
        let mut blocks = self.0.lock().unwrap();
        let answer = if blocks.insert((day, first)) {
            Registered::Yes
        } else {
            Registered::Taken { highest: blocks.iter().filter(|b| b.0 == day).map(|b| b.1).max().unwrap() }
        };
        Box::pin(async move { Ok(answer) })
    }
}

struct Shop {
    redis: TestRedis,
    gate: Gate,
    ids: Arc<IdSource>,
    batcher: Batcher,
    shutdown: Shutdown,
}

async fn shop(units: i64) -> Shop {
    let redis = TestRedis::start().await;
    let (shutdown, clock) = (Shutdown::default(), Clock::default());
    let gate = Gate::new(redis.open().await, 1);
    let ids = IdSource::start(redis.open().await, clock.clone(), Arc::new(Blocks::default()), &shutdown);
    assert!(ids.ready(Duration::from_secs(5)).await);
    let (begin, end) = (clock.now() - Duration::from_mins(1), clock.now() + Duration::from_hours(1));
    let load = Load { voucher: V, claim: 1, left: units, holders: &[], total: units, paused: false, begin, end };
    assert!(gate.load(&load).await.unwrap() && gate.open(V, 1).await.unwrap());
    let batcher = Batcher::new(gate.clone(), Arc::clone(&ids), 60_000, shutdown.clone());
    Shop { redis, gate, ids, batcher, shutdown }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_buyers_at_a_time_share_calls_and_exactly_the_stock_is_admitted() {
    let shop = shop(100).await;
    let before = shop.redis.calls_of("evalsha").await;
    let rounds = 50;
    let buyers = (0..64_i64).map(|connection| {
        let batcher = shop.batcher.clone();
        shop.shutdown.spawn(async move {
            let mut answers = Vec::new();
            for round in 0..rounds {
                answers.push(batcher.admit(V, 1, UserId(1 + connection * rounds + round)).await.unwrap());
            }
            answers
        })
    });
    let answers: Vec<_> = join_all(buyers).await.into_iter().flat_map(Result::unwrap).collect();
    let orders: HashSet<OrderId> = answers
        .iter()
        .filter_map(|a| match a {
            Admission::Admitted { order, .. } => Some(*order),
            _ => None,
        })
        .collect();
    assert_eq!(orders.len(), 100);
    assert_eq!(answers.iter().filter(|a| **a == Admission::SoldOut).count(), answers.len() - 100);
    let calls = shop.redis.calls_of("evalsha").await - before;
    assert!(calls * 8 <= 64 * 50, "{calls} calls for {} purchases", 64 * 50);
    let seen = shop.gate.snapshot(V).await.unwrap();
    assert_eq!((seen.stock, seen.holders, seen.misfit(1)), (Some(0), 100, None));
    // Numbers of refused purchases came back: the next number is one of the first few hundred of the day.
    let next = shop.ids.next().unwrap();
    assert!(next.sequence() <= 100 + 64, "{}", next.sequence());
}

#[tokio::test]
async fn a_single_purchase_is_not_kept_waiting() {
    let shop = shop(1000).await;
    for user in 1..=20 {
        let started = Instant::now();
        shop.batcher.admit(V, 1, UserId(user)).await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(200), "{:?}", started.elapsed());
    }
    assert_eq!(shop.batcher.admit(V, 2, UserId(99)).await, Ok(Admission::NotReady(Some(1))), "a stale epoch is told");
    assert_eq!(shop.batcher.admit(V, 0, UserId(99)).await, Ok(Admission::NotReady(None)), "never loaded");
}

#[tokio::test]
async fn without_redis_everybody_hears_within_a_second_and_it_heals_by_itself() {
    let mut shop = shop(10).await;
    shop.redis.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    let answers = join_all((1..=300).map(|user| shop.batcher.admit(V, 1, UserId(user)))).await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(answers.iter().all(|a| *a == Err(AdmitError::Unavailable)), "{answers:?}");
    shop.redis.start_again().await;
    let mut tries = 0;
    while shop.batcher.admit(V, 1, UserId(1)).await.is_err() {
        tries += 1;
        assert!(tries < 50);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_hung_redis_makes_what_was_sent_uncertain_and_what_was_not_unavailable() {
    let shop = shop(1000).await;
    shop.batcher.admit(V, 1, UserId(999)).await.unwrap(); // the server knows the script from here on
    shop.redis.freeze();
    let started = Instant::now();
    let first = shop.batcher.admit(V, 1, UserId(1));
    let (batcher, rest) = (shop.batcher.clone(), 2..=601);
    let later = async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        join_all(rest.map(|user| batcher.admit(V, 1, UserId(user)))).await
    };
    let (first, later) = tokio::join!(first, later);
    assert!(started.elapsed() < Duration::from_millis(1100), "{:?}", started.elapsed());
    assert_eq!(first, Err(AdmitError::Uncertain));
    let uncertain = later.iter().filter(|a| **a == Err(AdmitError::Uncertain)).count();
    let unavailable = later.iter().filter(|a| **a == Err(AdmitError::Unavailable)).count();
    // The first call's silence opened the breaker: nothing was sent after it.
    assert_eq!((uncertain, unavailable), (0, 600));
    shop.redis.thaw();
    let seen = loop {
        assert!(started.elapsed() < Duration::from_secs(10), "the breaker never closed");
        match shop.gate.snapshot(V).await {
            Ok(seen) => break seen,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!((seen.holders, seen.misfit(1)), (2, None), "what was called unavailable never happened");
    assert!(matches!(shop.batcher.admit(V, 1, UserId(1)).await, Ok(Admission::Duplicate(_))));
}

#[tokio::test]
async fn a_buyer_who_goes_away_before_the_call_takes_nothing() {
    let shop = shop(1000).await;
    shop.redis.freeze();
    let stuck = shop.shutdown.spawn({
        let batcher = shop.batcher.clone();
        async move { batcher.admit(V, 1, UserId(1)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let gone = tokio::time::timeout(Duration::from_millis(50), shop.batcher.admit(V, 1, UserId(2))).await;
    assert!(gone.is_err());
    shop.redis.thaw();
    stuck.await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(shop.gate.holders(V).await.unwrap().keys().copied().collect::<Vec<_>>(), [UserId(1)]);
}

async fn source(redis: &Redis, clock: &Clock, blocks: &Arc<Blocks>, shutdown: &Shutdown) -> Arc<IdSource> {
    let registry: Arc<dyn BlockRegistry> = Arc::clone(blocks) as _;
    let ids = IdSource::start(redis.clone(), clock.clone(), registry, shutdown);
    assert!(ids.ready(Duration::from_secs(5)).await);
    ids
}

#[tokio::test]
async fn a_counter_that_redis_lost_or_that_was_moved_by_hand_gives_no_number_twice() {
    let server = TestRedis::start().await;
    let redis = server.open().await;
    let (clock, blocks, shutdown) = (Clock::default(), Arc::new(Blocks::default()), Shutdown::default());
    let first = source(&redis, &clock, &blocks, &shutdown).await;
    let mut seen: HashSet<u32> = (0..100).map(|_| first.next().unwrap().sequence()).collect();
    server.ask::<String>("FLUSHALL").await;
    let second = source(&redis, &clock, &blocks, &shutdown).await;
    let key = seckill::keys::order_sequence(clock.now().utc_day());
    server.ask::<String>(&format!("SET {key} 5")).await;
    let third = source(&redis, &clock, &blocks, &shutdown).await;
    for _ in 0..100 {
        for ids in [&first, &second, &third] {
            assert!(seen.insert(ids.next().unwrap().sequence()), "a number was given out twice");
        }
    }
    assert!(blocks.0.lock().unwrap().iter().all(|(_, first)| first % order_ids::BLOCK == 1));
    let ttl: i64 = server.ask(&format!("TTL {key}")).await;
    assert!((86_400..=172_800).contains(&ttl), "{ttl}");
    shutdown.begin();
}

#[tokio::test]
async fn a_new_day_takes_a_new_block_and_old_numbers_are_dropped() {
    let server = TestRedis::start().await;
    let redis = server.open().await;
    let (clock, blocks, shutdown) = (Clock::default(), Arc::new(Blocks::default()), Shutdown::default());
    let ids = source(&redis, &clock, &blocks, &shutdown).await;
    let old = ids.next().unwrap();
    let now = clock.now();
    let midnight = Millis((i64::from(now.utc_day().0) + 1) * 86_400_000);
    // Half a minute before: tomorrow's block is there already, so the first buyer of the day does not wait for it.
    clock.advance(now.until(midnight - Duration::from_secs(30)));
    let mut tries = 0;
    while !blocks.0.lock().unwrap().iter().any(|(day, _)| *day == midnight.utc_day()) {
        tries += 1;
        assert!(tries < 200);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    clock.advance(Duration::from_secs(31));
    ids.give_back(old);
    let new = ids.next().unwrap();
    assert_eq!(new.day(), midnight.utc_day());
    assert_eq!(new.sequence(), 1);
    shutdown.begin();
}
