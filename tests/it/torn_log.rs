//! A log of Redis that ends inside a transaction. Redis drops the half, says so, and leaves what it had of it in the file; at
//! the start after the next one that half runs after all, and an entry is there that the group had passed by long ago.

use std::sync::Arc;
use std::time::Duration;

use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::until;

const SOON: Duration = Duration::from_secs(20);

async fn ready(server: &Process) -> bool {
    server.http.get("/readyz").await.status == 200
}

/// Entries, and how many of them somebody holds.
async fn entries(redis: &TestRedis) -> (i64, i64) {
    let (held, ..): (i64, redis::Value, redis::Value, redis::Value) = redis.ask("XPENDING stream.orders:{0} g1").await;
    (redis.ask("XLEN stream.orders:{0}").await, held)
}

fn last(of: &[u8], word: &[u8]) -> usize {
    of.windows(word.len()).rposition(|part| part == word).unwrap()
}

/// A shop whose stream holds an entry of the past that nobody is given.
async fn with_a_stray(mutant: Option<&str>) -> (Shop, Process, TestRedis) {
    let mut redis = TestRedis::start().await;
    let mut shop = Shop::with(&["--redis-url", &redis.url()]).await;
    let server = shop.serve_without(mutant, &[]).await;
    shop.seed(2).await;
    let voucher = shop.sale(&server.http, 5).await;
    let (first, _) = shop.click(&server.http, voucher, 0, 1, 1, Arc::default()).await;
    assert_eq!(shop.verdicts(&server.http, &first).await, ["PENDING"]);

    // Torn between the entry and its holder.
    redis.kill();
    let log = redis.log_bytes();
    let entry = last(&log, b"XADD");
    let holder = entry + log[entry..].windows(4).position(|part| part == b"HSET").unwrap();
    redis.cut_log_to(holder as u64 + 2);
    redis.start_again().await;
    until("the shop sells again", SOON, async || {
        ready(&server).await && shop.click(&server.http, voucher, 1, 2, 1, Arc::default()).await.0.len() == 1
    })
    .await;
    until("his order is saved", SOON, async || {
        shop.count("SELECT COUNT(*) FROM orders").await == 2 && entries(&redis).await == (0, 0)
    })
    .await;

    redis.kill();
    redis.start_again().await;
    (shop, server, redis)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_a_torn_log_brings_back_does_not_keep_a_gate_shut() {
    let (shop, mut server, redis) = with_a_stray(None).await;
    until("the gate is open and the stream empty", SOON, async || ready(&server).await && entries(&redis).await == (0, 0)).await;
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE live").await, 2, "it had its order all the time");
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn left_alone_it_would_keep_the_gate_shut_for_ever() {
    let (_shop, mut server, redis) = with_a_stray(Some("leave-strays")).await;
    assert_eq!(entries(&redis).await, (1, 0), "an entry that nobody holds");
    // Longer than a claim takes, several times: nothing may happen, so nothing can be waited for.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(entries(&redis).await, (1, 0));
    assert!(!ready(&server).await);
    server.kill().await;
}
