//! Dead at any step of cancel, outbox, notice and refund, started again: done exactly once on both sides.

use std::time::Duration;

use http::Method;
use serde_json::Value;

use crate::support::app::On;
use crate::support::http::Http;
use crate::support::long;
use crate::support::process::Process;
use crate::support::shop::Shop;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server of `shop` that dies when it comes to `step`.
async fn serve_to(shop: &Shop, step: &str) -> Process {
    let mut command = shop.command(&["--rate-limit", "off"]).await;
    command.env("SECKILL_FAULT", step).stderr(std::process::Stdio::null());
    Process::start_quietly(command).await
}

async fn order(http: &Http, token: &str, id: &str) -> Value {
    http.get_as(token, &format!("/api/voucher-order/{id}")).await.json()["data"].clone()
}

async fn until(http: &Http, token: &str, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    loop {
        let order = order(http, token, id).await;
        if wanted(&order) {
            return order;
        }
        assert!(tokio::time::Instant::now() < give_up, "order {id} still reads {order}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn post(http: &Http, token: &str, path: &str) -> Result<Value, String> {
    http.try_send(Method::POST, path, &[("authorization", token)], "").await.map(|answer| answer.json())
}

/// Presses "pay" on the sandbox's page; the answer may never come.
async fn approve(http: &Http, token: &str, id: &str) {
    let started = post(http, token, &format!("/api/voucher-order/{id}/pay")).await.unwrap();
    let page = started["data"]["payUrl"].as_str().unwrap();
    let path = &page[page.find("/sandbox-pay/").unwrap()..];
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let _may_die = http.try_send(Method::POST, path, &headers, "do=approve").await;
}

/// What a step belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Story {
    Cancel,
    Notice,
    Refund,
}

async fn dies_at(step: &str, story: Story) {
    // The chosen database, and Postgres in any case.
    for on in [On::chosen(), On::Postgres] {
        dies_on(on, step, story).await;
    }
}

async fn dies_on(on: On, step: &str, story: Story) {
    let rounds = if long() { 20 } else { 1 };
    let mut shop = Shop::on(on, &[]).await;
    let mut server = shop.serve(&[]).await;
    shop.seed(rounds).await;
    let voucher = shop.sale(&server.http, i64::try_from(rounds).unwrap()).await;
    let admin = shop.admin(&server.http).await;
    assert_eq!(server.terminate().await, 0);

    for buyer in shop.buyers.clone() {
        let mut server = serve_to(&shop, step).await;
        let http = server.http.clone();
        let bought = post(&http, &buyer, &format!("/api/voucher-order/seckill/{voucher}")).await.unwrap();
        let id = bought["data"].as_str().unwrap().to_owned();
        until(&http, &buyer, &id, |o| o["status"] == "PENDING").await;
        match story {
            Story::Cancel => drop(post(&http, &buyer, &format!("/api/voucher-order/{id}/cancel")).await),
            Story::Notice => approve(&http, &buyer, &id).await,
            Story::Refund => {
                approve(&http, &buyer, &id).await;
                until(&http, &buyer, &id, |o| o["couponCode"].is_string()).await;
                let _may_die = post(&http, &admin, &format!("/api/voucher-order/{id}/refund")).await;
            }
        }
        let status = tokio::time::timeout(PATIENCE, server.child.wait()).await.expect("it did not die").unwrap();
        assert!(!status.success(), "it died at {step}");

        let mut server = shop.serve(&[]).await;
        let http = server.http.clone();
        if step == "cancel-before-commit" {
            assert_eq!(order(&http, &buyer, &id).await["status"], "PENDING", "not committed, so it did not happen");
            assert_eq!(
                post(&http, &buyer, &format!("/api/voucher-order/{id}/cancel")).await.unwrap()["data"]["status"],
                "CANCELLED"
            );
        }
        let wanted = match story {
            Story::Cancel => "CANCELLED",
            Story::Notice => "PAID",
            Story::Refund => "REFUNDED",
        };
        let end =
            until(&http, &buyer, &id, |o| o["status"] == wanted && (story != Story::Notice || o["couponCode"].is_string())).await;
        assert_eq!(end["payments"].as_array().unwrap().len(), usize::from(story != Story::Cancel), "{end}");
        settled(&shop).await;
        shop.audited().await;
        assert_eq!(server.terminate().await, 0);
    }

    let (n, price) = (i64::try_from(rounds).unwrap(), super::PRICE);
    let back = if story == Story::Cancel { n } else { 0 };
    assert_eq!(shop.count("SELECT stock_left FROM flash_sale").await, back, "each unit came back once");
    let sums = [
        shop.count("SELECT COALESCE(SUM(amount), 0) FROM sandbox_entry WHERE kind = 'paid'").await,
        shop.count("SELECT COALESCE(SUM(amount), 0) FROM sandbox_entry WHERE kind = 'refunded'").await,
        shop.count("SELECT COALESCE(SUM(credits), 0) FROM users").await,
    ];
    let expected = match story {
        Story::Cancel => [0, 0, 0],
        Story::Notice => [n * price, 0, n * (price / 100)],
        Story::Refund => [n * price, n * price, 0],
    };
    assert_eq!(sums, expected, "money taken, money sent back, credits");
    super::figure(&format!("{step}: {rounds} deaths, each thing done once on both sides"));
}

/// Waits until no outbox row and no notice is open.
async fn settled(shop: &Shop) {
    let give_up = tokio::time::Instant::now() + PATIENCE;
    loop {
        let open = shop.count("SELECT COUNT(*) FROM outbox WHERE done_at IS NULL").await
            + shop.count("SELECT COUNT(*) FROM sandbox_letter WHERE done_at IS NULL").await;
        if open == 0 {
            return;
        }
        assert!(tokio::time::Instant::now() < give_up, "{open} rows are open");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_before_the_commit_of_a_cancel() {
    dies_at("cancel-before-commit", Story::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_after_the_commit_of_a_cancel() {
    dies_at("cancel-after-commit", Story::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_between_the_gate_and_the_outbox() {
    dies_at("outbox-after-apply", Story::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_after_the_commit_of_a_notice() {
    dies_at("callback-after-commit", Story::Notice).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_between_the_providers_answer_and_our_books() {
    dies_at("refund-after-call", Story::Refund).await;
}
