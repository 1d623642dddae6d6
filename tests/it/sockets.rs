//! Many sockets and their ends: limits, sessions that are over, a shop that shuts down.

use std::time::Duration;

use futures_util::future::join_all;
use seckill::domain::event::OrderEvent;
use seckill::domain::order::Order;
use serde_json::json;
use tokio::time::Instant;

use crate::support::app::TestApp;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::socket::{Raw, Socket};

/// What the next messages end with: the close code.
async fn close_code(socket: &mut Socket) -> u16 {
    loop {
        if let Err(code) = socket.next().await {
            return code;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_eleventh_socket_of_a_user_closes_his_oldest_with_4409() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let mut sockets = Vec::new();
    for _ in 0..11 {
        sockets.push(Socket::of(&app.base, &buyer.token).await.0);
    }
    assert_eq!(close_code(&mut sockets[0]).await, 4409);
    let voucher = app.sale(1).await;
    app.admitted(&app.buy(&buyer, voucher).await);
    for socket in &mut sockets[1..] {
        socket.wait_for("order.created").await;
    }
    app.settled().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_in_whatever_way_closes_its_sockets_within_two_seconds() {
    let app = TestApp::start().await;
    let phone = "13800001234";
    let body = json!({"phone": phone, "password": "korrekt pferd"});
    let first = app.http.json(None, "/api/user/register", &body).await.data().as_str().unwrap().to_owned();
    let login = || async { app.http.json(None, "/api/user/login", &body).await.data().as_str().unwrap().to_owned() };

    // Logout: this session's sockets and no others.
    let second = login().await;
    let (mut of_first, _) = Socket::of(&app.base, &first).await;
    let (mut of_second, _) = Socket::of(&app.base, &second).await;
    let begun = Instant::now();
    app.http.post_as(&second, "/api/user/logout").await;
    assert_eq!(close_code(&mut of_second).await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(2));

    // A new password ends the other sessions and keeps this one.
    let third = login().await;
    let (mut of_third, _) = Socket::of(&app.base, &third).await;
    let passwords = json!({"oldPassword": "korrekt pferd", "newPassword": "korrekte pferde"});
    let begun = Instant::now();
    assert!(app.http.json(Some(&third), "/api/user/password", &passwords).await.status.is_success());
    assert_eq!(close_code(&mut of_first).await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(4), "two password hashes and the end of a session");
    assert!(of_third.hears_no("", Duration::from_millis(300)).await);

    // An admin who disables a user ends all of them; nobody logs in again until he is enabled.
    let admin = app.admin().await;
    let me = app.http.get_as(&third, "/api/user/me").await.data()["id"].as_i64().unwrap();
    let begun = Instant::now();
    assert_eq!(app.http.post_as(&third, &format!("/api/user/{me}/disable")).await.status, 403);
    app.http.post_as(&admin.token, &format!("/api/user/{me}/disable")).await.data();
    assert_eq!(close_code(&mut of_third).await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(2));
    let new = json!({"phone": phone, "password": "korrekte pferde"});
    assert_eq!(app.http.json(None, "/api/user/login", &new).await.code(), "BAD_CREDENTIALS");
    app.http.post_as(&admin.token, &format!("/api/user/{me}/enable")).await.data();
    let fourth = app.http.json(None, "/api/user/login", &new).await.data().as_str().unwrap().to_owned();

    // Nobody tells of a session that expires.
    let (mut of_fourth, _) = Socket::of(&app.base, &fourth).await;
    let begun = Instant::now();
    app.clock.advance(Duration::from_mins(31));
    assert_eq!(close_code(&mut of_fourth).await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_and_the_end_of_a_session_reach_a_socket_on_another_instance() {
    let redis = TestRedis::start().await;
    let url = redis.url();
    let mut shop = Shop::with(&["--redis-url", &url]).await;
    let one = shop.serve(&[]).await;
    let two = shop.serve(&["--roles", "web"]).await;
    shop.seed(2).await;
    let voucher = shop.sale(&one.http, 5).await;
    let (mut far, _) = Socket::of(&two.base, &shop.buyers[0]).await;
    let (mut near, _) = Socket::of(&one.base, &shop.buyers[0]).await;
    let begun = Instant::now();
    let path = format!("/api/voucher-order/seckill/{voucher}");
    let id = one.http.post_as(&shop.buyers[0], &path).await.data();
    for socket in [&mut far, &mut near] {
        assert_eq!(socket.wait_for("order.created").await["order"]["id"], id);
    }
    assert!(begun.elapsed() < Duration::from_secs(2));
    let begun = Instant::now();
    one.http.post_as(&shop.buyers[0], "/api/user/logout").await;
    assert_eq!((close_code(&mut far).await, close_code(&mut near).await), (4401, 4401));
    assert!(begun.elapsed() < Duration::from_secs(2));
    // The sale was made on the one; it can be bought on the other.
    two.http.post_as(&shop.buyers[1], &path).await.data();
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_sockets_hear_1001_on_sigterm_and_the_shop_ends_well_within_ten_seconds() {
    let mut shop = Shop::new().await;
    let mut server = shop.serve(&[]).await;
    shop.seed(200).await;
    let voucher = shop.sale(&server.http, 150).await;
    let mut sockets = Vec::new();
    for token in &shop.buyers[..50] {
        sockets.push(Socket::of(&server.base, token).await.0);
    }
    let path = format!("/api/voucher-order/seckill/{voucher}");
    let clicks = join_all(shop.buyers.iter().map(|token| {
        let (http, path) = (server.http.clone(), path.clone());
        async move { http.try_send(http::Method::POST, &path, &[("authorization", token)], "").await }
    }));
    let begun = Instant::now();
    let (answers, code) = tokio::join!(clicks, async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.terminate().await
    });
    assert_eq!(code, 0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for socket in &mut sockets {
        assert_eq!(close_code(socket).await, 1001);
    }
    // Whoever was told an order id has his verdict after the restart.
    let told: Vec<_> = answers
        .iter()
        .flatten()
        .filter(|a| a.status == 200 && a.json()["success"] == true)
        .map(|a| (a.data().as_str().unwrap().to_owned(), a.json()["ticket"].as_str().unwrap().to_owned()))
        .collect();
    let server = shop.serve(&[]).await;
    let told: Vec<_> = told.into_iter().map(|(order, ticket)| crate::support::shop::Told { buyer: 0, order, ticket }).collect();
    assert!(shop.verdicts(&server.http, &told).await.iter().all(|status| status == "PENDING"));
    shop.audited().await;
}

/// Buys on a sale of one and hands out the saved order, to be told again and again.
async fn a_saved_order(app: &TestApp, buyer: &crate::support::app::Buyer) -> Order {
    let voucher = app.sale(1).await;
    let id = app.admitted(&app.buy(buyer, voucher).await);
    app.settled().await;
    app.app.services.store.order(id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stands_still_is_closed_with_1013_and_comes_back_to_a_snapshot() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let order = a_saved_order(&app, &buyer).await;
    let mut slow = Raw::open(&app.base, &buyer.token).await;
    let (mut quick, _) = Socket::of(&app.base, &buyer.token).await;
    let hub = &app.app.services.hub;
    let sockets = |count: usize| async move {
        for _ in 0..1_500 {
            if hub.sockets_of(buyer.id) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {count} sockets: {}", hub.sockets_of(buyer.id));
    };
    sockets(2).await;
    // Told for ever, one at a time for whoever reads: only the one that stands still falls behind.
    let event = OrderEvent { user: buyer.id, order: order.clone() };
    let mut told = 0;
    while hub.sockets_of(buyer.id) == 2 {
        hub.send(&event);
        quick.wait_for("order.created").await;
        told += 1;
        assert!(told < 200_000, "a socket that nobody reads took {told} messages");
    }
    sockets(1).await;
    assert_eq!(slow.read_to_close_code().await, Some(1013), "after {told} messages");
    let (_, snapshot) = Socket::of(&app.base, &buyer.token).await;
    assert_eq!(snapshot["orders"][0]["id"], order.id.to_string());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_dead_is_gone_within_two_periods_and_one_that_answers_stays() {
    let app = TestApp::start().await;
    let (dead, alive) = (app.buyer().await, app.buyer().await);
    let raw = Raw::open(&app.base, &dead.token).await; // open, and never answers a ping
    let (mut socket, _) = Socket::of(&app.base, &alive.token).await;
    let hub = &app.app.services.hub;
    let begun = Instant::now();
    let answering = async { socket.next_ever().await };
    let gone = async {
        while hub.sockets_of(dead.id) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        message = answering => panic!("the one that answers heard {message:?}"),
        () = gone => {}
        () = tokio::time::sleep(Duration::from_mins(1)) => panic!("a dead peer is still there"),
    }
    assert!((30..43).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert_eq!(hub.sockets_of(alive.id), 1);
    drop(raw);
    app.finish().await;
}
