//! `--redis-wait-replicas`: a buyer hears "yes" only once a replica has his admission, so a failover loses nobody who heard it.

use std::time::{Duration, Instant};

use seckill::domain::ids::VoucherId;

use super::figure;
use crate::support::app::{Buyer, On, TestApp};
use crate::support::servers::Servers;
use crate::support::until;

const TAKE_OVER: Duration = Duration::from_secs(30);

/// One click each; those who heard "yes", with their order and ticket, and how many heard that it is uncertain.
async fn clicks(app: &TestApp, buyers: &[Buyer], voucher: VoucherId) -> (Vec<(String, String)>, usize) {
    let (mut told, mut unsure) = (Vec::new(), 0);
    for buyer in buyers {
        let json = app.buy(buyer, voucher).await.json();
        if json["success"] == true {
            told.push((json["data"].as_str().unwrap().to_owned(), json["ticket"].as_str().unwrap().to_owned()));
        }
        unsure += usize::from(json["code"] == "UNCERTAIN");
    }
    (told, unsure)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_heard_yes_outlives_a_cut_replica_and_a_dead_primary_and_who_cannot_be_sure_is_told_so() {
    let mut servers = Servers::sentinel().await;
    // Nobody saves orders: what was admitted is in Redis alone.
    let app = TestApp::on(On::Postgres)
        .with("--redis-url", &servers.url)
        .with("--redis-wait-replicas", "1")
        .with("--roles", "web")
        .start()
        .await;
    let voucher = app.sale(100).await;
    let buyers = app.buyers(40).await;
    let (told, unsure) = clicks(&app, &buyers[..20], voucher).await;
    assert_eq!((told.len(), unsure), (20, 0));

    // The replica is cut off: the admission stands, and nobody is told a "yes" that a failover could undo.
    servers.freeze(1);
    let started = Instant::now();
    let (none, unsure) = clicks(&app, &buyers[20..24], voucher).await;
    assert_eq!((none.len(), unsure), (0, 4));
    assert!(started.elapsed() < Duration::from_secs(4), "each within a second");
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(76)], "the admissions stand");
    // A refusal promises nothing and waits for nobody; a second click finds the first one's order once the replica is back.
    assert_eq!(app.buy(&buyers[20], voucher).await.code(), "UNCERTAIN");
    servers.thaw(1);
    until("the second click is sure", TAKE_OVER, async || app.buy(&buyers[20], voucher).await.status == 200).await;
    assert_eq!(app.buy(&buyers[20], voucher).await.code(), "DUPLICATE");

    // The primary dies. Whoever heard "yes" has his order.
    servers.kill(0);
    let worker = app.beside(&["--roles", "worker"]).await;
    until("the replica has taken over and the gate fits", TAKE_OVER, async || app.http.get("/readyz").await.status == 200).await;
    app.settled().await;
    for (order, ticket) in &told {
        let order = app.http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await.data();
        assert_eq!(order["status"], "PENDING", "no yes is lost: {order}");
    }
    worker.finish().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_buyer_waits_for_the_replica_of_his_own_lane_and_a_failover_loses_no_yes() {
    let mut servers = Servers::cluster().await;
    let app = TestApp::on(On::Postgres)
        .with("--redis-url", &servers.url)
        .with("--redis-wait-replicas", "1")
        .with("--lanes", "4")
        .with("--roles", "web")
        .start()
        .await;
    let node_of = async |sale: VoucherId| servers.primary_of(&format!("stream.orders:{{{}}}", sale.0 % 4)).await;
    let (one, mut other) = (app.sale(50).await, app.sale(50).await);
    while node_of(one).await == node_of(other).await {
        other = app.sale(50).await;
    }
    let (node, elsewhere) = (node_of(one).await, node_of(other).await);
    let buyers = app.buyers(30).await;
    // The first call of all brings the script to its node.
    assert_eq!(
        (app.buy(&buyers[29], one).await.status, app.buy(&buyers[29], other).await.status),
        (http::StatusCode::OK, http::StatusCode::OK)
    );
    let before = (waits(&servers, node).await, waits(&servers, elsewhere).await);
    let (told, unsure) = clicks(&app, &buyers[..10], one).await;
    assert_eq!((told.len(), unsure), (10, 0));
    assert_eq!(clicks(&app, &buyers[..5], other).await.0.len(), 5);
    // The node that was written to is the one that waits: a count of another node's replicas would say nothing.
    let after = (waits(&servers, node).await, waits(&servers, elsewhere).await);
    assert_eq!((after.0 - before.0, after.1 - before.1), (10, 5));

    // The replica of one lane's node is cut off: that lane is unsure, the other is not.
    servers.freeze(node + 3);
    let (nobody, unsure) = clicks(&app, &buyers[10..13], one).await;
    assert_eq!((nobody.len(), unsure), (0, 3));
    let (sure, unsure) = clicks(&app, &buyers[10..13], other).await;
    assert_eq!((sure.len(), unsure), (3, 0));
    servers.thaw(node + 3);
    until("a second click is sure", TAKE_OVER, async || app.buy(&buyers[10], one).await.status == 200).await;

    servers.kill(node);
    let worker = app.beside(&["--roles", "worker", "--lanes", "4"]).await;
    until("the replica has taken over and the gates fit", TAKE_OVER, async || app.http.get("/readyz").await.status == 200).await;
    app.settled().await;
    for (order, ticket) in told.iter().chain(&sure) {
        let order = app.http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await.data();
        assert_eq!(order["status"], "PENDING", "no yes is lost: {order}");
    }
    worker.finish().await;
    app.finish().await;
}

/// How often a server was asked to wait for its replicas.
async fn waits(servers: &Servers, which: usize) -> u64 {
    let told = servers.all[which].ask::<String>("INFO commandstats").await.unwrap();
    let calls = told.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next()?.parse().ok());
    calls.unwrap_or(0)
}

/// Whole sales with and without waiting for a replica, by turns: the ratio of their times.
async fn one_wait_a_batch(what: &str, servers: Servers, lanes: u16) {
    let app = TestApp::with("--redis-url", &servers.url)
        .with("--redis-wait-replicas", "1")
        .with("--lanes", &lanes.to_string())
        .start()
        .await;
    let services = &app.app.services;
    let quick = seckill::gate::Gate::new(services.redis.clone(), lanes);
    let voucher = app.sale(100_000).await;
    let node = servers.primary_of(&format!("stream.orders:{{{}}}", voucher.0 % i64::from(lanes))).await;
    let mut tx = services.store.begin().await.unwrap();
    let users = tx.insert_users_bulk(19_500_000_000, 9600, app.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let (mut with, mut without) = (Duration::ZERO, Duration::ZERO);
    for (i, some) in users.chunks(64).enumerate() {
        let buyers: Vec<_> = some.iter().map(|user| (*user, services.ids.next().unwrap())).collect();
        let started = Instant::now();
        let gate = if i % 2 == 0 { &quick } else { &services.gate };
        gate.admit(voucher, 1, 100_000, &buyers).await.unwrap();
        *(if i % 2 == 0 { &mut without } else { &mut with }) += started.elapsed();
    }
    assert_eq!(waits(&servers, node).await, 75, "one wait for each batch of 64 buyers");
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    figure(&format!("{what}: 75 batches of 64: {without:?} at once, {with:?} with one replica, ratio {ratio:.2}"));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_replica_costs_one_wait_a_batch_behind_sentinel() {
    one_wait_a_batch("Sentinel", Servers::sentinel().await, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_replica_costs_one_wait_a_batch_in_a_cluster() {
    one_wait_a_batch("Cluster", Servers::cluster().await, 4).await;
}
