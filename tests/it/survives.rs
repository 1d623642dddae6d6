//! Losses under load, a loop that panics, an end under load, and what is left of many sales when they are over.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seckill::domain::ids::{Lane, OrderId};
use tokio::io::AsyncReadExt;

use crate::support::app::{Buyer, On, TestApp};
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::until;

const SOON: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn whatever_redis_loses_under_load_buyers_hear_busy_and_every_ticket_gets_its_answer() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let mut ids: HashSet<OrderId> = HashSet::new();
    for loss in
        ["FLUSHALL", "DEL stream.orders:{0}", "DEL seckill:{0}:stock:V", "DEL seckill:{0}:order:V", "DEL seckill:{0}:sale:V"]
    {
        let (voucher, buyers) = (app.sale(300).await, app.buyers(120).await);
        let told = AtomicUsize::new(0);
        let lost_at = std::sync::Mutex::new(None::<Instant>);
        let back_after = std::sync::Mutex::new(None::<Duration>);
        let shoppers = join_all(buyers.chunks(10).map(async |few| {
            let mut heard: Vec<(Buyer, OrderId, String)> = Vec::new();
            for buyer in few {
                let mut buyer = buyer.clone();
                let give_up = Instant::now() + Duration::from_secs(30);
                let answer = loop {
                    let answer = app.buy(&buyer, voucher).await;
                    match answer.status.as_u16() {
                        200 => break answer,
                        // Sessions are lost with Redis: he logs in again.
                        401 if loss == "FLUSHALL" => buyer = app.session_of(buyer.id).await,
                        503 => tokio::time::sleep(Duration::from_millis(20)).await,
                        other => panic!("{loss}: {other} {}", answer.text()),
                    }
                    assert!(Instant::now() < give_up, "{loss}: not back: {}", answer.text());
                };
                // Never "sold out": there are units for all.
                let id = app.admitted_or_held(&answer);
                heard.push((buyer, id, answer.json()["ticket"].as_str().unwrap().to_owned()));
                told.fetch_add(1, Ordering::Relaxed);
                if let Some(at) = *lost_at.lock().unwrap() {
                    back_after.lock().unwrap().get_or_insert(at.elapsed());
                }
            }
            heard
        }));
        let trouble = async {
            until("some are told", SOON, async || told.load(Ordering::Relaxed) >= 30).await;
            redis.ask::<redis::Value>(&loss.replace('V', &voucher.to_string())).await;
            *lost_at.lock().unwrap() = Some(Instant::now());
        };
        let (heard, ()) = tokio::join!(shoppers, trouble);
        let back_after = back_after.lock().unwrap().unwrap();
        assert!(back_after < Duration::from_secs(10), "{loss}: sold again after {back_after:?}");
        let mut live = 0;
        for (buyer, id, ticket) in heard.iter().flatten() {
            assert!(ids.insert(*id), "{loss}: {id} was given twice");
            let mut status = String::new();
            until("every ticket has its answer", SOON, async || {
                let answer = app.http.get(&format!("/api/voucher-order/{id}?ticket={ticket}")).await;
                if answer.status != 200 {
                    return false;
                }
                let order = answer.data();
                status = format!("{} {}", order["status"].as_str().unwrap(), order["closeReason"].as_str().unwrap_or(""));
                !status.starts_with("QUEUED")
            })
            .await;
            assert!(["PENDING ", "FAILED LOST"].contains(&status.as_str()), "{loss}: {status} for {}", buyer.id);
            live += i64::from(status == "PENDING ");
        }
        app.settled().await;
        let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
        assert_eq!(sale.stock_left, 300 - live, "{loss}");
        assert!(sale.epoch > 1, "{loss}: it was rebuilt");
        if loss.contains("sale:") || loss.contains("order:") || loss.contains("stock:") {
            assert_eq!(live, 120, "{loss}: the stream was there, so nobody was lost");
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_loop_that_panics_ends_the_process_and_says_so_once() {
    let shop = Shop::new().await;
    let mut command = shop.command(&[]).await;
    command.env("SECKILL_FAULT", "reconciler-panics");
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut log = String::new();
    let mut stderr = child.stderr.take().unwrap();
    tokio::time::timeout(Duration::from_secs(30), stderr.read_to_string(&mut log)).await.expect("it goes on").unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(1), "{log}");
    assert_eq!(log.matches("a background loop panicked").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_under_load_it_leaves_no_finished_batch_unacknowledged_and_every_told_order_is_saved() {
    let redis = TestRedis::start().await;
    let mut shop = Shop::with(&["--redis-url", &redis.url()]).await;
    let mut server = shop.serve(&[]).await;
    shop.seed(1_200).await;
    let voucher = shop.sale(&server.http, 1_200).await;
    let mut all = Vec::new();
    for round in 0..3_usize {
        let told = Arc::new(AtomicUsize::new(0));
        let http = server.http.clone();
        let ender = async {
            until("some are told", SOON, async || told.load(Ordering::Relaxed) >= 60).await;
            let began = Instant::now();
            (server.terminate().await, began.elapsed())
        };
        let clicks = shop.click(&http, voucher, round * 400, round * 400 + 400, 24, told.clone());
        let ((heard, _), (code, took)) = tokio::join!(clicks, ender);
        assert_eq!(code, 0);
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(heard.len() >= 60, "{}", heard.len());
        // What was read was finished: only entries that nobody was given are left.
        let (pending, ..): (i64, Option<String>, Option<String>, redis::Value) = redis.ask("XPENDING stream.orders:{0} g1").await;
        assert_eq!(pending, 0, "round {round}: read and not acknowledged");
        all.extend(heard);
        server = shop.serve(&[]).await;
    }
    let verdicts = shop.verdicts(&server.http, &all).await;
    assert!(verdicts.iter().all(|v| v == "PENDING"), "{verdicts:?}");
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_redis_that_may_lose_things_is_warned_about() {
    let redis = TestRedis::start().await;
    redis.ask::<()>("CONFIG SET maxmemory-policy allkeys-lru").await;
    redis.ask::<()>("CONFIG SET appendonly no").await;
    // An operator may forbid CONFIG: the warning does not need it.
    redis.ask::<()>("ACL SETUSER default -config").await;
    let warnings = redis.open().await.durability_warnings().await;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("allkeys-lru") && warnings[1].contains("append-only"), "{warnings:?}");
    let good = TestRedis::start().await;
    assert!(good.open().await.durability_warnings().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_many_sales_is_left_for_ever_when_they_are_over() {
    let redis = TestRedis::start().await;
    let mut app = TestApp::with("--redis-url", &redis.url()).with("--pay-window", "1d").start().await;
    for round in 0..3 {
        let buyers = app.buyers(3).await;
        for _ in 0..10 {
            // Begun long ago: the shop's clock goes ahead here, Redis' own does not.
            let voucher = app.sale_between(5, -86_400_000, 3_600_000).await;
            for buyer in &buyers {
                app.admitted(&app.buy_for_sure(buyer, voucher).await);
            }
        }
        app.settled().await;
        // The worker was away when they ended.
        app = Box::pin(app.restart_later(Duration::from_hours(3))).await;
        app.ask::<i64>("HSET seckill:{0}:places 600000000000000001 1").await;
        let queue = &app.app.services.queue;
        until("dead names are dropped", SOON, async || {
            queue.drop_dead_consumers(Lane(0), Duration::from_millis(1)).await.unwrap();
            app.ask::<Vec<redis::Value>>("XINFO CONSUMERS stream.orders:{0} g1").await.len() <= 1
        })
        .await;
        let keys: Vec<String> = app.ask("KEYS *").await;
        let mut for_ever = Vec::new();
        for key in &keys {
            if app.ask::<i64>(&format!("PTTL {key}")).await == -1 {
                for_ever.push(key.clone());
            }
        }
        assert_eq!(for_ever, ["stream.orders:{0}"], "round {round}, of {keys:?}");
        assert_eq!(app.ask::<i64>("XLEN stream.orders:{0}").await, 0);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_is_made_while_the_database_is_slow_is_open_when_its_maker_hears_so() {
    let app = TestApp::on(On::Postgres).start().await;
    let buyer = app.buyer().await;
    app.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
         CREATE TRIGGER slow AFTER UPDATE ON flash_sale FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    )
    .await;
    for _ in 0..3 {
        // Longer than the worker's look: a second rebuild beside the maker's would shut what the first had opened.
        let voucher = app.sale(5).await;
        assert_eq!(app.app.services.store.sale(voucher).await.unwrap().unwrap().epoch, 1, "loaded once");
        app.admitted(&app.buy(&buyer, voucher).await);
    }
    app.execute("DROP TRIGGER slow ON flash_sale").await;
    app.finish().await;
}
