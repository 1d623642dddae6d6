//! Who gets the last unit: buyers on two instances, one buyer at two doors, clicks at the very edges of the window, ids that
//! stay the same digit for digit.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use seckill::domain::time::Millis;

use crate::support::app::TestApp;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::socket::Socket;
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_together_sell_exactly_what_there_is() {
    let redis = TestRedis::start().await;
    let mut shop = Shop::with(&["--redis-url", &redis.url()]).await;
    let mut one = shop.serve(&[]).await;
    shop.seed(300).await;
    let mut sales = Vec::new();
    for stock in [10, 1, 0] {
        sales.push((shop.sale(&one.http, stock).await, stock));
    }
    let mut two = shop.serve(&[]).await;
    for (voucher, stock) in sales {
        let key = format!("seckill:{{0}}:stock:{voucher}");
        let selling = AtomicBool::new(true);
        let watch = async {
            let mut seen = Vec::new();
            while selling.load(Ordering::Relaxed) {
                seen.push(redis.ask::<i64>(&format!("GET {key}")).await);
            }
            seen
        };
        let path = format!("/api/voucher-order/seckill/{voucher}");
        let clicks = async {
            let all: Vec<_> = shop.buyers.iter().enumerate().collect();
            let crowd = join_all(all.chunks(5).map(async |few| {
                let mut answers = Vec::new();
                for (i, token) in few {
                    let instance = if i % 2 == 0 { &one } else { &two };
                    answers.push(instance.http.post_as(token, &path).await);
                }
                answers
            }));
            let answers: Vec<_> = crowd.await.into_iter().flatten().collect();
            selling.store(false, Ordering::Relaxed);
            answers
        };
        let (seen, answers) = tokio::join!(watch, clicks);
        assert!(seen.iter().all(|left| (0..=stock).contains(left)), "{seen:?}");
        let won: HashSet<String> =
            answers.iter().filter(|a| a.json()["success"] == true).map(|a| a.data().as_str().unwrap().to_owned()).collect();
        assert_eq!(i64::try_from(won.len()).unwrap(), stock);
        for lost in answers.iter().filter(|a| a.json()["success"] == false) {
            assert_eq!((lost.status.as_u16(), lost.code().as_str()), (200, "SOLD_OUT"));
        }
        assert_eq!(redis.ask::<i64>(&format!("GET {key}")).await, 0);
    }
    until("all orders are saved", Duration::from_secs(15), async || redis.ask::<i64>("XLEN stream.orders:{0}").await == 0).await;
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE live").await, 11);
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE NOT live").await, 0);
    assert_eq!(shop.count("SELECT SUM(stock_left) FROM flash_sale").await, 0);
    shop.audited().await;
    assert_eq!((one.terminate().await, two.terminate().await), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sale_can_be_bought_on_every_instance_within_a_second() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let second = app.beside(&[]).await;
    let (voucher, buyer) = (app.sale(3).await, app.buyer().await);
    until("the other instance sells it", Duration::from_secs(1), async || {
        second.buy(&buyer, voucher).await.json()["success"] == true
    })
    .await;
    second.finish().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_at_two_doors_with_two_tabs_gets_one_order_and_each_tab_hears_of_it_once() {
    let app = TestApp::start().await;
    let (voucher, first) = (app.sale(100).await, app.buyer().await);
    let second = app.session_of(first.id).await;
    let (mut left, _) = Socket::of(&app.base, &first.token).await;
    let (mut right, _) = Socket::of(&app.base, &second.token).await;
    let (cookie, bearer) = (format!("seckill_session={}", first.token), format!("Bearer {}", second.token));
    let path = format!("/api/voucher-order/seckill/{voucher}");
    let clicks = (0..64).map(|i| {
        let headers = if i % 2 == 0 {
            vec![("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")]
        } else {
            vec![("authorization", bearer.as_str())]
        };
        let (http, path) = (&app.http, &path);
        async move { http.send(Method::POST, path, &headers, "").await }
    });
    let ids: HashSet<_> = join_all(clicks).await.iter().map(|answer| app.admitted_or_held(answer)).collect();
    assert_eq!(ids.len(), 1, "every answer names the one order: {ids:?}");
    for tab in [&mut left, &mut right] {
        assert_eq!(tab.wait_for("order.created").await["order"]["id"], ids.iter().next().unwrap().to_string());
        assert!(tab.hears_no("order.created", Duration::from_millis(200)).await, "told twice");
    }
    app.settled().await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.stock_left, app.app.services.gate.stocks(&[voucher]).await.unwrap()[0]), (99, Some(99)));
    app.finish().await;
}

/// The begin belongs to the sale, the end does not; page and purchase agree. Each answer is judged by the instants around
/// it: whatever lay wholly before, inside or after the window has one right answer.
#[tokio::test(flavor = "multi_thread")]
async fn the_begin_belongs_to_the_sale_and_the_end_does_not_on_the_page_and_at_the_gate() {
    let app = TestApp::start().await;
    let buyers = app.buyers(1000).await;
    let voucher = app.sale_between(2000, 1_000, 1_900).await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    // How often an answer was judged: before, inside, after.
    let mut judged = [0; 3];
    let mut judge = |asked: Millis, answered: Millis, said: &str, words: [&str; 3]| {
        let place = if answered < sale.begin {
            0
        } else if asked >= sale.begin && answered < sale.end {
            1
        } else if asked >= sale.end {
            2
        } else {
            return judged;
        };
        assert_eq!(said, words[place], "asked {asked:?}, answered {answered:?}, {}..{}", sale.begin.0, sale.end.0);
        judged[place] += 1;
        judged
    };
    let (mut so_far, mut waiting) = ([0; 3], buyers.iter().peekable());
    while let Some(buyer) = waiting.peek() {
        let asked = app.clock.now();
        let answer = app.buy(buyer, voucher).await;
        let said = if answer.json()["success"] == true { String::from("OK") } else { answer.code() };
        judge(asked, app.clock.now(), &said, ["NOT_BEGUN", "OK", "ENDED"]);
        if said == "OK" {
            waiting.next();
        }
        let asked = app.clock.now();
        let page = app.http.page(None, &format!("/shop/{}", app.shop)).await.text();
        let said = ["soon", "open", "ended"].into_iter().find(|s| page.contains(&format!("data-state=\"{s}\""))).unwrap();
        so_far = judge(asked, app.clock.now(), said, ["soon", "open", "ended"]);
        if so_far[2] > 20 {
            break;
        }
    }
    assert!(so_far.iter().all(|n| *n > 2), "before, inside, after: {so_far:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_id_is_the_same_digit_for_digit_everywhere() {
    let redis = TestRedis::start().await;
    // Without a worker: the entries stay to be looked at.
    let app = TestApp::with("--redis-url", &redis.url()).with("--roles", "web").start().await;
    let worker = app.beside(&["--roles", "worker"]).await;
    let (voucher, buyers) = (app.sale(10).await, app.buyers(4).await);
    worker.abandon("only needed to make nothing differ from production: a sale is loaded by whoever made it").await;
    let mut told = Vec::new();
    for buyer in &buyers {
        told.push(app.buy(buyer, voucher).await.data().as_str().unwrap().to_owned());
    }
    assert!(told.iter().all(|id| id.parse::<i64>().unwrap() > 1 << 53), "{told:?}");
    assert!(told.iter().any(|id| id.parse::<i64>().unwrap() % 2 == 1), "one is odd: {told:?}");
    let entries: Vec<(String, Vec<String>)> = redis.ask("XRANGE stream.orders:{0} - +").await;
    let queued: Vec<&String> = entries.iter().map(|(_, fields)| &fields[1]).collect();
    assert_eq!(queued, told.iter().collect::<Vec<_>>(), "in the stream");
    for (buyer, id) in buyers.iter().zip(&told) {
        let held: String = redis.ask(&format!("HGET seckill:{{0}}:order:{voucher} {}", buyer.id)).await;
        assert_eq!(&held, id, "as a holder");
        assert_eq!(app.order(buyer, id.parse().unwrap()).await["id"], id.as_str(), "queued, in JSON");
    }
    let worker = app.beside(&["--roles", "worker"]).await;
    app.settled().await;
    for (buyer, id) in buyers.iter().zip(&told) {
        assert_eq!(app.order(buyer, id.parse().unwrap()).await["id"], id.as_str(), "saved, in JSON");
        let cookie = format!("seckill_session={}", buyer.token);
        let page = app.http.page(Some(&cookie), "/orders").await.text();
        assert!(page.contains(&format!("data-order=\"{id}\"")) && page.contains(&format!("href=\"/orders/{id}\"")), "{page}");
        let (_socket, snapshot) = Socket::of(&app.base, &buyer.token).await;
        assert_eq!(snapshot["orders"][0]["id"], id.as_str(), "in a socket's message");
    }
    let rows: Vec<(String,)> = app.sql().await.rows("SELECT CAST(id AS TEXT) FROM orders ORDER BY id").await;
    let rows: Vec<String> = rows.into_iter().map(|(id,)| id).collect();
    assert_eq!(rows, told, "in SQL");
    // Ids that no double can hold are told apart, and unknown ones stay unknown.
    for unknown in ["9007199254740993", "9223372036854775807"] {
        let answer = app.http.post_as(&buyers[0].token, &format!("/api/voucher-order/seckill/{unknown}")).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{unknown}: {}", answer.text());
    }
    worker.finish().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_posted_again_leads_to_the_order_that_is_there() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(1).await, app.buyers(2).await);
    let cookie = format!("seckill_session={}", buyers[0].token);
    let path = format!("/vouchers/{voucher}/buy");
    // A double click, then a reload of the answer.
    let mut answers = join_all((0..10).map(|_| app.http.form(Some(&cookie), &path, ""))).await;
    answers.push(app.http.form(Some(&cookie), &path, "").await);
    app.settled().await;
    answers.push(app.http.form(Some(&cookie), &path, "").await);
    let places: HashSet<&str> = answers.iter().map(|a| a.header("location")).collect();
    assert!(answers.iter().all(|a| a.status == 303), "{:?}", answers.iter().map(|a| a.status).collect::<Vec<_>>());
    let [place] = places.into_iter().collect::<Vec<_>>()[..] else { panic!("one order, one address") };
    let id = app.app.services.store.live_order_of(buyers[0].id, voucher).await.unwrap().unwrap().id;
    assert_eq!(place, format!("/orders/{id}"));
    let page = app.http.page(Some(&cookie), place).await;
    assert!(page.status == 200 && page.text().contains("data-status=\"PENDING\""));
    // Somebody else hears plainly that he is late.
    let other = format!("seckill_session={}", buyers[1].token);
    let late = app.http.form(Some(&other), &path, "").await;
    assert!(late.status == 200 && late.text().contains("role=\"alert\"") && late.text().contains("库存不足"), "{}", late.text());
    app.finish().await;
}
