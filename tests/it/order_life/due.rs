//! Orders that were not paid in time: by whom, how soon, and after what they are closed.

use std::time::Duration;

use seckill::domain::order::Status;
use seckill::store::NewOrder;
use serde_json::json;

use super::{act, pending, until};
use crate::support::app::{On, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn the_process_stopped_over_the_deadline_and_the_next_one_closes_the_orders() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).start().await;
        let voucher = app.sale(20).await;
        let buyers = app.buyers(20).await;
        for buyer in &buyers {
            pending(&app, buyer, voucher).await;
        }
        let app = app.restart_later(Duration::from_mins(20)).await;
        let started = tokio::time::Instant::now();
        loop {
            let left = app.app.services.store.sale(voucher).await.unwrap().unwrap().stock_left;
            if left == 20 {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(2), "only {left} units are back");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        app.settled().await;
        assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(20)]);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_and_only_a_due_order_is_timed_out_by_hand() {
    let app = TestApp::with("--roles", "web").start().await;
    let voucher = app.sale(1).await;
    let (buyer, admin) = (app.buyer().await, app.admin().await);
    let shutdown = seckill::shutdown::Shutdown::default();
    super::consume(&app, &shutdown);
    let id = pending(&app, &buyer, voucher).await;
    assert_eq!(act(&app, &buyer, id, "timeout").await.status, 403);
    let early = act(&app, &admin, id, "timeout").await;
    assert_eq!((early.status.as_u16(), early.code()), (409, String::from("WRONG_STATE")));
    app.clock.advance(Duration::from_mins(15) + Duration::from_secs(1));
    let closed = act(&app, &admin, id, "timeout").await.data();
    assert_eq!((&closed["status"], &closed["closeReason"]), (&json!("CANCELLED"), &json!("TIMEOUT")));
    assert_eq!(act(&app, &admin, id, "timeout").await.status, 409);
    shutdown.begin();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_buyers_forty_do_not_pay_and_their_units_are_sold_again() {
    let app = TestApp::start().await;
    let voucher = app.sale(100).await;
    let (buyers, next) = (app.buyers(100).await, app.buyers(50).await);
    let mut ids = Vec::new();
    for buyer in &buyers {
        ids.push(app.admitted(&app.buy(buyer, voucher).await));
    }
    for (buyer, id) in buyers.iter().zip(&ids).take(60) {
        until(&app, buyer, *id, "PENDING").await;
        super::press(&app, buyer, *id, "approve").await;
        until(&app, buyer, *id, "PAID").await;
    }
    until(&app, &buyers[99], ids[99], "PENDING").await;
    assert_eq!(app.buy(&next[0], voucher).await.code(), "SOLD_OUT");
    app.clock.advance(Duration::from_mins(15) + Duration::from_millis(100));
    for (buyer, id) in buyers.iter().zip(&ids).skip(60) {
        until(&app, buyer, *id, "CANCELLED").await;
    }
    app.settled().await;
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(40)]);
    let mut sold = 0;
    for buyer in &next {
        sold += usize::from(app.buy(buyer, voucher).await.json()["success"] == true);
    }
    assert_eq!(sold, 40, "exactly the units that came back");
    app.finish().await;
}

/// Orders without a gate: only SQL knows them.
async fn open_orders(app: &TestApp, count: u64, first_due: Duration, rest_due: Duration) -> seckill::domain::ids::VoucherId {
    let services = &app.app.services;
    let voucher = app.sale(i64::try_from(count).unwrap() + 10).await;
    let now = app.clock.now();
    let mut tx = services.store.begin().await.unwrap();
    let users = tx.insert_users_bulk(19_000_000_000, count, now).await.unwrap();
    let epoch = tx.sale_epoch_and_left(voucher).await.unwrap().unwrap().0;
    let order = |(n, user): (u32, seckill::domain::ids::UserId)| NewOrder {
        id: seckill::domain::ids::OrderId::new(now, n),
        user,
        voucher,
        epoch,
        admitted_at: now,
        pay_amount: seckill::domain::money::Fen(super::PRICE),
        created_at: now,
        pay_before: now + if n == 1 { first_due } else { rest_due },
    };
    let orders: Vec<NewOrder> = (1..).zip(users).map(order).collect();
    let saved = tx.insert_pending(&orders).await.unwrap();
    assert!(tx.take_units(voucher, epoch, i64::try_from(saved.len()).unwrap()).await.unwrap());
    tx.commit().await.unwrap();
    voucher
}

#[tokio::test(flavor = "multi_thread")]
async fn among_a_hundred_thousand_open_orders_the_due_one_is_closed_at_once() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).start().await;
        let voucher = open_orders(&app, 100_000, Duration::from_mins(30), Duration::from_hours(1)).await;
        let store = &app.app.services.store;
        let due = store.next_deadline().await.unwrap().unwrap();
        let first = store.due_orders(due, 1).await.unwrap()[0];
        app.clock.advance(app.clock.now().until(due));
        let begun = std::time::Instant::now();
        // The figure is printed, not asserted: a machine that runs all tests at once may be slow. Half a minute is the time
        // after which a worker that missed its deadline would look again by itself.
        while store.order(first).await.unwrap().unwrap().status != Status::Cancelled {
            assert!(begun.elapsed() < Duration::from_secs(20), "the worker sleeps through a deadline");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let late = begun.elapsed();
        super::figure(&format!("{on:?}: closed {late:?} after its deadline, among 100,000 open orders"));
        let order = store.order(first).await.unwrap().unwrap();
        assert!(order.closed_at.unwrap() >= due);
        assert_eq!(store.live_orders_of(voucher).await.unwrap().len(), 99_999, "and no other");
        app.abandon("orders that no gate knows").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_overdue_orders_do_not_stop_buying() {
    let app = TestApp::start().await;
    open_orders(&app, 5_000, Duration::from_mins(10), Duration::from_mins(10)).await;
    let (voucher, buyers) = (app.sale(50).await, app.buyers(50).await);
    app.clock.advance(Duration::from_mins(11));
    let store = &app.app.services.store;
    let started = tokio::time::Instant::now();
    let mut slowest = Duration::ZERO;
    for buyer in &buyers {
        let clicked = tokio::time::Instant::now();
        app.admitted(&app.buy(buyer, voucher).await);
        slowest = slowest.max(clicked.elapsed());
    }
    while !store.due_orders(app.clock.now(), 1).await.unwrap().is_empty() {
        assert!(started.elapsed() < Duration::from_mins(1), "overdue orders are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    super::figure(&format!("5,000 overdue orders closed in {:?}; the slowest of 50 clicks took {slowest:?}", started.elapsed()));
    assert!(slowest < Duration::from_secs(1));
    app.abandon("orders that no gate knows").await;
}
