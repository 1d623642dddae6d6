//! A Redis or a database that gives no answer costs the first who asks a moment, and nobody after him.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seckill::shutdown::Shutdown;

use crate::support::app::{On, TestApp};
use crate::support::postgres::{fresh_database, slowed};
use crate::support::redis::TestRedis;
use crate::support::until;

const SOON: Duration = Duration::from_secs(15);

async fn get(redis: &seckill::redis::Redis) -> redis::RedisResult<Option<String>> {
    redis::cmd("GET").arg("nothing").query_async(&mut redis.shared()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_redis_is_asked_by_one_ping_a_second_however_many_want_to() {
    let server = TestRedis::start().await;
    let redis = server.open().await;
    assert_eq!(get(&redis).await.unwrap(), None);
    let (gets, pings) = (server.calls_of("get").await, server.calls_of("ping").await);
    server.freeze();
    let first = get(&redis).await.unwrap_err();
    assert!(first.is_timeout(), "{first}");
    // A storm for three seconds: nothing of it may reach the server, not even when it comes back.
    let storm = Instant::now();
    while storm.elapsed() < Duration::from_secs(3) {
        for answer in join_all((0..200).map(|_| get(&redis))).await {
            assert!(answer.unwrap_err().is_connection_refusal(), "refused at once, not waited for");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.thaw();
    let thawed = Instant::now();
    until("calls go through again", SOON, async || get(&redis).await.is_ok()).await;
    let back = thawed.elapsed();
    assert!(back < Duration::from_secs(3), "seen after {back:?}");
    let (gets, pings) = (server.calls_of("get").await - gets, server.calls_of("ping").await - pings);
    assert_eq!(gets, 2, "the first and the last");
    let most = 2 + (storm.elapsed() + back).as_secs() + 1;
    assert!((2..=most).contains(&pings), "{pings} probes");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_silent_only_the_first_click_waits_and_pages_come_at_once() {
    let mut redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyers) = (app.sale(50).await, app.buyers(12).await);
    join_all(buyers.iter().map(|buyer| app.http.get_as(&buyer.token, "/api/user/me"))).await;

    for hangs in [true, false] {
        if hangs {
            redis.freeze();
        } else {
            redis.kill();
        }
        let started = Instant::now();
        let first = app.buy(&buyers[0], voucher).await;
        assert!(first.status == 503 && started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
        // From now on nothing is sent, so nothing is uncertain.
        until("the breaker is open", SOON, async || app.buy(&buyers[0], voucher).await.code() == "BUSY").await;
        for _ in 0..10 {
            let clicks = join_all(buyers.iter().map(|buyer| app.buy(buyer, voucher))).await;
            assert!(clicks.iter().all(|a| a.code() == "BUSY" && !a.header("retry-after").is_empty()));
        }
        let page = app.http.page(Some(&format!("seckill_session={}", buyers[1].token)), &format!("/shop/{}", app.shop)).await;
        assert!(page.status == 200 && page.text().contains("data-action=\"logout\""));
        assert_eq!(app.http.get("/readyz").await.status, 503);
        if hangs {
            redis.thaw();
        } else {
            redis.start_again().await;
        }
        let back = Instant::now();
        app.admitted_or_held(&app.buy_for_sure(&buyers[2], voucher).await);
        // After a restart the gate is rebuilt too.
        assert!(back.elapsed() < Duration::from_secs(8), "{:?}", back.elapsed());
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_another_program_holds_the_database_every_write_is_told_busy_soon() {
    let app = TestApp::start().await;
    let (voucher, buyer, admin) = (app.sale(5).await, app.buyer().await, app.admin().await);
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let lock = app.lock_writes().await;
    let cancel = format!("/api/voucher-order/{id}/cancel");
    let register = serde_json::json!({"phone": "13912345678", "password": "korrekt pferd"});
    let password = serde_json::json!({"oldPassword": "korrekt pferd", "newPassword": "anderes pferd 2"});
    let shop = serde_json::json!({"name": "新店"});
    let body = serde_json::json!({"shopId": app.shop, "title": "茶", "payValue": 100, "actualValue": 200});
    for _ in 0..2 {
        let started = Instant::now();
        let answers = tokio::join!(
            app.http.post_as(&buyer.token, &cancel),
            app.http.json(None, "/api/user/register", &register),
            app.http.json(Some(&admin.token), "/api/user/password", &password),
            app.http.json(Some(&admin.token), "/api/shop", &shop),
            app.http.json(Some(&admin.token), "/api/voucher", &body),
        );
        let took = started.elapsed();
        for answer in [answers.0, answers.1, answers.2, answers.3, answers.4] {
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "BUSY"), "{}", answer.text());
        }
        // A second, and what five password hashes take on a crowded machine; the lock alone would be five.
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
    lock.close().await;
    until("writes go through again", SOON, async || app.http.post_as(&buyer.token, &cancel).await.status == 200).await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_postgres_says_nothing_everybody_hears_busy_soon_and_clicks_go_on() {
    let (tasks, database) = (Shutdown::default(), fresh_database().await);
    let (url, delay_ms) = slowed(&database, &tasks).await;
    let app = TestApp::on(On::Postgres).with("--database-url", &url).start().await;
    let (voucher, buyers, admin) = (app.sale(50).await, app.buyers(20).await, app.admin().await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;
    // Every connection was used a moment ago: none is looked at before it is asked.
    join_all((0..20).map(|_| app.http.get_as(&buyers[0].token, "/api/voucher-order"))).await;
    delay_ms.store(60_000, Ordering::SeqCst);
    let cancel = format!("/api/voucher-order/{id}/cancel");
    let register = serde_json::json!({"phone": "13912345678", "password": "korrekt pferd"});
    let body = serde_json::json!({"shopId": app.shop, "title": "茶", "payValue": 100, "actualValue": 200});
    for _ in 0..2 {
        let started = Instant::now();
        let answers = tokio::join!(
            app.http.get_as(&buyers[0].token, "/api/voucher-order"),
            app.http.post_as(&buyers[0].token, &cancel),
            app.http.json(None, "/api/user/register", &register),
            app.http.json(Some(&admin.token), "/api/voucher", &body),
            app.http.get("/readyz"),
        );
        let took = started.elapsed();
        for answer in [&answers.0, &answers.1, &answers.2, &answers.3] {
            assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "BUSY"), "{}", answer.text());
        }
        assert_eq!(answers.4.status, 503);
        // A second, and what a password's hash takes on a crowded machine; without the limit it would be twelve.
        assert!(took < Duration::from_secs(3), "{took:?}");
    }
    let started = Instant::now();
    for buyer in &buyers[1..] {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    delay_ms.store(0, Ordering::SeqCst);
    until("it answers again", Duration::from_secs(90), async || app.http.post_as(&buyers[0].token, &cancel).await.status == 200)
        .await;
    app.finish().await;
    tasks.begin();
}
