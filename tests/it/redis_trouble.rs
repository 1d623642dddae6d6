//! Redis stopped, hanging, killed, emptied, paused: buyers hear something definite soon, nothing is sold twice, and it heals
//! by itself.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use seckill::domain::ids::{Lane, VoucherId};

use crate::support::app::{Buyer, TestApp};
use crate::support::http::Answer;
use crate::support::redis::TestRedis;
use crate::support::until;

const SOON: Duration = Duration::from_secs(15);

async fn shop_on(redis: &TestRedis) -> TestApp {
    TestApp::with("--redis-url", &redis.url()).start().await
}

fn cookie(buyer: &Buyer) -> String {
    format!("seckill_session={}", buyer.token)
}

/// What has to be true at any moment while Redis is away: a click is answered within a second with one of `codes`, the
/// shop's page renders, and whoever was logged in still is.
async fn serves_without_redis(app: &TestApp, buyer: &Buyer, voucher: VoucherId, codes: &[&str]) {
    let started = Instant::now();
    let answer = app.buy(buyer, voucher).await;
    let took = started.elapsed();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(codes.contains(&answer.code().as_str()), "{}", answer.text());
    assert!(!answer.header("retry-after").is_empty());
    assert!(took < Duration::from_secs(1), "the click was answered after {took:?}");
    let page = app.http.page(Some(&cookie(buyer)), &format!("/shop/{}", app.shop)).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("下午茶") && page.text().contains("data-action=\"logout\""), "{}", page.text());
    assert_eq!(app.http.get_as(&buyer.token, "/api/user/me").await.data()["id"], buyer.id.0);
}

/// Keeps clicking for whoever got no order yet until the gate sells again; the one order of this buyer.
async fn sells_again(app: &TestApp, buyer: &Buyer, voucher: VoucherId) -> Answer {
    let answer = app.buy_for_sure(buyer, voucher).await;
    let id = app.admitted(&answer);
    app.settled().await;
    assert_eq!(app.order(buyer, id).await["status"], "PENDING");
    answer
}

async fn left_everywhere(app: &TestApp, voucher: VoucherId) -> (i64, i64) {
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    (sale.stock_left, app.app.services.gate.stocks(&[voucher]).await.unwrap()[0].unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_down_a_click_hears_busy_pages_render_and_it_heals_by_itself() {
    let mut redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(5).await, app.buyers(2).await);
    let first = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;
    assert_eq!(app.http.get("/readyz").await.status, 200);
    // Seen once while Redis was there: that is what "logged in" rests on now.
    app.http.get_as(&buyers[1].token, "/api/user/me").await.data();

    redis.kill();
    for round in 0..3 {
        // The first click may have been sent in the moment before the connection was known to be broken.
        let codes: &[&str] = if round == 0 { &["BUSY", "UNCERTAIN"] } else { &["BUSY"] };
        serves_without_redis(&app, &buyers[1], voucher, codes).await;
    }
    assert_eq!(app.http.get("/readyz").await.status, 503);
    assert_eq!(app.order(&buyers[0], first).await["status"], "PENDING", "orders are read from SQL");

    redis.start_again().await;
    sells_again(&app, &buyers[1], voucher).await;
    let again = app.buy(&buyers[0], voucher).await;
    assert_eq!((again.code(), again.json()["data"].clone()), ("DUPLICATE".into(), first.to_string().into()));
    assert_eq!(left_everywhere(&app, voucher).await, (3, 3));
    assert_eq!(app.http.get("/readyz").await.status, 200);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_hangs_a_click_is_answered_within_a_second_and_it_heals_by_itself() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(5).await, app.buyers(1).await);
    app.http.get_as(&buyers[0].token, "/api/user/me").await.data();

    redis.freeze();
    for _ in 0..3 {
        // A call that was sent to a server that hangs may still be run by it: that is "uncertain", not "nothing taken".
        serves_without_redis(&app, &buyers[0], voucher, &["BUSY", "UNCERTAIN"]).await;
    }
    redis.thaw();
    let answer = app.buy_for_sure(&buyers[0], voucher).await;
    // Admitted now, or by one of the clicks that nobody heard of: one order either way.
    let id = app.admitted_or_held(&answer);
    app.settled().await;
    assert_eq!(app.order(&buyers[0], id).await["status"], "PENDING");
    assert_eq!(left_everywhere(&app, voucher).await, (4, 4));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_redis_that_is_killed_is_started_again_and_the_sale_goes_on() {
    let app = TestApp::with("--redis-fsync", "always").start().await;
    let (voucher, buyers) = (app.sale(200).await, app.buyers(120).await);
    let first = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;
    let info: String = app.ask("INFO server").await;
    let pid = info.lines().find_map(|l| l.strip_prefix("process_id:")).unwrap().trim().parse().unwrap();

    // Killed under load: each buyer clicks until he hears something definite.
    let killer = async {
        until("some are sold", SOON, async || app.app.services.gate.stocks(&[voucher]).await.is_ok_and(|s| s[0] < Some(180)))
            .await;
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    };
    let clicks = async {
        let mut answers = Vec::new();
        for few in buyers[1..].chunks(10) {
            answers.extend(join_all(few.iter().map(|buyer| app.buy_for_sure(buyer, voucher))).await);
        }
        answers
    };
    let (answers, ()) = tokio::join!(clicks, killer);
    let ids: HashSet<_> = answers.iter().map(|a| app.admitted_or_held(a)).collect();
    assert_eq!(ids.len(), 119, "an order each");
    let info: String = app.ask("INFO server").await;
    assert!(!info.contains(&format!("process_id:{pid}\r")), "it is another process");
    app.settled().await;
    for (buyer, answer) in buyers[1..].iter().zip(&answers) {
        assert_eq!(app.order(buyer, app.admitted_or_held(answer)).await["status"], "PENDING", "{}", answer.text());
    }
    assert_eq!(app.http.get_as(&buyers[0].token, "/api/user/me").await.data()["id"], buyers[0].id.0, "sessions survive");
    assert_eq!(app.buy(&buyers[0], voucher).await.json()["data"], first.to_string());
    assert_eq!(left_everywhere(&app, voucher).await, (80, 80));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_redis_is_filled_from_sql_and_old_sessions_are_over() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, other, buyers) = (app.sale(10).await, app.sale(10).await, app.buyers(4).await);
    let mut ids = Vec::new();
    for buyer in &buyers[..3] {
        ids.push(app.admitted(&app.buy(buyer, voucher).await));
    }
    app.settled().await;

    for round in 0..2 {
        let before = app.app.services.store.sale(voucher).await.unwrap().unwrap().epoch;
        redis.ask::<()>("FLUSHALL").await;
        let emptied = Instant::now();
        let stranger = loop {
            // What a process read a moment ago it believes for a moment.
            let answer = app.http.get_as(&buyers[0].token, "/api/user/me").await;
            if answer.status != 200 || emptied.elapsed() > Duration::from_millis(1_100) {
                break answer;
            }
        };
        assert_eq!((stranger.status.as_u16(), stranger.code().as_str()), (401, "LOGIN_REQUIRED"), "round {round}");
        assert_eq!(app.buy(&buyers[0], voucher).await.status, 401);
        let page = app.http.page(Some(&cookie(&buyers[0])), "/orders").await;
        assert_eq!((page.status.as_u16(), page.header("location")), (303, "/login?next=%2Forders"));
        until("the gate is rebuilt without anybody asking for it", SOON, async || {
            app.app.services.store.sale(voucher).await.unwrap().unwrap().epoch > before
                && app.app.services.gate.snapshot(voucher).await.unwrap().sale.is_some_and(|s| s.open)
        })
        .await;
        let group: Vec<redis::Value> = redis.ask("XINFO GROUPS stream.orders:{0}").await;
        assert_eq!(group.len(), 1, "the group is there again");
        let held = app.buy_for_sure(&app.session_of(buyers[0].id).await, voucher).await;
        assert_eq!((held.code(), held.json()["data"].clone()), ("DUPLICATE".into(), ids[0].to_string().into()));
    }

    let late = app.session_of(buyers[3].id).await;
    sells_again(&app, &late, voucher).await;
    assert_eq!(left_everywhere(&app, voucher).await, (6, 6), "exactly the rest is on sale");
    // A sale that is made after the loss, and one that nobody had bought from, sell too.
    sells_again(&app, &late, other).await;
    let new = app.sale(2).await;
    sells_again(&app, &late, new).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_in_any_place_of_a_sale_heals_and_other_sales_go_on() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, other) = (app.sale(20).await, app.sale(20).await);
    for key in ["seckill:{0}:sale:V", "seckill:{0}:stock:V", "seckill:{0}:order:V", "stream.orders:{0}"] {
        let key = key.replace('V', &voucher.to_string());
        let buyers = app.buyers(4).await;
        for (buyer, of) in buyers.iter().zip([voucher, other]) {
            sells_again(&app, buyer, of).await;
        }
        app.ask::<i64>(&format!("DEL {key}")).await;
        app.ask::<i64>(&format!("LPUSH {key} x")).await;
        for (buyer, of) in buyers[2..].iter().zip([voucher, other]) {
            sells_again(&app, buyer, of).await;
        }
        app.balanced().await;
        assert_eq!(left_everywhere(&app, voucher).await.0, left_everywhere(&app, voucher).await.1, "{key}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_redis_is_not_asked_in_a_busy_loop() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    redis.ask::<()>("FLUSHALL").await;
    let before = redis.calls_of("xreadgroup").await;
    let started = Instant::now();
    until("it is still asked", SOON, async || redis.calls_of("xreadgroup").await >= before + 8).await;
    // Eight looks with a quarter of a second between them.
    assert!(started.elapsed() > Duration::from_millis(1200), "eight looks within {:?}", started.elapsed());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_in_hand_while_redis_is_emptied_end_with_a_verdict_and_cost_nothing() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(20).await, app.buyers(8).await);
    let lock = app.lock_writes().await;
    let mut told = Vec::new();
    for buyer in &buyers {
        let answer = app.buy(buyer, voucher).await;
        told.push((app.admitted(&answer), answer.json()["ticket"].as_str().unwrap().to_owned()));
    }
    until("the consumer has some of them in hand", SOON, async || {
        app.app.services.queue.depth(Lane(0)).await.unwrap().pending > 0
    })
    .await;
    redis.ask::<()>("FLUSHALL").await;
    lock.close().await;

    let mut live = 0;
    for (id, ticket) in &told {
        let mut verdict = serde_json::Value::Null;
        until("a verdict for each", SOON, async || {
            let answer = app.http.get(&format!("/api/voucher-order/{id}?ticket={ticket}")).await;
            verdict = answer.json()["data"]["status"].clone();
            verdict == "PENDING" || verdict == "FAILED"
        })
        .await;
        live += i64::from(verdict == "PENDING");
    }
    let buyer = app.session_of(buyers[0].id).await;
    app.admitted_or_held(&app.buy_for_sure(&buyer, voucher).await);
    app.settled().await;
    // Whoever was lost may have bought again.
    let now = i64::try_from(app.app.services.store.live_orders_of(voucher).await.unwrap().len()).unwrap();
    assert!((live..=live + 1).contains(&now), "{live} were saved, {now} are live");
    assert_eq!(left_everywhere(&app, voucher).await, (20 - now, 20 - now));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_whose_answer_was_lost_learns_the_order_that_he_got() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(5).await, app.buyers(3).await);
    app.http.get_as(&buyers[0].token, "/api/user/me").await.data();

    // Writes wait longer than the program waits for its answer: the script runs, and nobody hears what it said.
    redis.ask::<()>("CLIENT PAUSE 2000 WRITE").await;
    let started = Instant::now();
    let answers = join_all(buyers.iter().map(|buyer| app.buy(buyer, voucher))).await;
    assert!(started.elapsed() < Duration::from_millis(1200), "{:?}", started.elapsed());
    let uncertain = answers.iter().filter(|a| a.status == 503 && a.code() == "UNCERTAIN").count();
    assert!(uncertain >= 1, "{}", answers[0].text());
    assert!(answers.iter().all(|a| a.status == 503), "nobody can have been admitted for certain");
    redis.ask::<()>("CLIENT UNPAUSE").await;

    for buyer in &buyers {
        let again = app.buy_for_sure(buyer, voucher).await;
        let id = app.admitted_or_held(&again);
        assert!(!again.json()["ticket"].as_str().unwrap().is_empty());
        app.settled().await;
        assert_eq!(app.order(buyer, id).await["status"], "PENDING");
        assert_eq!(app.buy(buyer, voucher).await.json()["data"], id.to_string());
    }
    assert_eq!(left_everywhere(&app, voucher).await, (2, 2), "one unit each");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_in_the_middle_of_a_burst_cost_nobody_his_order() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(200).await, app.buyers(200).await);
    let mut burst = Box::pin(join_all(buyers.chunks(10).map(async |few| {
        let mut answers = Vec::new();
        for buyer in few {
            answers.push(app.buy(buyer, voucher).await);
        }
        answers
    })));
    let mut flushes = 0;
    let answers = loop {
        tokio::select! {
            answers = &mut burst => break answers,
            () = redis.ask::<()>("SCRIPT FLUSH") => flushes += 1,
        }
    };
    drop(burst);
    assert!(flushes >= 5, "the scripts were flushed in the middle: {flushes}");
    let ids: HashSet<_> = answers.iter().flatten().map(|answer| app.admitted(answer)).collect();
    assert_eq!(ids.len(), 200, "each was executed once");
    app.settled().await;
    assert_eq!(left_everywhere(&app, voucher).await, (0, 0));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_id_counter_repeats_no_order_id_on_any_instance() {
    let redis = TestRedis::start().await;
    let app = shop_on(&redis).await;
    let (voucher, buyers) = (app.sale(100).await, app.buyers(100).await);
    let mut ids = HashSet::new();
    for answer in join_all(buyers[..50].iter().map(|b| app.buy(b, voucher))).await {
        ids.insert(app.admitted(&answer));
    }
    let counter = format!("icr:order:{}", app.clock.now().rfc3339()[..10].replace('-', ":"));
    let life: i64 = redis.ask(&format!("TTL {counter}")).await;
    assert!((1..=172_800).contains(&life), "the counter expires: {life}");
    let removed: i64 = redis.ask(&format!("DEL {counter}")).await;
    assert_eq!(removed, 1, "{counter} was there");
    // A second instance takes its block from a counter that begins again.
    let second = app.beside(&[]).await;
    let halves = join_all(buyers[50..].iter().enumerate().map(async |(i, buyer)| {
        let instance = if i % 2 == 0 { &app } else { &second };
        instance.buy_for_sure(buyer, voucher).await
    }));
    for answer in halves.await {
        ids.insert(app.admitted(&answer));
    }
    assert_eq!(ids.len(), 100, "a hundred different ids");
    app.settled().await;
    let rows = app.app.services.store.live_orders_of(voucher).await.unwrap();
    assert_eq!(rows.into_iter().map(|(_, id)| id).collect::<HashSet<_>>(), ids);
    second.finish().await;
    app.finish().await;
}
