//! "Where am I?": how many are before a queued buyer, the same on every way of asking, only ever fewer, and then a verdict.

use std::time::Duration;

use seckill::domain::ids::Lane;
use seckill::queue::Reader;
use seckill::service::place_orders::Placed;

use crate::support::app::{On, TestApp, on_both_databases};
use crate::support::socket::Socket;

on_both_databases!(
    how_many_are_before_me_is_the_same_by_ticket_by_token_in_the_list_and_on_a_second_device_and_only_falls,
    every_watcher_hears_sold_out_and_a_unit_that_came_back_within_a_second,
    a_push_that_died_with_its_process_is_made_good_while_the_socket_stays_open,
);

/// A shop whose worker is this test.
async fn without_worker(on: On) -> (TestApp, Reader) {
    let app = TestApp::on(on).with("--roles", "web").start().await;
    let reader = app.app.services.queue.reader(Lane(0));
    (app, reader)
}

/// Saves, acknowledges and tells the next `count` orders, as the consumer does.
async fn work(app: &TestApp, reader: &mut Reader, count: usize) {
    let services = &app.app.services;
    let batch = reader.read_new(count, Duration::from_millis(200)).await.unwrap();
    let mut placed = Placed::default();
    services.place.place(Lane(0), &batch, &mut placed).await.unwrap();
    reader.settle(&placed.settled).await.unwrap();
    services.bus.publish(&placed.events);
}

async fn how_many_are_before_me_is_the_same_by_ticket_by_token_in_the_list_and_on_a_second_device_and_only_falls(on: On) {
    let (app, mut reader) = without_worker(on).await;
    let (voucher, buyers) = (app.sale(30).await, app.buyers(6).await);
    let last = &buyers[5];
    let (mut tab, _) = Socket::of(&app.base, &last.token).await;
    for buyer in &buyers[..5] {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    let answer = app.buy(last, voucher).await;
    let (id, ticket) = (app.admitted(&answer), answer.json()["ticket"].as_str().unwrap().to_owned());
    let pushed = tab.wait_for("order.queued").await;
    assert_eq!((&pushed["order"]["ahead"], &pushed["order"]["id"]), (&5.into(), &id.to_string().into()));

    let again = app.buy(last, voucher).await;
    let second_ticket = again.json()["ticket"].as_str().unwrap().to_owned();
    for (done, ahead) in [(0, 5), (2, 3), (2, 1)] {
        if done > 0 {
            work(&app, &mut reader, done).await;
            assert_eq!(tab.wait_for("order.queued").await["order"]["ahead"], ahead);
        }
        let by_token = app.order(last, id).await;
        assert_eq!((&by_token["status"], &by_token["ahead"]), (&"QUEUED".into(), &ahead.into()));
        for ticket in [&ticket, &second_ticket] {
            let by_ticket = app.http.get(&format!("/api/voucher-order/{id}?ticket={ticket}")).await.data();
            assert_eq!((&by_ticket["status"], &by_ticket["ahead"]), (&"QUEUED".into(), &ahead.into()));
        }
        let newest = app.http.get_as(&last.token, "/api/voucher-order").await.data();
        assert_eq!(newest["items"][0]["ahead"], ahead);
        let (_second, snapshot) = Socket::of(&app.base, &last.token).await;
        assert_eq!(snapshot["orders"][0]["ahead"], ahead);
    }
    let page = app.http.page(Some(&format!("seckill_session={}", last.token)), &format!("/orders/{id}")).await.text();
    assert!(page.contains("data-ahead"), "{page}");

    work(&app, &mut reader, 10).await;
    assert_eq!(tab.wait_for("order.created").await["order"]["id"], id.to_string());
    assert!(tab.hears_no("order.queued", Duration::from_millis(1_500)).await, "queued after it was created");
    assert_eq!(app.order(last, id).await["status"], "PENDING");
    let places: i64 = app.ask("EXISTS seckill:{0}:places").await;
    assert_eq!(places, 0, "places go with their entries");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_is_told_at_most_once_a_second_how_many_are_before_it() {
    let (app, mut reader) = without_worker(On::chosen()).await;
    let (voucher, buyers) = (app.sale(40).await, app.buyers(31).await);
    for buyer in &buyers {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    let (mut tab, snapshot) = Socket::of(&app.base, &buyers[30].token).await;
    assert_eq!(snapshot["orders"][0]["ahead"], 30);
    let begun = tokio::time::Instant::now();
    let working = async {
        for _ in 0..30 {
            work(&app, &mut reader, 1).await;
            tokio::time::sleep(Duration::from_millis(70)).await;
        }
    };
    let mut told = Vec::new();
    let hearing = async {
        while told.last() != Some(&0) {
            told.push(tab.wait_for("order.queued").await["order"]["ahead"].as_i64().unwrap());
        }
    };
    tokio::join!(working, hearing);
    let seconds = begun.elapsed().as_secs();
    assert!(told.is_sorted_by(|a, b| a > b), "{told:?}");
    assert!(told.len() as u64 <= seconds + 3, "{} messages in {seconds} s", told.len());
    work(&app, &mut reader, 5).await;
    tab.wait_for("order.created").await;
    app.finish().await;
}

async fn every_watcher_hears_sold_out_and_a_unit_that_came_back_within_a_second(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, buyer) = (app.sale(1).await, app.buyer().await);
    let mut watchers = Vec::new();
    for _ in 0..20 {
        let mut socket = Socket::open(&app.base, &[]).await.ok().unwrap();
        socket.send(&format!(r#"{{"type":"watch","voucherId":{voucher}}}"#)).await;
        assert_eq!(socket.wait_for("voucher.sale").await["state"], "open");
        assert_eq!(socket.wait_for("voucher.stock").await["stock"], 1);
        watchers.push(socket);
    }
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    let told = tokio::time::Instant::now();
    for socket in &mut watchers {
        assert_eq!(socket.wait_for("voucher.sale").await["state"], "soldOut");
        assert_eq!(socket.wait_for("voucher.stock").await["stock"], 0);
    }
    assert!(told.elapsed() < Duration::from_secs(1), "sold out was heard after {:?}", told.elapsed());
    app.settled().await;
    let epoch = app.app.services.store.sale(voucher).await.unwrap().unwrap().epoch;
    // The unit comes back at the gate; the books of this test follow by a rebuild below.
    app.app.services.gate.release(voucher, epoch, buyer.id, id).await.unwrap();
    let back = tokio::time::Instant::now();
    for socket in &mut watchers {
        assert_eq!(socket.wait_for("voucher.sale").await["state"], "open");
        assert_eq!(socket.wait_for("voucher.stock").await["stock"], 1);
    }
    assert!(back.elapsed() < Duration::from_secs(1), "the unit was heard of after {:?}", back.elapsed());
    app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
    app.finish().await;
}

async fn a_push_that_died_with_its_process_is_made_good_while_the_socket_stays_open(on: On) {
    let (app, mut reader) = without_worker(on).await;
    let (voucher, buyer) = (app.sale(1).await, app.buyer().await);
    let (mut tab, _) = Socket::of(&app.base, &buyer.token).await;
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    assert_eq!(tab.wait_for("order.queued").await["order"]["ahead"], 0);
    // Saved and acknowledged by a consumer that dies before it tells anybody.
    let batch = reader.read_new(10, Duration::from_millis(200)).await.unwrap();
    let mut placed = Placed::default();
    app.app.services.place.place(Lane(0), &batch, &mut placed).await.unwrap();
    reader.settle(&placed.settled).await.unwrap();
    let begun = tokio::time::Instant::now();
    let snapshot = tab.wait_for("snapshot").await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!((&snapshot["orders"][0]["id"], &snapshot["orders"][0]["status"]), (&id.to_string().into(), &"PENDING".into()));
    app.finish().await;
}
