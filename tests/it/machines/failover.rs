//! A sale during which the primary of its lane dies and a replica takes over: nobody restarts, nothing is oversold, everybody
//! who was given an order id hears how it ended.

use std::time::Duration;

use seckill::domain::ids::VoucherId;

use crate::support::app::{Buyer, On, TestApp};
use crate::support::servers::Servers;
use crate::support::until;

/// A replica is asked for its vote, the new primary is found, the gate rebuilt.
const TAKE_OVER: Duration = Duration::from_secs(30);

/// Clicks of all buyers, 16 at a time; those who were let in.
async fn clicks(app: &TestApp, buyers: &[Buyer], voucher: VoucherId) -> Vec<(Buyer, String, String)> {
    let mut told = Vec::new();
    for some in buyers.chunks(16) {
        for (buyer, answer) in
            some.iter().zip(futures_util::future::join_all(some.iter().map(|buyer| app.buy(buyer, voucher))).await)
        {
            let json = answer.json();
            if json["success"] == true || json["code"] == "DUPLICATE" {
                let text = |name: &str| json[name].as_str().unwrap().to_owned();
                told.push((buyer.clone(), text("data"), text("ticket")));
            }
        }
    }
    told
}

/// Sells half, kills the lane's primary, sells on.
async fn a_sale_outlives_a_primary(mut servers: Servers, app: TestApp) {
    let voucher = app.sale(150).await;
    let lane = voucher.0 % i64::from(app.args.data.lanes);
    let stream = format!("stream.orders:{{{lane}}}");
    let buyers = app.buyers(400).await;
    let mut told = clicks(&app, &buyers[..100], voucher).await;
    assert_eq!(told.len(), 100, "the first hundred are let in");

    let dead = servers.primary_of(&stream).await;
    servers.kill(dead);
    // The next ones hear BUSY until the replica has taken over and the gate fits again.
    until("somebody is let in again", TAKE_OVER, async || {
        let answer = app.buy(&buyers[100], voucher).await;
        assert!(matches!(answer.status.as_u16(), 200 | 503), "{}", answer.text());
        answer.status == 200
    })
    .await;
    assert_ne!(servers.primary_of(&stream).await, dead);
    told.extend(clicks(&app, &buyers[100..], voucher).await);
    // Sessions that the replica had not heard of are gone, and so may be places: told so, and free to buy again.
    app.settled().await;
    let (mut pending, mut lost) = (0, 0);
    for (buyer, order, ticket) in &told {
        let path = format!("/api/voucher-order/{order}?ticket={ticket}");
        until("an order has its verdict", TAKE_OVER, async || app.http.get(&path).await.data()["status"] != "QUEUED").await;
        match app.http.get(&path).await.data() {
            order if order["status"] == "PENDING" => pending += 1,
            order if order["closeReason"] == "LOST" => lost += 1,
            order => panic!("buyer {}: {order}", buyer.id),
        }
    }
    assert!(pending + lost == told.len() && lost <= 100, "{pending} orders, {lost} lost");
    // The rest of the stock is sold as well, and not one unit more.
    let ready = app.http.get("/readyz").await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    let more = app.buyers(100).await;
    clicks(&app, &more, voucher).await;
    app.settled().await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!(sale.stock_left, 0);
    // The dead one comes back as a replica: everybody stays where the sale is.
    servers.start_again(dead).await;
    let one_more = app.buyer().await;
    assert_eq!(app.buy_for_sure(&one_more, voucher).await.json()["code"], "SOLD_OUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_outlives_the_primary_that_sentinels_watch() {
    let servers = Servers::sentinel().await;
    let app = TestApp::with("--redis-url", &servers.url).start().await;
    a_sale_outlives_a_primary(servers, app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_outlives_the_primary_of_its_lane_in_a_cluster() {
    let servers = Servers::cluster().await;
    let app = TestApp::on(On::Postgres).with("--redis-url", &servers.url).with("--lanes", "4").start().await;
    a_sale_outlives_a_primary(servers, app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_left_on_the_old_primary_sells_nothing_that_counts() {
    let servers = Servers::sentinel().await;
    let app = TestApp::on(On::Postgres).with("--redis-url", &servers.url).start().await;
    let voucher = app.sale(40).await;
    let buyers = app.buyers(60).await;
    let old = servers.primary_of("any").await;
    // It knows no Sentinel, as one that is cut off with the old primary.
    let left_url = format!("redis://127.0.0.1:{}", servers.all[old].port);
    let left = app.beside(&["--redis-url", &left_url, "--roles", "web"]).await;
    let mut told = clicks(&app, &buyers[..10], voucher).await;
    assert_eq!(told.len(), 10);

    // It hangs, a replica takes over, and then it is back for a moment, still calling itself a primary.
    servers.freeze(old);
    until("the other one sells", TAKE_OVER, async || app.buy(&buyers[10], voucher).await.status == 200).await;
    servers.thaw(old);
    for buyer in &buyers[11..40] {
        let json = left.buy(buyer, voucher).await.json();
        if json["success"] == true {
            let text = |name: &str| json[name].as_str().unwrap().to_owned();
            told.push((buyer.clone(), text("data"), text("ticket")));
        }
    }
    told.extend(clicks(&app, &buyers[10..], voucher).await);
    app.settled().await;
    for (buyer, order, ticket) in &told {
        let path = format!("/api/voucher-order/{order}?ticket={ticket}");
        until("an order has its verdict", TAKE_OVER, async || app.http.get(&path).await.data()["status"] != "QUEUED").await;
        let order = app.http.get(&path).await.data();
        assert!(order["status"] == "PENDING" || order["closeReason"] == "LOST", "buyer {}: {order}", buyer.id);
    }
    left.abandon("its Redis is a replica by now, and nothing is left in it that counts").await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_goes_on_while_the_slot_of_its_lane_moves_to_another_node_and_nobody_is_lost() {
    let servers = Servers::cluster().await;
    let app = TestApp::with("--redis-url", &servers.url).with("--lanes", "4").start().await;
    let voucher = app.sale(300).await;
    let stream = format!("stream.orders:{{{}}}", voucher.0 % 4);
    let buyers = app.buyers(300).await;
    let mut told = clicks(&app, &buyers[..100], voucher).await;
    assert_eq!(told.len(), 100);

    let from = servers.primary_of(&stream).await;
    let to = (from + 1) % 3;
    servers.begin_move(&stream, from, to).await;
    told.extend(clicks(&app, &buyers[100..116], voucher).await);
    // Some keys here, some there: nobody can be asked, nobody is told anything false.
    while servers.move_keys(&stream, from, to, 1).await > 0 {
        told.extend(clicks(&app, &buyers[116..118], voucher).await);
    }
    told.extend(clicks(&app, &buyers[118..134], voucher).await);
    servers.end_move(&stream, to).await;
    until("the lane sells on its new node", TAKE_OVER, async || app.buy(&buyers[134], voucher).await.status == 200).await;
    told.extend(clicks(&app, &buyers, voucher).await);
    app.settled().await;
    for (buyer, order, ticket) in &told {
        let path = format!("/api/voucher-order/{order}?ticket={ticket}");
        until("an order has its verdict", TAKE_OVER, async || app.http.get(&path).await.data()["status"] != "QUEUED").await;
        assert_eq!(app.http.get(&path).await.data()["status"], "PENDING", "buyer {}", buyer.id);
    }
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!(sale.stock_left, 0, "everybody who pressed again has one");
    app.finish().await;
}
