//! Gate, stream and bus keep their promises whatever Redis consists of: one server, a primary that moves, many nodes.

use std::time::Duration;

use seckill::clock::Clock;
use seckill::domain::admission::Admission;
use seckill::domain::event::SaleEvent;
use seckill::domain::ids::{Lane, OrderId, UserId, VoucherId};
use seckill::domain::time::Millis;
use seckill::gate::{Close, Gate, Load, Release};
use seckill::push::bus::Bus;
use seckill::push::hub::Hub;
use seckill::queue::{Delivery, Queue, StreamId};
use seckill::redis::Redis;
use seckill::shutdown::Shutdown;

use crate::support::redis::TestRedis;
use crate::support::servers::Servers;
use crate::support::until;

/// More than nodes, so that some share one and some do not.
const LANES: u16 = 5;
const SHORT: Duration = Duration::from_millis(50);

fn load(voucher: VoucherId, claim: i64, left: i64, holders: &[(UserId, OrderId)]) -> Load<'_> {
    let total = left + i64::try_from(holders.len()).unwrap();
    Load { voucher, claim, left, holders, total, paused: false, begin: Millis(1), end: Millis(9_000_000_000_000) }
}

fn settled(deliveries: &[Delivery]) -> Vec<(StreamId, Option<OrderId>)> {
    deliveries.iter().map(|d| (d.stream_id, d.entry.as_ref().ok().map(|e| e.order))).collect()
}

/// Everything that gate and stream do, over all lanes.
pub async fn gate_and_queue(redis: &Redis) {
    let (gate, queue) = (Gate::new(redis.clone(), LANES), Queue::new(redis.clone()));
    let vouchers: Vec<VoucherId> = (10..20).map(VoucherId).collect();
    let many: Vec<(UserId, OrderId)> = (1..=6000).map(|n| (UserId(n), OrderId(n))).collect();
    for voucher in &vouchers {
        // One large set, put together aside, in another lane than the first voucher's.
        let holders = if voucher.0 == 11 { &many[..] } else { &[] };
        assert!(gate.load(&load(*voucher, 1, 3, holders)).await.unwrap() && gate.open(*voucher, 1).await.unwrap());
    }
    let snapshots = gate.snapshots(&vouchers).await.unwrap();
    assert!(snapshots.iter().all(|s| s.misfit(1).is_none() && s.stock == Some(3)), "{snapshots:?}");
    assert_eq!(gate.holders(VoucherId(11)).await.unwrap().len(), 6000);
    assert_eq!(gate.stocks(&vouchers).await.unwrap(), vec![Some(3); 10]);

    for voucher in &vouchers {
        let buyer = |user: i64| (UserId(user), OrderId(voucher.0 * 100_000 + user));
        let told = gate.admit(*voucher, 1, 1000, &[buyer(7001), buyer(7002), buyer(7003), buyer(7004)]).await.unwrap();
        assert!(matches!(told[..3], [Admission::Admitted { .. }, Admission::Admitted { .. }, Admission::Admitted { .. }]));
        assert_eq!(told[3], Admission::SoldOut);
        let again = gate.admit(*voucher, 1, 1000, &[(UserId(7001), OrderId(5))]).await.unwrap();
        assert_eq!(again, [Admission::Duplicate(buyer(7001).1)]);
        assert_eq!(gate.admit(*voucher, 2, 1000, &[buyer(1)]).await.unwrap(), [Admission::NotReady(Some(1))]);
    }
    let held = gate.find_holder(&vouchers, UserId(7002)).await.unwrap();
    assert_eq!(held.len(), 10);
    assert!(held.iter().all(|(v, order, epoch)| (order.0, *epoch) == (v.0 * 100_000 + 7002, 1)));

    for lane in (0..LANES).map(Lane) {
        let mut reader = queue.reader(lane);
        let got = reader.read_new(100, SHORT).await.unwrap();
        assert_eq!(got.len(), 6, "two vouchers in each lane");
        let orders: Vec<OrderId> = got.iter().map(|d| d.entry.as_ref().unwrap().order).collect();
        assert_eq!(queue.places(lane, &orders).await.unwrap().into_iter().flatten().count(), 6);
        reader.settle(&settled(&got[..4])).await.unwrap();
        let mut other = queue.reader(lane);
        let claimed = other.claim(Duration::ZERO, 100).await.unwrap();
        assert_eq!(claimed.iter().map(|d| d.deliveries).collect::<Vec<_>>(), [2, 2]);
        other.settle(&settled(&claimed)).await.unwrap();
        let depth = queue.depth(lane).await.unwrap();
        assert_eq!((depth.there, depth.len, depth.entries_added, depth.pending), (true, 0, 6, 0));
        assert_eq!(queue.first_id(lane).await.unwrap(), None);
        assert_eq!(queue.entries(lane).await.unwrap(), []);
    }
    let voucher = vouchers[0];
    let order = OrderId(voucher.0 * 100_000 + 7001);
    assert_eq!(gate.release(voucher, 1, UserId(7001), order).await.unwrap(), Release::Done);
    assert_eq!(gate.snapshot(voucher).await.unwrap().stock, Some(1));
    assert!(gate.set_paused(voucher, 1, true).await.unwrap());
    gate.write_refusals().await.unwrap();
    assert!(gate.snapshot(voucher).await.unwrap().refused.iter().any(|(code, n)| code == "SOLD_OUT" && *n == 1));
    assert!(matches!(gate.close(voucher, 2).await.unwrap(), Close::Closed { last_id } if last_id > StreamId::ZERO));
    gate.expire_keys_of(voucher, Duration::from_hours(1)).await.unwrap();
    // A server that forgot its scripts is sent them again.
    redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut redis.shared()).await.unwrap();
    for voucher in &vouchers[1..] {
        assert_eq!(gate.admit(*voucher, 1, 1000, &[(UserId(8000), OrderId(8000))]).await.unwrap(), [Admission::SoldOut]);
    }
}

/// Sessions and counters have no lane: their keys lie anywhere, also when they are asked for together.
pub async fn keys_without_a_lane(redis: &Redis) {
    let mut connection = redis.shared();
    let mut write = redis::pipe();
    for n in 0..20 {
        write.cmd("SET").arg(format!("login:token:{n}")).arg(n).ignore();
    }
    write.exec_async(&mut connection).await.unwrap();
    let mut read = redis::cmd("MGET");
    for n in 0..21 {
        read.arg(format!("login:token:{n}"));
    }
    let found: Vec<Option<i64>> = read.query_async(&mut connection).await.unwrap();
    assert_eq!(found, (0..20).map(Some).chain([None]).collect::<Vec<_>>(), "in their order");
}

/// What one process tells, another hears.
pub async fn push(redis: &Redis) {
    let shutdown = Shutdown::default();
    let (here, there) = (Hub::new(Clock::default()), Hub::new(Clock::default()));
    let mut heard = there.sale_events();
    let one = Bus::start(redis, here, &shutdown);
    let _two = Bus::start(redis, there, &shutdown);
    // Nothing says when a subscription stands; what is told before is not heard.
    let voucher = VoucherId(99);
    until("one process hears the other", Duration::from_secs(10), async || {
        one.publish_sale(SaleEvent::Stock { voucher, stock: 5 });
        let event = tokio::time::timeout(SHORT, heard.recv()).await;
        matches!(event, Ok(Ok(SaleEvent::Stock { voucher: VoucherId(99), stock: 5 })))
    })
    .await;
    shutdown.begin();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_stream_and_bus_work_on_one_server() {
    let server = TestRedis::start().await;
    let redis = server.open().await;
    gate_and_queue(&redis).await;
    keys_without_a_lane(&redis).await;
    push(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_stream_and_bus_work_on_a_primary_that_sentinels_name() {
    let servers = Servers::sentinel().await;
    let redis = servers.open().await;
    gate_and_queue(&redis).await;
    keys_without_a_lane(&redis).await;
    push(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_stream_and_bus_work_on_a_cluster() {
    let servers = Servers::cluster().await;
    let redis = servers.open().await;
    gate_and_queue(&redis).await;
    keys_without_a_lane(&redis).await;
    push(&redis).await;
}
