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

/// Whole sales with and without waiting for a replica, by turns: the ratio of their times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_replica_costs_one_wait_a_batch() {
    let servers = Servers::sentinel().await;
    let app = TestApp::with("--redis-url", &servers.url).with("--redis-wait-replicas", "1").start().await;
    let services = &app.app.services;
    let quick = seckill::gate::Gate::new(services.redis.clone(), 1);
    let voucher = app.sale(100_000).await;
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
    let waits = servers.all[0].ask::<String>("INFO commandstats").await.unwrap();
    let waits = waits.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next()?.parse::<u64>().ok());
    assert_eq!(waits, Some(75), "one wait for each batch of 64 buyers");
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    figure(&format!("75 batches of 64: {without:?} at once, {with:?} with one replica, ratio {ratio:.2}"));
    app.finish().await;
}
