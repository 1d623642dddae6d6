//! Killed at any moment, started again: every id that a buyer was given becomes one row, none twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::time::{Duration, Instant};

use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn kill_minus_nine_in_the_middle_of_a_sale_loses_no_order_and_doubles_none() {
    let mut shop = Shop::new().await;
    let mut server = shop.serve(&[]).await;
    shop.seed(2_000).await;
    let voucher = shop.sale(&server.http, 2_000).await;
    let told = Arc::new(AtomicUsize::new(0));

    let http = server.http.clone();
    let clicks = shop.click(&http, voucher, 0, 2_000, 32, told.clone());
    let killer = async {
        while told.load(Ordering::Relaxed) < 600 {
            tokio::task::yield_now().await;
        }
        server.kill().await;
    };
    let ((mut heard, _), ()) = tokio::join!(clicks, killer);
    assert!((600..2_000).contains(&heard.len()), "the kill came in the middle: {} were told", heard.len());

    let mut server = shop.serve(&[]).await;
    let verdicts = shop.verdicts(&server.http, &heard).await;
    assert!(verdicts.iter().all(|v| v == "PENDING"), "an id that was given is an order");
    // Who got no answer presses again, and so does everybody else: nobody gets two.
    let (again, unsure) = shop.click(&server.http, voucher, 0, 2_000, 32, Arc::default()).await;
    assert_eq!((again.len(), unsure), (2_000, 0));
    let first: HashSet<(usize, String)> = heard.drain(..).map(|t| (t.buyer, t.order)).collect();
    let second: HashSet<(usize, String)> = again.iter().map(|t| (t.buyer, t.order.clone())).collect();
    assert!(first.is_subset(&second), "a retry hears the same order id");
    assert!(shop.verdicts(&server.http, &again).await.iter().all(|v| v == "PENDING"));
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE live").await, 2_000);
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders").await, 2_000);
    assert_eq!(shop.count("SELECT stock_left FROM flash_sale").await, 0);
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_left_in_the_stream_are_sold_after_a_restart_and_so_is_exactly_the_rest() {
    let mut shop = Shop::new().await;
    // Nobody saves orders here: what is admitted stays in the stream.
    let mut front = shop.serve(&["--roles", "web"]).await;
    shop.seed(200).await;
    let voucher = shop.sale(&front.http, 100).await;
    let (first, _) = shop.click(&front.http, voucher, 0, 50, 8, Arc::default()).await;
    assert_eq!(first.len(), 50);
    front.kill().await;

    let mut server = shop.serve(&[]).await;
    assert!(shop.verdicts(&server.http, &first).await.iter().all(|v| v == "PENDING"));
    let (rest, unsure) = shop.click(&server.http, voucher, 50, 200, 16, Arc::default()).await;
    assert_eq!((rest.len(), unsure), (50, 0), "exactly the rest is sold");
    assert!(shop.verdicts(&server.http, &rest).await.iter().all(|v| v == "PENDING"));
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE live").await, 100);
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_stops_neither_the_sale_nor_its_healing() {
    let mut shop = Shop::new().await;
    let mut command = shop.command(&["--rate-limit", "off"]).await;
    command.stderr(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let mut server = Process::start_quietly(command).await;
    shop.seed(20).await;
    let voucher = shop.sale(&server.http, 20).await;
    // Each of these writes lines of warning, and is put right by the task that writes them.
    let redis = seckill::redis::Redis::open(&shop.redis_url()).await.unwrap();
    for key in ["stock", "sale"] {
        let key = format!("seckill:{{0}}:{key}:{voucher}");
        redis::cmd("DEL").arg(&key).exec_async(&mut redis.shared()).await.unwrap();
        let healed = async || redis::cmd("EXISTS").arg(&key).query_async::<bool>(&mut redis.shared()).await.unwrap();
        until(&key, Duration::from_secs(15), healed).await;
        // Loaded is not open yet: the gate opens after the commit, by a call of its own.
        until("the gate is open", Duration::from_secs(15), async || server.http.get("/readyz").await.status == 200).await;
    }
    let (told, unsure) = shop.click(&server.http, voucher, 0, 20, 4, Arc::default()).await;
    assert_eq!((told.len(), unsure), (20, 0));
    assert!(shop.verdicts(&server.http, &told).await.iter().all(|v| v == "PENDING"));
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_cannot_drain_yet_does_not_keep_a_starting_shop_from_answering() {
    let redis = TestRedis::start().await;
    let url = redis.url();
    let mut shop = Shop::with(&["--redis-url", &url]).await;
    let front = shop.serve(&["--roles", "web"]).await;
    shop.seed(2).await;
    let voucher = shop.sale(&front.http, 5).await;
    let (told, _) = shop.click(&front.http, voucher, 0, 1, 1, Arc::default()).await;
    // Somebody has the entry in hand and is slow, and the sale's gate is lost.
    redis.ask::<redis::Value>("XREADGROUP GROUP g1 slow COUNT 1 STREAMS stream.orders:{0} >").await;
    let pending: Vec<(String, String, u64, u64)> = redis.ask("XPENDING stream.orders:{0} g1 - + 1").await;
    let keep = format!("XCLAIM stream.orders:{{0}} g1 slow 0 {} JUSTID", pending[0].0);
    let holds = async {
        loop {
            redis.ask::<redis::Value>(&keep).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    redis.ask::<u64>(&format!("DEL seckill:{{0}}:sale:{voucher}")).await;
    let begun = Instant::now();
    let starts = async {
        let both = shop.serve(&[]).await;
        let took = begun.elapsed();
        assert!((4..15).contains(&took.as_secs()), "the start waited {took:?}");
        assert_eq!(both.http.get("/readyz").await.status, 503);
        let path = format!("/api/voucher-order/seckill/{voucher}");
        assert_eq!(both.http.post_as(&shop.buyers[1], &path).await.code(), "BUSY");
        assert_eq!(both.http.page(None, "/").await.status, 200);
        both
    };
    let both = tokio::select! {
        both = starts => both,
        never = holds => never,
    };
    // Let go: it is saved, the gate opens, and the rest is sold.
    assert_eq!(shop.verdicts(&both.http, &told).await, ["PENDING"]);
    until("the gate is open again", Duration::from_secs(30), async || both.http.get("/readyz").await.status == 200).await;
    let (second, _) = shop.click(&both.http, voucher, 1, 2, 1, Arc::default()).await;
    assert_eq!(second.len(), 1);
    shop.verdicts(&both.http, &second).await;
}
