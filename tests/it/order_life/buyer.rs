//! What a buyer and an admin see, over HTTP: every action in every state, once and twice.

use serde_json::json;

use super::{PRICE, act, books, pending, press, refund, until, until_order};
use crate::support::app::{On, TestApp, on_both_databases};
use crate::support::socket::Socket;

on_both_databases!(
    a_cancelled_unit_comes_back_once_and_its_buyer_may_buy_again,
    a_paid_order_has_its_code_and_is_seen_paid_on_every_tab,
    a_refund_is_an_admins_alone_sends_the_money_back_once_and_voids_code_and_credits,
    each_button_of_the_sandbox_does_what_it_says,
    pay_and_cancel_work_as_forms_and_say_why_not,
);

async fn a_cancelled_unit_comes_back_once_and_its_buyer_may_buy_again(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(2).await;
    let (buyer, other) = (app.buyer().await, app.buyer().await);
    let id = pending(&app, &buyer, voucher).await;
    let (mut socket, _) = Socket::of(&app.base, &buyer.token).await;

    assert_eq!(act(&app, &other, id, "cancel").await.status, 404, "not his");
    let cancelled = act(&app, &buyer, id, "cancel").await.data();
    assert_eq!(
        (&cancelled["status"], &cancelled["closeReason"], &cancelled["version"]),
        (&json!("CANCELLED"), &json!("USER"), &json!(2))
    );
    let told = socket.wait_for("order.cancelled").await;
    assert_eq!(told["order"]["id"], cancelled["id"]);
    // The unit is back when the answer is read: no wait before he presses again.
    let again = app.admitted(&app.buy(&buyer, voucher).await);
    assert_ne!(again, id);

    let refused = act(&app, &buyer, id, "cancel").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, String::from("WRONG_STATE")));
    assert_eq!(refused.json()["data"]["version"], 2, "nothing changed");
    until(&app, &buyer, again, "PENDING").await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!(sale.stock_left, 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_order_cannot_be_cancelled_or_paid_yet() {
    let app = TestApp::with("--roles", "web").start().await;
    let voucher = app.sale(1).await;
    let buyer = app.buyer().await;
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    for action in ["cancel", "pay"] {
        let answer = act(&app, &buyer, id, action).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (409, String::from("QUEUED")), "{action}");
    }
    app.abandon("nobody saves orders here").await;
}

async fn a_paid_order_has_its_code_and_is_seen_paid_on_every_tab(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(1).await;
    let (buyer, admin) = (app.buyer().await, app.admin().await);
    let id = pending(&app, &buyer, voucher).await;
    let (mut one, _) = Socket::of(&app.base, &buyer.token).await;
    let (mut two, _) = Socket::of(&app.base, &buyer.token).await;

    let first = act(&app, &buyer, id, "pay").await.data();
    let second = act(&app, &buyer, id, "pay").await.data();
    assert_eq!(first, second, "a second click leads to the same payment");
    let back = press(&app, &buyer, id, "approve").await;
    assert_eq!((back.status.as_u16(), back.header("location")), (303, format!("/orders/{id}").as_str()));

    for socket in [&mut one, &mut two] {
        assert_eq!(socket.wait_for("order.paid").await["order"]["status"], "PAID");
    }
    let order = until_order(&app, &buyer, id, |o| o["couponCode"].is_string()).await;
    let code = order["couponCode"].as_str().unwrap();
    assert_eq!(code.len(), 12);
    assert_eq!((&order["status"], &order["version"]), (&json!("PAID"), &json!(3)));
    assert_eq!(order["payments"].as_array().unwrap().len(), 1);
    let pushed = one.wait_for("order.paid").await;
    assert_eq!(pushed["order"]["couponCode"], code, "the code is pushed too");
    let page = app
        .http
        .send(
            http::Method::GET,
            &format!("/orders/{id}"),
            &[("authorization", buyer.token.as_str()), ("accept", "text/html")],
            "",
        )
        .await;
    assert!(page.text().contains("<svg class=\"qr\"") && page.text().contains("data-coupon"), "{}", page.text());

    let me = app.http.get_as(&buyer.token, "/api/user/me").await.data();
    let credits = PRICE / 100;
    if me["credits"] != credits {
        let give_up = tokio::time::Instant::now() + super::PATIENCE;
        while app.http.get_as(&buyer.token, "/api/user/me").await.data()["credits"] != credits {
            assert!(tokio::time::Instant::now() < give_up, "no credits");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
    for action in ["cancel", "pay", "timeout"] {
        let who = if action == "timeout" { &admin } else { &buyer };
        let answer = act(&app, who, id, action).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (409, String::from("WRONG_STATE")), "{action}");
        assert_eq!(answer.json()["data"]["status"], "PAID");
    }
    assert_eq!(books(&app, &admin).await["paid"], PRICE);
    app.finish().await;
}

async fn a_refund_is_an_admins_alone_sends_the_money_back_once_and_voids_code_and_credits(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(2).await;
    let (buyer, other, admin) = (app.buyer().await, app.buyer().await, app.admin().await);
    let (kept, restocked) = (pending(&app, &buyer, voucher).await, pending(&app, &other, voucher).await);
    let unpaid = refund(&app, &admin, kept, true).await;
    assert_eq!((unpaid.status.as_u16(), unpaid.code()), (409, String::from("WRONG_STATE")));
    press(&app, &buyer, kept, "approve").await;
    press(&app, &other, restocked, "approve").await;
    until_order(&app, &buyer, kept, |o| o["couponCode"].is_string()).await;
    until_order(&app, &other, restocked, |o| o["couponCode"].is_string()).await;

    assert_eq!(refund(&app, &buyer, kept, false).await.status, 403);
    for (owner, id, restock) in [(&buyer, kept, false), (&other, restocked, true)] {
        let refunding = refund(&app, &admin, id, restock).await.data();
        assert_eq!((&refunding["status"], &refunding["refund"]), (&json!("REFUNDING"), &json!("DUE")));
        assert!(refunding.get("couponCode").is_none(), "the code is void at once");
        assert_eq!(refund(&app, &admin, id, restock).await.status, 409, "once");
        let refunded = until(&app, owner, id, "REFUNDED").await;
        assert_eq!((&refunded["refund"], &refunded["payments"][0]["state"]), (&json!("DONE"), &json!("REFUNDED")));
        assert!(refunded["refundedAt"].is_string() && refunded.get("couponCode").is_none());
    }
    let books = books(&app, &admin).await;
    assert_eq!((&books["paid"], &books["refunded"]), (&json!(2 * PRICE), &json!(2 * PRICE)));
    app.settled().await;
    // With restock the unit is on sale again and its buyer free; without it neither.
    assert_eq!(app.app.services.store.sale(voucher).await.unwrap().unwrap().stock_left, 1);
    assert_eq!(app.buy(&buyer, voucher).await.code(), "DUPLICATE");
    let again = app.admitted(&app.buy(&other, voucher).await);
    until(&app, &other, again, "PENDING").await;
    let give_up = tokio::time::Instant::now() + super::PATIENCE;
    while app.http.get_as(&buyer.token, "/api/user/me").await.data()["credits"] != 0 {
        assert!(tokio::time::Instant::now() < give_up, "the credits were not taken back");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    app.finish().await;
}

async fn each_button_of_the_sandbox_does_what_it_says(on: On) {
    let app = TestApp::on(on).with("--pay-window", "1500ms").start().await;
    let voucher = app.sale(4).await;
    let admin = app.admin().await;
    let buyers = app.buyers(4).await;
    let mut ids = Vec::new();
    for (buyer, button) in buyers.iter().zip(["decline", "twice", "wrong-amount", "late"]) {
        let id = pending(&app, buyer, voucher).await;
        press(&app, buyer, id, button).await;
        ids.push(id);
    }
    let twice = until(&app, &buyers[1], ids[1], "PAID").await;
    assert_eq!(twice["payments"].as_array().unwrap().len(), 1, "told twice, paid once");
    for i in [0, 2] {
        let closed = until(&app, &buyers[i], ids[i], "CANCELLED").await;
        assert_eq!((&closed["closeReason"], &closed["payments"]), (&json!("TIMEOUT"), &json!([])));
    }
    let late = until_order(&app, &buyers[3], ids[3], |o| o["refund"] == "DONE").await;
    assert_eq!((&late["status"], &late["closeReason"]), (&json!("CANCELLED"), &json!("TIMEOUT")));
    assert_eq!(late["payments"][0]["state"], "REFUNDED");
    assert!(late["paidAt"].is_string() && late["refundedAt"].is_string());
    let books = books(&app, &admin).await;
    assert_eq!((&books["paid"], &books["refunded"]), (&json!(2 * PRICE), &json!(PRICE)));
    assert_eq!(books["entries"].as_array().unwrap().len(), 3);
    assert_eq!(app.http.get_as(&buyers[0].token, "/sandbox-pay/books").await.status, 403);
    let page = app.http.form(None, "/sandbox-pay/pay_nothing", "do=approve").await;
    assert_eq!(page.status, 404);
    app.finish().await;
}

async fn pay_and_cancel_work_as_forms_and_say_why_not(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(1).await;
    let buyer = app.buyer().await;
    let id = pending(&app, &buyer, voucher).await;
    let cookie = format!("seckill_session={}", buyer.token);
    let page = app.http.page(Some(&cookie), &format!("/orders/{id}")).await.text();
    for hook in ["data-action=\"pay\"", "data-action=\"cancel\"", "data-countdown", "data-status=\"PENDING\""] {
        assert!(page.contains(hook), "{hook}: {page}");
    }
    let visitor = app.http.form(None, &format!("/orders/{id}/pay"), "").await;
    assert_eq!(visitor.status, 303);
    assert!(visitor.header("location").starts_with("/login?next="), "{}", visitor.header("location"));

    let to_pay = app.http.form(Some(&cookie), &format!("/orders/{id}/pay"), "").await;
    assert_eq!(to_pay.status, 303);
    assert!(to_pay.header("location").starts_with("/sandbox-pay/"), "{}", to_pay.header("location"));
    let cancelled = app.http.form(Some(&cookie), &format!("/orders/{id}/cancel"), "").await;
    assert_eq!((cancelled.status.as_u16(), cancelled.header("location")), (303, format!("/orders/{id}").as_str()));
    for action in ["pay", "cancel"] {
        let refused = app.http.form(Some(&cookie), &format!("/orders/{id}/{action}"), "").await;
        assert_eq!(refused.status, 409);
        assert!(refused.text().contains("role=\"alert\"") && refused.text().contains("data-status=\"CANCELLED\""));
    }
    app.finish().await;
}
