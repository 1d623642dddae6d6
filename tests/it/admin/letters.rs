//! Dead letters decided by hand: retry, discard, a rebuild in between, all at once; and what a retry without its guards does.

use seckill::domain::ids::{OrderId, VoucherId};
use seckill::fault;
use seckill::service::place_orders::buried_entry;
use seckill::store::DeadLetter;
use serde_json::{Value, json};

use super::{last_line, sale};
use crate::support::app::{Buyer, On, TestApp};
use crate::support::http::Answer;
use crate::support::socket::Socket;

/// A shop whose entries nobody saves, so that a test can put them aside.
async fn shop(on: On) -> TestApp {
    TestApp::on(on).with("--roles", "web").start().await
}

/// A buyer's entry, put aside as the worker does it: the letter's number, and the order.
async fn buried(app: &TestApp, buyer: &Buyer, voucher: VoucherId) -> (i64, OrderId) {
    let order = app.admitted(&app.buy_for_sure(buyer, voucher).await);
    let lane = seckill::domain::ids::Lane(0);
    let entries = app.app.services.queue.entries(lane).await.unwrap();
    let delivery = entries.into_iter().find(|d| d.entry.as_ref().is_ok_and(|e| e.order == order)).unwrap();
    let entry = delivery.entry.unwrap();
    let entry_json = json!({
        "id": entry.order, "userId": entry.user.to_string(), "voucherId": entry.voucher.to_string(),
        "epoch": entry.epoch.to_string(), "admittedAt": entry.admitted_at.0.to_string(),
    });
    assert_eq!(buried_entry(&entry_json.to_string()), Some(entry));
    put_aside(app, &delivery.stream_id.to_string(), &entry_json.to_string()).await;
    app.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", delivery.stream_id)).await;
    let newest = app.app.services.store.dead_letters(None, 1).await.unwrap();
    (newest[0].id, order)
}

async fn put_aside(app: &TestApp, stream_id: &str, entry_json: &str) {
    let letter = DeadLetter {
        stream_id: stream_id.to_owned(),
        lane: seckill::domain::ids::Lane(0),
        entry_json: entry_json.to_owned(),
        reason: String::from("delivered too often"),
    };
    let mut tx = app.app.services.store.begin().await.unwrap();
    assert!(tx.bury(&letter, app.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
}

async fn decide(app: &TestApp, admin: &Buyer, letter: i64, what: &str) -> Answer {
    app.http.post_as(&admin.token, &format!("/api/admin/dead-letter/{letter}/{what}")).await
}

async fn give_back(app: &TestApp) {
    app.app.services.releases.apply_due().await.unwrap();
}

async fn decisions(on: On) {
    let app = shop(on).await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(4).await, app.sale(4).await);
    let (first, saved) = buried(&app, &buyers[0], voucher).await;
    let (second, discarded) = buried(&app, &buyers[1], voucher).await;
    let held = sale(&app, &admin.token, voucher).await;
    assert_eq!((&held["inFlight"], &held["balanced"], &held["redisStock"]), (&json!(2), &json!(true), &json!(2)), "{held}");
    assert_eq!(app.order(&buyers[0], saved).await["status"], "QUEUED", "undecided");
    let list = app.http.get_as(&admin.token, "/api/admin/dead-letter?limit=1").await.data();
    assert_eq!((&list["items"][0]["id"], &list["items"][0]["state"]), (&json!(second), &json!("OPEN")));
    assert_eq!((&list["items"][0]["orderId"], &list["items"][0]["entry"]["epoch"]), (&json!(discarded.to_string()), &json!("1")));
    let next = format!("/api/admin/dead-letter?cursor={}", list["next"].as_str().unwrap());
    assert_eq!(app.http.get_as(&admin.token, &next).await.data()["items"][0]["id"], first);
    let queued = app.http.get_as(&admin.token, &format!("/api/admin/sale/{voucher}/orders?status=QUEUED")).await.data();
    assert_eq!(queued["items"].as_array().unwrap().len(), 2);

    let (mut one, _) = Socket::of(&app.base, &buyers[0].token).await;
    let (mut two, _) = Socket::of(&app.base, &buyers[1].token).await;
    let done = decide(&app, &admin, first, "retry").await.data();
    assert_eq!((&done["state"], &done["order"]["status"]), (&json!("RETRIED"), &json!("PENDING")), "{done}");
    assert_eq!(one.wait_for("order.created").await["order"]["id"], saved.to_string(), "the shopper is told");
    let line = last_line(&app, &admin.token).await;
    assert_eq!((&line["action"], &line["after"]["outcome"]), (&json!("dead_letter.retry"), &json!("saved")));
    assert_eq!(decide(&app, &admin, first, "retry").await.data()["state"], "RETRIED", "a repeat");
    assert_eq!(last_line(&app, &admin.token).await["id"], line["id"]);
    let late = decide(&app, &admin, first, "discard").await;
    assert_eq!((late.status.as_u16(), late.code().as_str()), (409, "WRONG_STATE"));
    assert_eq!(late.json()["data"]["state"], "RETRIED");

    let done = decide(&app, &admin, second, "discard").await.data();
    assert_eq!((&done["state"], &done["order"]["closeReason"]), (&json!("DISCARDED"), &json!("DISCARDED")), "{done}");
    assert_eq!(two.wait_for("order.failed").await["order"]["closeReason"], "DISCARDED");
    give_back(&app).await;
    let after = sale(&app, &admin.token, voucher).await;
    assert_eq!((&after["redisStock"], &after["inFlight"], &after["failed"]), (&json!(3), &json!(0), &json!(1)), "{after}");

    // A rebuild takes the place of what nobody decided; a later decision records just that.
    let (third, gone) = buried(&app, &buyers[2], voucher).await;
    let (fourth, gone_too) = buried(&app, &buyers[3], voucher).await;
    app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
    for (letter, what, order) in [(third, "retry", gone), (fourth, "discard", gone_too)] {
        let done = decide(&app, &admin, letter, what).await.data();
        assert_eq!((&done["order"]["id"], &done["order"]["closeReason"]), (&json!(order.to_string()), &json!("LOST")), "{done}");
    }
    assert_eq!(app.app.services.store.open_outbox_count("release").await.unwrap(), 0, "the load absorbed the units");

    // What says nothing can only be closed.
    put_aside(&app, "7-7", r#"{"id":"x"}"#).await;
    let newest = app.app.services.store.dead_letters(None, 1).await.unwrap()[0].id;
    let stuck = decide(&app, &admin, newest, "retry").await;
    assert_eq!((stuck.status.as_u16(), &stuck.json()["data"]["readable"]), (409, &json!(false)));
    let page = app.http.get_as(&admin.token, "/admin/dead-letters?lang=en").await.text();
    assert!(!page.contains(&format!("/admin/dead-letters/{newest}/retry")), "nothing to try again is not offered: {page}");
    assert!(page.contains(&format!("/admin/dead-letters/{newest}/discard")) && page.contains("can only be discarded"), "{page}");
    let sure = app.http.get_as(&admin.token, &format!("/admin/dead-letters/{newest}/discard?lang=zh-CN")).await.text();
    assert!(sure.contains("不通知任何买家") && !sure.contains("名额回到库存"), "no promise to nobody: {sure}");
    assert_eq!(decide(&app, &admin, newest, "discard").await.data()["state"], "DISCARDED");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_keeps_the_books_and_tells_the_shopper_on_sqlite() {
    decisions(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_decision_keeps_the_books_and_tells_the_shopper_on_postgresql() {
    decisions(On::Postgres).await;
}

async fn races(on: On) {
    let app = shop(on).await;
    let rounds = if on == On::Sqlite { 8 } else { 6 };
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(rounds).await, app.sale(20).await);
    let mut outcomes = std::collections::BTreeMap::<String, usize>::new();
    for (round, buyer) in buyers.iter().enumerate() {
        let (letter, order) = buried(&app, buyer, voucher).await;
        let rebuild = async {
            if round % 2 == 0 {
                app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
            }
        };
        let (again, away, ()) = tokio::join!(
            async { tokio::join!(decide(&app, &admin, letter, "retry"), decide(&app, &admin, letter, "retry")) },
            async { tokio::join!(decide(&app, &admin, letter, "discard"), decide(&app, &admin, letter, "discard")) },
            rebuild
        );
        let ok = |answer: &Answer| answer.status == 200;
        let (retried, gave_up) = (ok(&again.0) || ok(&again.1), ok(&away.0) || ok(&away.1));
        assert!(retried != gave_up, "one decision: {:?} {:?}", again.0.text(), away.0.text());
        let row = app.app.services.store.order(order).await.unwrap().unwrap();
        let reason = row.close_reason.map_or("", seckill::domain::order::CloseReason::as_str);
        assert_eq!(reason == "DISCARDED", gave_up && reason != "LOST", "{row:?}");
        *outcomes.entry(format!("{:?} {reason}", row.status)).or_default() += 1;
        give_back(&app).await;
        app.balanced().await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_decide_at_once_one_does_on_sqlite() {
    Box::pin(races(On::Sqlite)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_all_who_decide_at_once_one_does_on_postgresql() {
    Box::pin(races(On::Postgres)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_under_the_present_epoch_would_bring_a_lost_order_to_life() {
    let app = shop(On::Sqlite).await;
    let (admin, buyer, voucher) = (app.admin().await, app.buyer().await, app.sale(2).await);
    let bought = app.buy(&buyer, voucher).await;
    let ticket = bought.json()["ticket"].as_str().unwrap().to_owned();
    let (letter, order) = buried_after(&app, voucher).await;
    app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
    let told = async || -> Value { app.http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await.data() };
    assert_eq!(told().await["closeReason"], "LOST", "told for ever");
    let letters = app.app.services.desk.letters.clone();
    fault::without("present-epoch", async { letters.retry(admin.id, letter).await.unwrap() }).await;
    assert_eq!(told().await["status"], "PENDING", "without its guard a retry makes a liar of us");
    app.abandon("a guard was out: an order lives that the gate does not know").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burial_that_wrote_an_outcome_would_make_retry_a_button_that_does_nothing() {
    let app = shop(On::Sqlite).await;
    let (admin, buyer, voucher) = (app.admin().await, app.buyer().await, app.sale(2).await);
    let (letter, order) = buried(&app, &buyer, voucher).await;
    let store = &app.app.services.store;
    let row = seckill::store::NewOrder {
        id: order,
        user: buyer.id,
        voucher,
        epoch: 1,
        admitted_at: app.clock.now(),
        pay_amount: seckill::domain::money::Fen(4900),
        created_at: app.clock.now(),
        pay_before: app.clock.now(),
    };
    let mut tx = store.begin().await.unwrap();
    tx.insert_failed(&[row], seckill::domain::order::CloseReason::Discarded, app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let done = decide(&app, &admin, letter, "retry").await.data();
    assert_eq!(done["order"]["status"], "FAILED", "its primary key blocks every retry: {done}");
    app.abandon("an outcome was written without its release: a unit is held by nobody").await;
}

/// As [`buried`], for the one entry that waits.
async fn buried_after(app: &TestApp, voucher: VoucherId) -> (i64, OrderId) {
    let entries = app.app.services.queue.entries(seckill::domain::ids::Lane(0)).await.unwrap();
    let (stream_id, entry) = (entries[0].stream_id, entries[0].entry.clone().unwrap());
    assert_eq!(entry.voucher, voucher);
    let entry_json = json!({
        "id": entry.order, "userId": entry.user.to_string(), "voucherId": entry.voucher.to_string(),
        "epoch": entry.epoch.to_string(), "admittedAt": entry.admitted_at.0.to_string(),
    });
    put_aside(app, &stream_id.to_string(), &entry_json.to_string()).await;
    app.ask::<i64>(&format!("XDEL stream.orders:{{0}} {stream_id}")).await;
    (app.app.services.store.dead_letters(None, 1).await.unwrap()[0].id, entry.order)
}
