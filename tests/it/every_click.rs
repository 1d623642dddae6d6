//! Every click ends in one verdict, and page, API, push and database say the same of it, whatever dies in between.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a crowd is tasks of its own, and its figures are for whoever reads the run"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use seckill::domain::ids::VoucherId;

use crate::support::app::{Buyer, On, TestApp};
use crate::support::http::Http;
use crate::support::long;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::sql::Sql;
use crate::support::tab::Tab;

/// How one buyer's click ended.
enum End {
    Won(String, String),
    Refused(String),
}

/// Clicks until there is an answer, as a person does who is told "click again".
async fn click(http: &Http, token: &str, voucher: i64) -> End {
    let path = format!("/api/voucher-order/seckill/{voucher}");
    loop {
        if let Ok(answer) = http.try_send(http::Method::POST, &path, &[("authorization", token)], "").await {
            let json = answer.json();
            if json["success"] == true || json["code"] == "DUPLICATE" {
                return End::Won(json["data"].as_str().unwrap().to_owned(), json["ticket"].as_str().unwrap().to_owned());
            }
            if answer.status == 200 {
                return End::Refused(json["code"].as_str().unwrap().to_owned());
            }
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(50..200))).await;
    }
}

/// Clicks of all buyers over some connections, in their order.
async fn stampede(http: &Http, buyers: &Arc<Vec<String>>, voucher: i64, done: &Arc<AtomicUsize>) -> Vec<End> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..64).map(|_| {
        let (http, buyers, next, done) = (http.clone(), buyers.clone(), next.clone(), done.clone());
        tokio::task::spawn(async move {
            let mut ends = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(token) = buyers.get(i) else { return ends };
                ends.push((i, click(&http, token, voucher).await));
                done.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let mut all: Vec<(usize, End)> = join_all(clients).await.into_iter().flat_map(Result::unwrap).collect();
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, end)| end).collect()
}

async fn in_database(shop: &Shop) -> HashMap<String, String> {
    let rows: Vec<(i64, String)> = Sql::open(&shop.database_url().await).await.rows("SELECT id, status FROM orders").await;
    rows.into_iter().map(|(id, status)| (id.to_string(), status)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_click_has_its_verdict_though_the_worker_dies_twice_and_four_witnesses_agree() {
    let (crowd, units) = if long() { (20_000, 500) } else { (2_000, 50) };
    let redis = TestRedis::start().await;
    let mut shop = Shop::with(&["--redis-url", &redis.url()]).await;
    shop.seed(crowd).await;
    let web = shop.serve(&["--roles", "web"]).await;
    let mut worker = shop.serve(&["--roles", "worker"]).await;
    let voucher = shop.sale(&web.http, units).await;
    let buyers = Arc::new(shop.buyers.clone());
    let tabs: Vec<Tab> = buyers[..crowd / 4].iter().map(|token| Tab::steady(&web.base, token)).collect();
    while tabs.iter().any(|t| t.shown.lock().unwrap().connections == 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let done = Arc::new(AtomicUsize::new(0));
    let storm = stampede(&web.http, &buyers, voucher, &done);
    let killing = async {
        for part in [100, 4] {
            while done.load(Ordering::Relaxed) < crowd / part {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            worker.kill().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            worker = shop.serve(&["--roles", "worker"]).await;
        }
        Instant::now()
    };
    let (ends, last_fault) = tokio::join!(storm, killing);
    let winners: Vec<(usize, &String, &String)> = ends
        .iter()
        .enumerate()
        .filter_map(|(i, end)| match end {
            End::Won(order, ticket) => Some((i, order, ticket)),
            End::Refused(code) => {
                assert_eq!(code, "SOLD_OUT");
                None
            }
        })
        .collect();
    assert_eq!(winners.len(), usize::try_from(units).unwrap(), "as many winners as units");

    // Final for everybody within a minute of the last fault.
    for (_, order, ticket) in &winners {
        loop {
            let answer = web.http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await;
            if answer.status == 200 && answer.json()["data"]["status"] != "QUEUED" {
                break;
            }
            assert!(last_fault.elapsed() < Duration::from_mins(1), "{order}: {}", answer.text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let final_after = last_fault.elapsed();

    // A third of them changes its mind, so that there is more than one state to agree on.
    for (i, order, _) in winners.iter().step_by(3) {
        web.http.post_as(&buyers[*i], &format!("/api/voucher-order/{order}/cancel")).await.data();
    }
    // A lost push is made good within a few seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let rows = in_database(&shop).await;
    let mut contradictions: Vec<String> = Vec::new();
    let mut pushed = 0;
    for (i, order, ticket) in &winners {
        let row = rows.get(*order).map_or("none", String::as_str);
        let api = web.http.get_as(&buyers[*i], &format!("/api/voucher-order/{order}")).await.data();
        let by_ticket = web.http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await.data();
        let page = web.http.page(Some(&format!("seckill_session={}", buyers[*i])), &format!("/orders/{order}")).await.text();
        let push = tabs.get(*i).map(|tab| tab.status(order).unwrap_or_default());
        pushed += usize::from(push.is_some());
        let same = api["status"] == row
            && by_ticket["status"] == row
            && page.contains(&format!("data-order=\"{order}\" data-status=\"{row}\""))
            && push.as_deref().is_none_or(|status| status == row);
        if !same {
            contradictions
                .push(format!("{order}: row {row}, API {}, ticket {}, push {push:?}", api["status"], by_ticket["status"]));
        }
    }
    for tab in &tabs {
        contradictions.append(&mut tab.shown.lock().unwrap().contradictions);
    }
    assert_eq!(contradictions, Vec::<String>::new());
    eprintln!(
        "{crowd} buyers, {units} units, the worker killed twice: all final {} ms after the last fault; {} orders and {pushed} pushes agree",
        final_after.as_millis(),
        winners.len(),
    );
    drop(tabs);
    shop.audited().await;
}

fn percentile(times: &mut [Duration], of_hundred: usize) -> Duration {
    times.sort();
    times[(times.len() - 1) * of_hundred / 100]
}

/// A sale and its buyers: the merchant's writes, not the click's.
async fn prepared(app: &TestApp, count: usize) -> (VoucherId, Vec<Buyer>) {
    (app.sale(i64::try_from(count).unwrap()).await, app.buyers(count).await)
}

/// Median and 99th percentile of a click.
async fn purchases(app: &TestApp, (voucher, buyers): (VoucherId, Vec<Buyer>)) -> (Duration, Duration) {
    let count = buyers.len();
    let mut times = Vec::with_capacity(count);
    let mut ticks = tokio::time::interval(Duration::from_millis(3));
    for buyer in &buyers {
        ticks.tick().await;
        let begun = Instant::now();
        let answer = app.buy(buyer, voucher).await;
        times.push(begun.elapsed());
        app.admitted(&answer);
    }
    (percentile(&mut times, 50), percentile(&mut times, 99))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_does_not_wait_for_a_database_whose_every_write_takes_half_a_second() {
    let app = TestApp::on(On::Postgres).with("--redis-fsync", "everysec").start().await;
    let count = if long() { 2_000 } else { 400 };
    purchases(&app, prepared(&app, 100).await).await; // warm
    let (fast_median, fast) = purchases(&app, prepared(&app, count).await).await;
    let ready = prepared(&app, count).await;
    app.settled().await;
    let mut hand = app.sql().await;
    hand.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END $$",
    )
    .await;
    for table in ["orders", "flash_sale", "id_block", "outbox", "payment", "dead_letter"] {
        let when = format!("AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH STATEMENT");
        hand.execute(&format!("CREATE TRIGGER slow {when} EXECUTE FUNCTION slow()")).await;
    }
    let (slow_median, slow) = purchases(&app, ready).await;
    eprintln!(
        "purchase with a quick database: median {fast_median:?}, p99 {fast:?}; with 500 ms for every write: median {slow_median:?}, p99 {slow:?}"
    );
    // Wide, for a machine that does other things as well; a click that waits for one write takes 500 ms.
    assert!(slow < fast + Duration::from_millis(if long() { 20 } else { 100 }), "{slow:?}");
    assert!(slow_median < fast_median + Duration::from_millis(5), "{slow_median:?}");
    for table in ["orders", "flash_sale", "id_block", "outbox", "payment", "dead_letter"] {
        hand.execute(&format!("DROP TRIGGER slow ON {table}")).await;
    }
    app.finish().await;
}
