//! "Order created": to every tab of its buyer and to nobody else, and never before it is true.

use std::time::Duration;

use crate::support::app::{On, TestApp, on_both_databases};
use crate::support::socket::Socket;

on_both_databases!(
    when_order_created_arrives_its_entry_is_acknowledged_and_the_order_can_be_read,
    every_tab_of_the_buyer_hears_it_once_and_nobody_else_does,
    a_socket_that_comes_late_finds_the_order_in_its_snapshot,
);

async fn when_order_created_arrives_its_entry_is_acknowledged_and_the_order_can_be_read(on: On) {
    let app = TestApp::on(on).start().await;
    let voucher = app.sale(30).await;
    for buyer in app.buyers(30).await {
        let (mut socket, snapshot) = Socket::of(&app.base, &buyer.token).await;
        assert_eq!(snapshot["orders"].as_array().unwrap().len(), 0);
        let id = app.admitted(&app.buy(&buyer, voucher).await);
        let message = socket.wait_for("order.created").await;
        assert_eq!(message["order"]["id"], id.to_string());
        assert!(message["serverTime"].as_i64().is_some(), "{message}");
        let pending: (i64, Option<String>, Option<String>, redis::Value) = app.ask("XPENDING stream.orders:{0} g1").await;
        assert_eq!(pending.0, 0, "the entry was still unacknowledged");
        assert_eq!(app.order(&buyer, id).await["status"], "PENDING");
    }
    app.finish().await;
}

async fn every_tab_of_the_buyer_hears_it_once_and_nobody_else_does(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyers) = (app.sale(2).await, app.buyers(2).await);
    let mut tabs = Vec::new();
    for _ in 0..4 {
        tabs.push(Socket::of(&app.base, &buyers[0].token).await.0);
    }
    let (mut stranger, _) = Socket::of(&app.base, &buyers[1].token).await;
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    for tab in &mut tabs {
        assert_eq!(tab.wait_for("order.created").await["order"]["id"], id.to_string());
    }
    for tab in &mut tabs {
        assert!(tab.hears_no("order.created", Duration::from_millis(200)).await, "told twice");
    }
    assert!(stranger.hears_no("order.created", Duration::from_millis(200)).await, "told to a stranger");
    app.finish().await;
}

async fn a_socket_that_comes_late_finds_the_order_in_its_snapshot(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyer) = (app.sale(1).await, app.buyer().await);
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let (_socket, snapshot) = Socket::of(&app.base, &buyer.token).await;
    assert_eq!(snapshot["orders"][0]["id"], id.to_string());
    assert_eq!(snapshot["orders"][0]["status"], "PENDING");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_gets_no_socket_and_no_credentials_close_it() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let cookie = format!("seckill_session={}", buyer.token);
    let host = app.base.trim_start_matches("http://");
    let own = format!("http://{host}");
    for foreign in [
        "https://evil.example",
        "null",
        &format!("http://{}", host.replace("127.0.0.1", "127.0.0.1.evil.example")),
        "http://127.0.0.1:1",
    ] {
        let refused = Socket::open(&app.base, &[("origin", foreign), ("cookie", &cookie)]).await;
        assert_eq!(refused.err(), Some(403), "{foreign}");
    }
    let mut socket = Socket::open(&app.base, &[("origin", &own), ("cookie", &cookie)]).await.ok().unwrap();
    assert_eq!(socket.next().await.unwrap()["type"], "snapshot");
    let mut wrong = Socket::open(&app.base, &[("authorization", "nobody")]).await.ok().unwrap();
    assert_eq!(wrong.next().await.err(), Some(4401));
    let mut first = Socket::open(&app.base, &[]).await.ok().unwrap();
    first.send(&format!(r#"{{"type":"auth","token":"{}"}}"#, buyer.token)).await;
    assert_eq!(first.next().await.unwrap()["type"], "snapshot");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_who_watches_hears_the_opening_and_the_last_unit_and_nothing_of_anybodys_orders() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale_between(1, 1_500, 600_000).await, app.buyer().await);
    let mut visitor = Socket::open(&app.base, &[]).await.ok().unwrap();
    visitor.send(&format!(r#"{{"type":"watch","voucherId":{voucher}}}"#)).await;
    let first = visitor.wait_for("voucher.sale").await;
    assert_eq!((&first["state"], &first["voucherId"]), (&"soon".into(), &voucher.0.into()));
    assert_eq!(visitor.wait_for("voucher.stock").await["stock"], 1);
    while visitor.wait_for("voucher.sale").await["state"] != "open" {} // the opening is pushed
    app.admitted(&app.buy(&buyer, voucher).await);
    let mut heard = Vec::new();
    while !(heard.contains(&String::from("voucher.sale")) && heard.contains(&String::from("voucher.stock"))) {
        let message = visitor.next().await.unwrap();
        match message["type"].as_str().unwrap() {
            "voucher.sale" if message["state"] == "soldOut" => heard.push(String::from("voucher.sale")),
            "voucher.stock" if message["stock"] == 0 => heard.push(String::from("voucher.stock")),
            "voucher.sale" | "voucher.stock" => {}
            other => panic!("a visitor heard {other}"),
        }
    }
    app.finish().await;
}
