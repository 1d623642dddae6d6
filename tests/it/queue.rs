//! The stream and its readers against a real server.

use std::time::{Duration, Instant};

use seckill::domain::ids::{Lane, OrderId, UserId, VoucherId};
use seckill::domain::time::Millis;
use seckill::gate::{Gate, Load};
use seckill::queue::{Delivery, Queue, QueueError, Reader, StreamId, Waiting};

use crate::support::redis::TestRedis;

const V: VoucherId = VoucherId(10);
const LANE: Lane = Lane(0);
const SHORT: Duration = Duration::from_millis(50);

async fn selling() -> (TestRedis, Gate, Queue) {
    let redis = TestRedis::start().await;
    let gate = Gate::new(redis.open().await, 1);
    let load = Load {
        voucher: V,
        claim: 1,
        left: 5000,
        holders: &[],
        total: 5000,
        paused: false,
        begin: Millis(1),
        end: Millis(9_000_000_000_000),
    };
    assert!(gate.load(&load).await.unwrap() && gate.open(V, 1).await.unwrap());
    let queue = Queue::new(redis.open().await);
    (redis, gate, queue)
}

async fn buy(gate: &Gate, users: std::ops::RangeInclusive<i64>) {
    let buyers: Vec<_> = users.map(|n| (UserId(n), OrderId(n + 1000))).collect();
    for some in buyers.chunks(256) {
        gate.admit(V, 1, 100_000, some).await.unwrap();
    }
}

fn settled(deliveries: &[Delivery]) -> Vec<(StreamId, Option<OrderId>)> {
    deliveries.iter().map(|d| (d.stream_id, d.entry.as_ref().ok().map(|e| e.order))).collect()
}

async fn read(reader: &mut Reader) -> Vec<Delivery> {
    reader.read_new(100, SHORT).await.unwrap()
}

#[tokio::test]
async fn an_entry_leaves_with_its_settle_and_comes_back_until_then() {
    let (_redis, gate, queue) = selling().await;
    let (mut one, mut two) = (queue.reader(LANE), queue.reader(LANE));
    assert_ne!(one.consumer(), two.consumer());
    assert_eq!(read(&mut one).await, []);
    buy(&gate, 1..=3).await;
    let got = read(&mut one).await;
    assert_eq!(
        got.iter().map(|d| (d.deliveries, d.entry.as_ref().unwrap().order.0)).collect::<Vec<_>>(),
        [(1, 1001), (1, 1002), (1, 1003)]
    );
    assert_eq!(queue.first_id(LANE).await.unwrap(), Some(got[0].stream_id));
    one.settle(&settled(&got[..1])).await.unwrap();
    one.settle(&settled(&got[..1])).await.unwrap();
    let depth = queue.depth(LANE).await.unwrap();
    assert_eq!((depth.there, depth.len, depth.entries_added, depth.pending, depth.lag), (true, 2, 3, 2, Some(0)));
    assert_eq!(one.own_pending(100).await.unwrap().iter().map(|d| d.deliveries).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(two.claim(Duration::from_mins(1), 100).await.unwrap(), []);
    let claimed = two.claim(Duration::ZERO, 100).await.unwrap();
    assert_eq!(
        claimed.iter().map(|d| (d.stream_id, d.deliveries)).collect::<Vec<_>>(),
        [(got[1].stream_id, 3), (got[2].stream_id, 3)]
    );
    two.settle(&settled(&claimed)).await.unwrap();
    assert_eq!(queue.first_id(LANE).await.unwrap(), None);
    assert_eq!(queue.depth(LANE).await.unwrap().pending, 0);
}

#[tokio::test]
async fn what_waits_is_shown_with_who_has_it_and_nothing_is_taken_by_looking() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=5).await;
    let mut one = queue.reader(LANE);
    assert_eq!(one.read_new(2, SHORT).await.unwrap().len(), 2);
    let waiting = queue.waiting(LANE, 3).await.unwrap();
    let shown: Vec<_> = waiting.oldest.iter().map(|w| (w.entry.as_ref().unwrap().order.0, w.given.is_some())).collect();
    assert_eq!((waiting.all, shown.as_slice()), (5, [(1001, true), (1002, true), (1003, false)].as_slice()));
    let given = waiting.oldest[0].given.as_ref().unwrap();
    assert_eq!((given.consumer.as_str(), given.deliveries), (one.consumer(), 1));
    let depth = queue.depth(LANE).await.unwrap();
    assert_eq!((depth.pending, depth.lag), (2, Some(3)), "a look takes nothing");
    let own = one.own_pending(100).await.unwrap();
    one.settle(&settled(&own)).await.unwrap();
    assert_eq!(queue.waiting(LANE, 3).await.unwrap().oldest[0].given, None);
    // Neither a missing group nor a missing stream is an error.
    redis.ask::<i64>("XGROUP DESTROY stream.orders:{0} g1").await;
    assert_eq!(queue.waiting(LANE, 3).await.unwrap().all, 3);
    redis.ask::<i64>("DEL stream.orders:{0}").await;
    assert_eq!(queue.waiting(LANE, 3).await.unwrap(), Waiting::default());
}

#[tokio::test]
async fn a_settle_takes_a_thousand_entries_in_one_call() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=1000).await;
    let mut reader = queue.reader(LANE);
    let got = reader.read_new(1000, SHORT).await.unwrap();
    assert_eq!(got.len(), 1000);
    assert_eq!(queue.entries(LANE).await.unwrap().len(), 1000);
    let before = redis.calls_of("evalsha").await;
    reader.settle(&settled(&got)).await.unwrap();
    assert!(redis.calls_of("evalsha").await - before <= 2, "once unknown, once run");
    assert_eq!(queue.depth(LANE).await.unwrap(), queue.depth(LANE).await.unwrap());
    assert_eq!(queue.depth(LANE).await.unwrap().len, 0);
    assert_eq!(queue.entries(LANE).await.unwrap(), []);
}

#[tokio::test]
async fn an_entry_that_carries_another_order_is_left_alone() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=2).await;
    let mut reader = queue.reader(LANE);
    let got = read(&mut reader).await;
    reader.settle(&[(got[0].stream_id, Some(OrderId(7777)))]).await.unwrap();
    assert_eq!(queue.depth(LANE).await.unwrap().pending, 2, "neither acknowledged nor removed");
    redis.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", got[0].stream_id)).await;
    reader.settle(&settled(&got)).await.unwrap();
    let depth = queue.depth(LANE).await.unwrap();
    assert_eq!((depth.len, depth.pending), (0, 0), "a gone entry is only acknowledged");
}

#[tokio::test]
async fn an_unreadable_entry_is_delivered_as_such_and_settled_by_its_stream_id() {
    let (redis, _gate, queue) = selling().await;
    redis.ask::<String>("XADD stream.orders:{0} * id 5 userId x voucherId 10 epoch 1 admittedAt 1").await;
    let mut reader = queue.reader(LANE);
    let got = read(&mut reader).await;
    let unreadable = got[0].entry.clone().unwrap_err();
    assert!(unreadable.reason.contains("userId") && unreadable.raw.contains("\"x\""), "{unreadable:?}");
    reader.settle(&[(got[0].stream_id, None)]).await.unwrap();
    assert_eq!(queue.depth(LANE).await.unwrap().len, 0);
}

#[tokio::test]
async fn entries_deleted_by_hand_leave_the_pending_list_and_harm_nobody() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=4).await;
    let mut reader = queue.reader(LANE);
    let got = read(&mut reader).await;
    redis.ask::<i64>(&format!("XDEL stream.orders:{{0}} {} {}", got[0].stream_id, got[2].stream_id)).await;
    assert_eq!(reader.own_pending(100).await.unwrap().len(), 2);
    assert_eq!(queue.depth(LANE).await.unwrap().pending, 2);
    redis.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", got[1].stream_id)).await;
    assert_eq!(queue.reader(LANE).claim(Duration::ZERO, 100).await.unwrap().len(), 1);
    assert_eq!(queue.depth(LANE).await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_missing_group_is_made_again_from_the_first_entry_and_a_missing_stream_never() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=2).await;
    let mut reader = queue.reader(LANE);
    assert_eq!(read(&mut reader).await.len(), 2);
    redis.ask::<i64>("XGROUP DESTROY stream.orders:{0} g1").await;
    assert_eq!(read(&mut reader).await, []);
    assert_eq!(read(&mut reader).await.len(), 2, "nothing is skipped");
    assert!(reader.ensure_group().await.unwrap());
    redis.ask::<i64>("DEL stream.orders:{0}").await;
    let started = Instant::now();
    assert_eq!(read(&mut reader).await, []);
    assert!(started.elapsed() >= SHORT, "it does not spin");
    assert!(!reader.ensure_group().await.unwrap());
    assert_eq!(reader.claim(Duration::ZERO, 10).await.unwrap(), []);
    assert_eq!(reader.own_pending(10).await.unwrap(), []);
    assert_eq!((queue.first_id(LANE).await.unwrap(), queue.depth(LANE).await.unwrap().there), (None, false));
    assert_eq!(queue.drop_dead_consumers(LANE, Duration::ZERO).await.unwrap(), 0);
    assert_eq!(redis.ask::<i64>("EXISTS stream.orders:{0}").await, 0);
}

#[tokio::test]
async fn a_blocked_read_wakes_with_the_first_entry_and_outlives_the_default_timeout() {
    let (_redis, gate, queue) = selling().await;
    let mut reader = queue.reader(LANE);
    let later = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        buy(&gate, 1..=1).await;
    };
    let started = Instant::now();
    let (got, ()) = tokio::join!(reader.read_new(10, Duration::from_secs(5)), later);
    assert_eq!(got.unwrap().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn after_a_restart_nothing_is_settled_over_another_connection() {
    let (mut redis, gate, queue) = selling().await;
    buy(&gate, 1..=3).await;
    let mut reader = queue.reader(LANE);
    let got = read(&mut reader).await;
    redis.kill();
    assert!(reader.settle(&settled(&got)).await.is_err());
    assert!(matches!(reader.settle(&settled(&got)).await, Err(QueueError::ConnectionLost)));
    assert!(matches!(reader.read_new(10, SHORT).await, Err(QueueError::Unavailable(_))));
    redis.start_again().await;
    assert!(matches!(reader.settle(&settled(&got)).await, Err(QueueError::ConnectionLost)));
    let again = reader.own_pending(10).await.unwrap();
    assert_eq!(settled(&again), settled(&got), "the log kept every one of them");
    reader.settle(&settled(&again)).await.unwrap();
    // The shared connection is asked again by the breaker's PING, once a second.
    let began = std::time::Instant::now();
    let depth = loop {
        match queue.depth(LANE).await {
            Ok(depth) => break depth,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(5), "{error}"),
        }
    };
    assert_eq!(depth.len, 0);
}

#[tokio::test]
async fn a_dead_consumer_is_dropped_only_when_it_holds_nothing() {
    let (redis, gate, queue) = selling().await;
    buy(&gate, 1..=2).await;
    let (mut one, mut two) = (queue.reader(LANE), queue.reader(LANE));
    let got = one.read_new(1, SHORT).await.unwrap();
    let rest = two.read_new(1, SHORT).await.unwrap();
    two.settle(&settled(&rest)).await.unwrap();
    assert_eq!(queue.drop_dead_consumers(LANE, Duration::from_mins(1)).await.unwrap(), 0);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(queue.drop_dead_consumers(LANE, Duration::ZERO).await.unwrap(), 1);
    assert_eq!(redis.ask::<Vec<redis::Value>>("XINFO CONSUMERS stream.orders:{0} g1").await.len(), 1);
    let claimed = queue.reader(LANE).claim(Duration::ZERO, 10).await.unwrap();
    assert_eq!(settled(&claimed), settled(&got), "what it holds can still be claimed");
}

#[tokio::test]
async fn whoever_reports_is_counted_and_whoever_is_silent_is_struck_off() {
    let (redis, _gate, queue) = selling().await;
    let minute = Duration::from_mins(1);
    for (name, count) in [("one", 1), ("two", 2), ("one", 2), ("three", 3)] {
        assert_eq!(queue.muster(name, minute).await.unwrap(), count, "{name}");
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(queue.muster("four", Duration::from_millis(10)).await.unwrap(), 1, "the others were not heard of for longer");
    assert_eq!(queue.muster("four", minute).await.unwrap(), 1);
    let left: i64 = redis.ask("PTTL seckill:{0}:workers").await;
    assert!((1..=60_000).contains(&left), "nobody left, nothing stays: {left}");
}
