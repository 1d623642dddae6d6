//! What follows a payment goes its own way: trouble with one thing delays no other, and Redis away loses nothing.

use std::time::Duration;

use seckill::store::RELEASE;
use serde_json::json;

use super::{PRICE, act, pending, press, until, until_order};
use crate::support::app::{On, TestApp, on_both_databases};
use crate::support::redis::TestRedis;
use crate::support::socket::Socket;

on_both_databases!(
    while_credits_fail_orders_pushes_and_coupons_are_not_late,
    a_hundred_cancels_while_redis_is_down_are_applied_within_ten_seconds_of_its_return,
);

async fn while_credits_fail_orders_pushes_and_coupons_are_not_late(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(3).await;
    let buyers = app.buyers(3).await;
    let mut hand = app.sql().await;
    hand.refuse_updates("users", "credits").await;
    for buyer in &buyers {
        let id = pending(&app, buyer, voucher).await;
        let (mut socket, _) = Socket::of(&app.base, &buyer.token).await;
        press(&app, buyer, id, "approve").await;
        let paid = tokio::time::Instant::now();
        socket.wait_for("order.paid").await;
        until_order(&app, buyer, id, |o| o["couponCode"].is_string()).await;
        assert!(paid.elapsed() < Duration::from_secs(2), "late: {:?}", paid.elapsed());
    }
    let store = &app.app.services.store;
    assert_eq!((store.open_outbox_count("credits").await.unwrap(), store.open_outbox_count("coupon").await.unwrap()), (3, 0));
    hand.allow_updates("users").await;
    let give_up = tokio::time::Instant::now() + super::PATIENCE;
    for buyer in &buyers {
        while app.http.get_as(&buyer.token, "/api/user/me").await.data()["credits"] != PRICE / 100 {
            assert!(tokio::time::Instant::now() < give_up, "no credits after the trouble was over");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    app.finish().await;
}

async fn a_hundred_cancels_while_redis_is_down_are_applied_within_ten_seconds_of_its_return(on: On) {
    let mut redis = TestRedis::start().await;
    let app = TestApp::on(on).with("--redis-url", &redis.url()).start().await;
    let voucher = app.sale(150).await;
    let buyers = app.buyers(100).await;
    let mut ids = Vec::new();
    for buyer in &buyers {
        ids.push(app.admitted(&app.buy(buyer, voucher).await));
    }
    for (buyer, id) in buyers.iter().zip(&ids) {
        until(&app, buyer, *id, "PENDING").await;
    }
    redis.kill();
    let mut slowest = Duration::ZERO;
    for (buyer, id) in buyers.iter().zip(&ids) {
        let clicked = tokio::time::Instant::now();
        assert_eq!(act(&app, buyer, *id, "cancel").await.data()["status"], json!("CANCELLED"));
        slowest = slowest.max(clicked.elapsed());
    }
    let store = &app.app.services.store;
    assert_eq!(store.open_outbox_count(RELEASE).await.unwrap(), 100);
    redis.start_again().await;
    let back = tokio::time::Instant::now();
    while store.open_outbox_count(RELEASE).await.unwrap() > 0 {
        assert!(back.elapsed() < Duration::from_secs(10), "releases are left after ten seconds");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    super::figure(&format!(
        "100 cancels with Redis down, the slowest in {slowest:?}; applied {:?} after its return",
        back.elapsed()
    ));
    let give_up = tokio::time::Instant::now() + super::PATIENCE;
    while app.app.services.gate.stocks(&[voucher]).await.ok() != Some(vec![Some(150)]) {
        assert!(tokio::time::Instant::now() < give_up, "the units are not back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    app.finish().await;
}
