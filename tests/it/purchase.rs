//! A click and its answer: who is admitted, who is refused and why, and what a refusal leaves untouched.

use std::collections::HashSet;

use futures_util::future::join_all;
use seckill::domain::ids::VoucherId;
use serde_json::Value;

use crate::support::app::{On, TestApp, on_both_databases};

on_both_databases!(
    sixty_four_clicks_of_one_user_make_one_order_and_all_hear_its_id,
    clicks_outside_the_window_are_refused_and_leave_no_trace,
    a_winner_hears_his_order_also_when_the_sale_is_sold_out,
    nobody_reads_the_order_of_somebody_else,
);

/// The order as it reads once it is saved.
async fn saved(app: &TestApp, buyer: &crate::support::app::Buyer, id: seckill::domain::ids::OrderId) -> Value {
    app.settled().await;
    app.order(buyer, id).await
}

async fn a_click_becomes_an_order(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyer) = (app.sale(5).await, app.buyer().await);
    let answer = app.buy(&buyer, voucher).await;
    let id = app.admitted(&answer);
    assert!(answer.json()["ticket"].as_str().is_some_and(|t| !t.is_empty()), "{}", answer.text());
    let order = saved(&app, &buyer, id).await;
    assert_eq!(order["status"], "PENDING");
    assert_eq!(order["id"], id.to_string(), "an id outside is a decimal string");
    assert_eq!(order["payAmount"], 4900);
    assert_eq!(order["version"], 1);
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.stock_total, sale.stock_left), (5, 4));
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(4)]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_becomes_an_order_on_sqlite() {
    a_click_becomes_an_order(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_becomes_an_order_on_postgres() {
    a_click_becomes_an_order(On::Postgres).await;
}

async fn sixty_four_clicks_of_one_user_make_one_order_and_all_hear_its_id(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyer) = (app.sale(100).await, app.buyer().await);
    let answers = join_all((0..64).map(|_| app.buy(&buyer, voucher))).await;
    let ids: HashSet<String> = answers.iter().map(|a| a.json()["data"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let won = answers.iter().filter(|a| a.json()["success"] == true).count();
    assert_eq!(won, 1);
    assert!(answers.iter().filter(|a| a.json()["success"] == false).all(|a| a.code() == "DUPLICATE" && a.status == 200));
    app.settled().await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!(sale.stock_left, 99);
    // The database enforces it on its own: a second live order for the pair cannot be written.
    let order = app.app.services.store.live_order_of(buyer.id, voucher).await.unwrap().unwrap();
    let mut tx = app.app.services.store.begin().await.unwrap();
    let second = seckill::store::NewOrder {
        id: seckill::domain::ids::OrderId(order.id.0 + 1),
        user: buyer.id,
        voucher,
        epoch: order.epoch,
        admitted_at: order.created_at,
        pay_amount: order.pay_amount,
        created_at: order.created_at,
        pay_before: order.created_at,
    };
    assert_eq!(tx.insert_pending(&[second]).await.unwrap(), [], "a hand-made second insert must not go in");
    drop(tx);
    app.finish().await;
}

async fn clicks_outside_the_window_are_refused_and_leave_no_trace(on: On) {
    let app = TestApp::on(on).start().await;
    let soon = app.sale_between(5, 60_000, 120_000).await;
    let over = app.sale_between(5, -120_000, -60_000).await;
    let plain = app.app.services.sales.create_voucher(None, None, &app.voucher("普通券")).await.unwrap();
    app.app.services.index.refresh().await.unwrap();
    let buyers = app.buyers(20).await;
    let before = app.app.services.gate.snapshot(soon).await.unwrap();
    for buyer in &buyers {
        let early = app.buy(buyer, soon).await;
        assert_eq!((early.status.as_u16(), early.code().as_str()), (200, "NOT_BEGUN"));
        let data = &early.json()["data"];
        assert!(data["beginTime"].as_str().unwrap().ends_with('Z') && data["serverTime"].as_str().is_some(), "{data}");
        let late = app.buy(buyer, over).await;
        assert_eq!((late.status.as_u16(), late.code().as_str()), (200, "ENDED"));
        for unknown in [VoucherId(999_999), plain] {
            let none = app.buy(buyer, unknown).await;
            assert_eq!((none.status.as_u16(), none.code().as_str()), (404, "NOT_FOUND"));
        }
    }
    let after = app.app.services.gate.snapshot(soon).await.unwrap();
    assert_eq!((after.stock, after.holders), (before.stock, before.holders));
    let none = app.app.services.gate.snapshot(VoucherId(999_999)).await.unwrap();
    assert!(none.sale.is_none() && none.stock.is_none() && none.holders == 0, "no key for an unknown voucher");
    assert_eq!(app.app.services.queue.depth(seckill::domain::ids::Lane(0)).await.unwrap().entries_added, 0);
    app.finish().await;
}

async fn a_winner_hears_his_order_also_when_the_sale_is_sold_out(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyers) = (app.sale(1).await, app.buyers(2).await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    let refused = app.buy(&buyers[1], voucher).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (200, "SOLD_OUT"));
    assert_eq!(refused.json()["errorMsg"], "库存不足");
    let again = app.buy(&buyers[0], voucher).await;
    assert_eq!(again.code(), "DUPLICATE");
    assert_eq!(again.json()["errorMsg"], "不能重复下单");
    assert_eq!(again.json()["data"], id.to_string());
    let ticket = again.json()["ticket"].as_str().unwrap().to_owned();
    app.settled().await;
    // The ticket alone opens that one order, and no other.
    let order = app.http.get(&format!("/api/voucher-order/{id}?ticket={ticket}")).await;
    assert_eq!(order.data()["status"], "PENDING");
    let other = app.http.get(&format!("/api/voucher-order/{}?ticket={ticket}", id.0 + 1)).await;
    assert!(other.status == 401 || other.status == 404, "{}", other.status);
    app.finish().await;
}

async fn nobody_reads_the_order_of_somebody_else(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyers, admin) = (app.sale(2).await, app.buyers(2).await, app.admin().await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;
    let path = format!("/api/voucher-order/{id}");
    let missing = app.http.get_as(&buyers[1].token, "/api/voucher-order/123456789").await;
    let foreign = app.http.get_as(&buyers[1].token, &path).await;
    assert_eq!((foreign.status, foreign.body), (missing.status, missing.body), "not yours reads like not there");
    assert_eq!(app.http.get(&path).await.status, 404, "a visitor learns nothing either");
    assert_eq!(app.http.get_as(&admin.token, &path).await.data()["id"], id.to_string());
    let listed = app.http.get_as(&buyers[1].token, "/api/voucher-order").await.data();
    assert_eq!(listed["items"].as_array().unwrap().len(), 0);
    let mine = app.http.get_as(&buyers[0].token, "/api/voucher-order").await.data();
    assert_eq!(mine["items"][0]["id"], id.to_string());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_ids_in_a_path_are_refused_before_anything_is_asked() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    for bad in ["0", "-1", "+1", "01", "1e3", "%EF%BC%91", "9223372036854775808", "99999999999999999999", "abc", "1%20"] {
        let answer = app.http.post_as(&buyer.token, &format!("/api/voucher-order/seckill/{bad}")).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (400, "MALFORMED"), "{bad}");
        let page = app.http.page(None, &format!("/shop/{bad}")).await;
        assert_eq!(page.status, 404, "{bad}");
    }
    app.finish().await;
}
