//! An order's whole life: pay, cancel, time out, refund. Each unit comes back exactly once, and no money is kept for nothing.

mod browser;
mod buyer;
#[cfg(feature = "fault-injection")]
mod cluster;
mod crash;
mod due;
mod follow_ups;
#[cfg(feature = "fault-injection")]
mod mutants;
mod notices;
mod options;
mod pairs;
mod races;
mod random;

use std::time::Duration;

use http::Method;
use seckill::clock::Clock;
use seckill::domain::ids::{OrderId, VoucherId};
use seckill::payment_provider::signature::SigningKeys;
use serde_json::{Value, json};

use crate::support::app::{Buyer, TestApp};
use crate::support::http::{Answer, Http};

/// The secret that these shops are given.
const SECRET: &str = "whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=";

/// What one unit costs, in fen.
const PRICE: i64 = 4900;

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(20);

fn keys() -> SigningKeys {
    SECRET.parse().unwrap()
}

/// A measured figure, for whoever runs these tests with `--nocapture`.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn figure(text: &str) {
    println!("{text}");
}

/// Body of a notice that money came.
fn paid(order: OrderId, transaction: &str, amount: i64) -> String {
    json!({"type": "payment.succeeded", "data": {"orderId": order, "transactionId": transaction, "amount": amount}}).to_string()
}

/// Sends a notice as the provider does: signed now.
async fn notify(http: &Http, clock: &Clock, id: &str, body: &str) -> Answer {
    let seconds = clock.now().0 / 1000;
    let signature = keys().sign(id, seconds, body.as_bytes());
    send_notice(http, id, &seconds.to_string(), &signature, body).await
}

/// Sends a notice with these very headers.
async fn send_notice(http: &Http, id: &str, timestamp: &str, signature: &str, body: &str) -> Answer {
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ];
    http.send(Method::POST, "/api/payment/callback", &headers, body.to_owned()).await
}

/// Buys one unit and waits until the order is saved.
async fn pending(app: &TestApp, buyer: &Buyer, voucher: VoucherId) -> OrderId {
    let id = app.admitted(&app.buy(buyer, voucher).await);
    until(app, buyer, id, "PENDING").await;
    id
}

/// Waits until the order has this status and answers it.
async fn until(app: &TestApp, buyer: &Buyer, id: OrderId, status: &str) -> Value {
    until_order(app, buyer, id, |order| order["status"] == status).await
}

/// Waits until the order is as wanted and answers it.
async fn until_order(app: &TestApp, buyer: &Buyer, id: OrderId, wanted: impl Fn(&Value) -> bool) -> Value {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = app.http.get_as(&buyer.token, &format!("/api/voucher-order/{id}")).await;
        let order = answer.json()["data"].clone();
        if answer.status == 200 && wanted(&order) {
            return order;
        }
        assert!(tokio::time::Instant::now() < give_up, "order {id} still reads {}", answer.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A call on an order by its path's last word.
async fn act(app: &TestApp, who: &Buyer, id: OrderId, what: &str) -> Answer {
    app.http.post_as(&who.token, &format!("/api/voucher-order/{id}/{what}")).await
}

/// An admin's refund.
async fn refund(app: &TestApp, admin: &Buyer, id: OrderId, restock: bool) -> Answer {
    app.http.json(Some(&admin.token), &format!("/api/voucher-order/{id}/refund"), &json!({"restock": restock})).await
}

/// Goes to the sandbox's page and presses one of its buttons.
async fn press(app: &TestApp, buyer: &Buyer, id: OrderId, button: &str) -> Answer {
    let pay_url = act(app, buyer, id, "pay").await.data()["payUrl"].as_str().unwrap().to_owned();
    let page = pay_url.strip_prefix(&app.base).unwrap_or_else(|| panic!("{pay_url} is not on {}", app.base));
    assert_eq!(app.http.page(None, page).await.status, 200);
    app.http.form(None, page, &format!("do={button}")).await
}

/// `{paid, refunded, entries}` of the sandbox.
async fn books(app: &TestApp, admin: &Buyer) -> Value {
    let answer = app.http.get_as(&admin.token, "/sandbox-pay/books").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What each payment of an order has come to, oldest first.
fn payments(order: &Value) -> Vec<String> {
    let words = order["payments"].as_array().unwrap().iter();
    words.map(|p| format!("{} {} {}", p["transactionId"].as_str().unwrap(), p["amount"], p["state"].as_str().unwrap())).collect()
}

/// Saves orders in this test, for shops without a worker.
fn consume(app: &TestApp, shutdown: &seckill::shutdown::Shutdown) {
    let services = &app.app.services;
    let consumer = seckill::worker::consumer::Consumer {
        reader: services.queue.reader(seckill::domain::ids::Lane(0)),
        queue: services.queue.clone(),
        place: services.place.clone(),
        pace: seckill::worker::pace::Pace::new(services.queue.clone(), None, 1, shutdown.clone()),
        bus: services.bus.clone(),
        wakes: services.money.wakes.clone(),
        shutdown: shutdown.clone(),
    };
    shutdown.spawn(consumer.run());
}

/// Money that the sandbox took under a name of the test's choice, without a word to the shop.
async fn take_money(app: &TestApp, order: OrderId, transaction: &str) {
    let mut tx = app.app.services.store.begin().await.unwrap();
    put_money(&mut tx, &app.clock, order, transaction, PRICE).await;
    tx.commit().await.unwrap();
}

async fn put_money(tx: &mut seckill::store::Tx, clock: &Clock, order: OrderId, transaction: &str, amount: i64) {
    let entry = seckill::store::SandboxEntry {
        way: seckill::store::Way::Paid,
        key: transaction.to_owned(),
        transaction: transaction.to_owned(),
        order,
        amount: seckill::domain::money::Fen(amount),
        at: clock.now(),
    };
    tx.put_sandbox_entry(&entry).await.unwrap();
}
