//! Work is shared: lanes are drained side by side, and transactions that meet never stop each other for good.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use seckill::clock::Clock;
use seckill::domain::ids::{Lane, OrderId, UserId, VoucherId};
use seckill::domain::time::Millis;
use seckill::queue::{Delivery, Entry, StreamId};
use seckill::service::place_orders::{PlaceOrders, Placed};
use seckill::shutdown::Shutdown;
use seckill::store::Store;
use sqlx::{Connection, PgConnection};

use super::figure;
use crate::support::app::{On, TestApp};
use crate::support::postgres::{fresh_database, slowed};
use crate::support::redis::TestRedis;
use crate::support::sql::Sql;
use crate::support::{long, until};

/// Orders of each of the two sales.
const ORDERS: i64 = 4000;

/// Admits two sales' worth of orders into so many lanes, the database slowed; how long it takes until all are saved.
async fn saved_through(lanes: &str) -> Duration {
    let tasks = Shutdown::default();
    let (redis, database) = (TestRedis::start().await, fresh_database().await);
    let (slow, delay_ms) = slowed(&database, &tasks).await;
    let app = TestApp::with("--redis-url", &redis.url())
        .with("--database-url", &slow)
        .with("--lanes", lanes)
        .with("--backlog", "100000")
        .start()
        .await;
    let services = &app.app.services;
    let sales = [app.sale(ORDERS).await, app.sale(ORDERS).await];
    assert_ne!(sales[0].0 % 2, sales[1].0 % 2, "with two lanes one in each");
    let mut tx = services.store.begin().await.unwrap();
    let users = tx.insert_users_bulk(19_500_000_000, u64::try_from(ORDERS).unwrap(), app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();

    delay_ms.store(100, Ordering::SeqCst);
    let started = Instant::now();
    for some in users.chunks(256) {
        for sale in sales {
            let buyers: Vec<_> = some.iter().map(|user| (*user, services.ids.next().unwrap())).collect();
            services.gate.admit(sale, 1, 100_000, &buyers).await.unwrap();
        }
    }
    let mut outside = PgConnection::connect(&database).await.unwrap();
    until("all are saved", Duration::from_mins(2), async || {
        let saved: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM orders").fetch_one(&mut outside).await.unwrap();
        saved == 2 * ORDERS
    })
    .await;
    let took = started.elapsed();
    delay_ms.store(0, Ordering::SeqCst);
    app.finish().await;
    tasks.begin();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_lanes_are_saved_much_faster_than_one_when_every_answer_of_the_database_takes_its_time() {
    // A crowded machine may spoil one measurement; the best of a few is what the program can do.
    let mut best = 0.0_f64;
    for _ in 0..3 {
        let (one, two) = (saved_through("1").await, saved_through("2").await);
        best = best.max(one.as_secs_f64() / two.as_secs_f64());
        figure(&format!("one lane {one:?}, two lanes {two:?}"));
        if best >= 1.6 {
            return;
        }
    }
    panic!("two lanes were only {best:.2} times as fast as one");
}

/// An entry as a reader delivers it.
fn delivery(n: i64, user: UserId, voucher: VoucherId) -> Delivery {
    let entry = Entry { order: OrderId(n), user, voucher, epoch: 1, admitted_at: Millis(1) };
    Delivery { stream_id: StreamId { ms: n.unsigned_abs(), seq: 0 }, deliveries: 1, entry: Ok(entry) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_consumers_with_interleaved_vouchers_and_two_expirers_never_deadlock() {
    let app = TestApp::on(On::Postgres).with("--pay-window", "1ms").with("--roles", "web").start().await;
    let url = app.data_options().into_iter().find(|option| option.starts_with("postgres://")).unwrap();
    let sales = [app.sale(100_000).await, app.sale(100_000).await, app.sale(100_000).await];
    let mut tx = app.app.services.store.begin().await.unwrap();
    let users = tx.insert_users_bulk(19_500_000_000, 300, app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let rounds = if long() { 200 } else { 30 };

    // Each saves batches whose vouchers come in another order than the other's, of the same buyers, on its own connections.
    let place = async |which: i64| {
        let place = PlaceOrders::new(Store::open(&url).await.unwrap(), Clock::default(), Duration::from_millis(1));
        for round in 0..rounds {
            let mut batch: Vec<Delivery> = (0..120_usize)
                .map(|i| {
                    let n = 1_000_000 * (which + 1) + round * 1000 + i64::try_from(i).unwrap();
                    delivery(n, users[(i * 7) % 300], sales[i % 3])
                })
                .collect();
            if which == 1 {
                batch.reverse();
            }
            let mut placed = Placed::default();
            place.place(Lane(0), &batch, &mut placed).await.unwrap();
            assert_eq!(placed.settled.len(), 120);
        }
    };
    let expire = async || {
        for _ in 0..rounds * 2 {
            app.app.services.money.cancels.close_due(50).await.unwrap();
        }
    };
    tokio::join!(Box::pin(place(0)), Box::pin(place(1)), Box::pin(expire()), Box::pin(expire()));

    // The counter counts: two rows, locked by two transactions in opposite orders, make one deadlock, and it is the only one.
    let (mut one, mut two) = (PgConnection::connect(&url).await.unwrap(), PgConnection::connect(&url).await.unwrap());
    let lock = "UPDATE flash_sale SET version = version + 1 WHERE voucher_id = $1";
    for connection in [&mut one, &mut two] {
        sqlx::query("BEGIN").execute(&mut *connection).await.unwrap();
    }
    sqlx::query(lock).bind(sales[0].0).execute(&mut one).await.unwrap();
    sqlx::query(lock).bind(sales[1].0).execute(&mut two).await.unwrap();
    let (a, b) =
        tokio::join!(sqlx::query(lock).bind(sales[1].0).execute(&mut one), sqlx::query(lock).bind(sales[0].0).execute(&mut two));
    assert!(a.is_err() != b.is_err(), "one of the two gives way");
    for connection in [&mut one, &mut two] {
        sqlx::query("ROLLBACK").execute(&mut *connection).await.unwrap();
    }
    drop((one, two));
    let mut outside = Sql::open(&url).await;
    let mut seen = 0_i64;
    until("the server tells of the deadlock", Duration::from_secs(20), async || {
        seen = outside.deadlocks().await;
        seen > 0
    })
    .await;
    assert_eq!(seen, 1, "only the one that was made");
    app.abandon("orders were saved past the gate, which knows nothing of them").await;
}
