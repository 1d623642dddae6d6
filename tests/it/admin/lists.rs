//! Every number of the control room opens its list: sockets, what waits, the last seconds, what moved the stock; and what a
//! dead letter's page promises is what a decision does.

use std::time::Duration;

use scraper::{Html, Selector};
use seckill::domain::ids::Lane;
use seckill::store::DeadLetter;
use serde_json::json;

use crate::support::app::{Buyer, TestApp};
use crate::support::socket::Socket;

async fn page(app: &TestApp, admin: &Buyer, path: &str) -> String {
    let cookie = format!("seckill_session={}; lang=en", admin.token);
    let answer = app.http.page(Some(&cookie), path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// What stands in each element that fits, its white space made one.
fn texts(html: &str, selector: &str) -> Vec<String> {
    let html = Html::parse_document(html);
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    html.select(&Selector::parse(selector).unwrap()).map(|element| words(element.text().collect())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_three_numbers_of_the_moment_open_their_lists() {
    let app = TestApp::with("--roles", "web").start().await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(3).await, app.sale(5).await);
    let (mut socket, _) = Socket::of(&app.base, &buyers[0].token).await;
    socket.send(&json!({ "type": "watch", "voucherId": voucher }).to_string()).await;
    socket.wait_for("voucher.stock").await;
    let orders = [app.admitted(&app.buy(&buyers[0], voucher).await), app.admitted(&app.buy(&buyers[1], voucher).await)];

    let room = page(&app, &admin, "/admin").await;
    for (number, path) in [("rate", "/admin/seconds"), ("lag", "/admin/waiting"), ("sockets", "/admin/sockets")] {
        assert_eq!(texts(&room, &format!("a[href='{path}'] [data-number='{number}']")).len(), 1, "{number}");
    }
    let sockets = page(&app, &admin, "/admin/sockets").await;
    let lines = texts(&sockets, "[data-list] li");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(&format!("user {} 下午茶", buyers[0].id)), "{lines:?}");
    assert!(sockets.contains(&app.app.services.desk.process), "it says whose they are");
    assert_eq!(texts(&page(&app, &admin, "/admin/sockets?by=sale").await, "[data-list] li"), ["下午茶 1"]);
    assert!(!sockets.contains(&buyers[0].token), "no secret of a session");

    // One is with a consumer, one with nobody; both are on their way.
    let mut reader = app.app.services.queue.reader(Lane(0));
    assert_eq!(reader.read_new(1, Duration::from_millis(50)).await.unwrap().len(), 1);
    let waiting = texts(&page(&app, &admin, "/admin/waiting").await, "[data-list] li");
    assert_eq!(waiting.len(), 2);
    assert!(waiting[0].starts_with(&format!("Being saved {} user {} 下午茶", orders[0], buyers[0].id)), "{waiting:?}");
    assert!(waiting[0].contains(reader.consumer()), "{waiting:?}");
    assert!(waiting[1].starts_with(&format!("Not taken yet {} user {}", orders[1], buyers[1].id)), "{waiting:?}");
    // An entry that nobody can read waits, too.
    app.ask::<String>("XADD stream.orders:{0} * foo bar").await;
    assert!(texts(&page(&app, &admin, "/admin/waiting").await, "[data-list] li")[2].starts_with("Unreadable"));

    let give_up = tokio::time::Instant::now() + Duration::from_secs(15);
    loop {
        let rows = texts(&page(&app, &admin, "/admin/seconds").await, "[data-list] tbody tr");
        if rows.iter().any(|row| row.ends_with("0003")) {
            break; // a second in which three waited
        }
        assert!(tokio::time::Instant::now() < give_up, "{rows:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    page(&app, &admin, &format!("/admin/seconds?voucherId={voucher}")).await;
    let cookie = format!("seckill_session={}", admin.token);
    assert_eq!(app.http.page(Some(&cookie), "/admin/seconds?voucherId=999999").await.status, 404);
    let cookie = format!("seckill_session={}", buyers[0].token);
    for path in ["/admin/sockets", "/admin/waiting", "/admin/seconds"] {
        assert_eq!(app.http.page(Some(&cookie), path).await.status, 403, "{path}");
        assert_eq!(app.http.page(None, path).await.status, 303, "{path}");
    }
    app.abandon("entries that wait are what this is about").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_the_stock_has_the_shops_own_repairs_in_it() {
    let app = TestApp::start().await;
    let (admin, voucher) = (app.admin().await, app.sale(5).await);
    // More lines of other things than a page has, so that the sale's own are looked for and not filtered from the newest.
    let mut tx = app.app.services.store.begin().await.unwrap();
    for (action, subject) in [("gate.rebuild", format!("voucher {voucher}")), ("books.mend", format!("voucher {voucher}"))] {
        let before = Some("sum: epoch 1, I 5, D 5, gate: stock 4, holders 0");
        tx.audit("system", action, &subject, before, Some("epoch 2, I 5, D 5, A 0"), app.clock.now()).await.unwrap();
    }
    for _ in 0..120 {
        tx.audit("2", "user.logout", "user 7", None, None, app.clock.now()).await.unwrap();
    }
    tx.commit().await.unwrap();
    let lines = texts(&page(&app, &admin, &format!("/admin/vouchers/{voucher}/stock")).await, "[data-list] li");
    let has = |words: &str| lines.iter().any(|line| line.contains(words));
    assert!(has("Gate rebuilt by itself") && has("Repaired by itself") && has("Sale made"), "{lines:?}");
    assert!(has("stock and holders were not the total; epoch 1 → 2, Redis left 4"), "{lines:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_promises_only_what_a_decision_does() {
    let app = TestApp::with("--roles", "web").start().await;
    let (admin, buyer, voucher) = (app.admin().await, app.buyer().await, app.sale(5).await);
    let epoch = app.app.services.store.sale(voucher).await.unwrap().unwrap().epoch;
    let entry = |voucher: i64, user: i64, epoch: i64| {
        let (user, voucher, epoch) = (user.to_string(), voucher.to_string(), epoch.to_string());
        json!({ "id": "610467457244596251", "userId": user, "voucherId": voucher, "epoch": epoch, "admittedAt": "1" }).to_string()
    };
    let letters = [
        (entry(voucher.0, buyer.id.0, epoch), "the unit returns", true),
        (entry(999_999, buyer.id.0, epoch), "no unit returns", false),
        (entry(voucher.0, 999_999, epoch), "nobody is told", false),
        (entry(voucher.0, buyer.id.0, epoch + 9), "neither be saved nor discarded", false),
        (String::from("{\"foo\":\"bar\"}"), "no unit returns", false),
    ];
    let mut tx = app.app.services.store.begin().await.unwrap();
    for (i, (entry, ..)) in letters.iter().enumerate() {
        let stream_id = format!("7-{i}");
        let letter =
            DeadLetter { stream_id, lane: Lane(0), entry_json: entry.clone(), reason: String::from("no voucher 999999") };
        assert!(tx.bury(&letter, app.clock.now()).await.unwrap());
    }
    tx.commit().await.unwrap();
    let before = app.app.services.store.tally(voucher).await.unwrap().unwrap();
    let html = page(&app, &admin, "/admin/dead-letters").await;
    let shown = texts(&html, "[data-dead-letter]");
    for ((_, promise, retry), shown) in letters.iter().rev().zip(&shown) {
        assert!(shown.contains(promise) && shown.contains("Try again") == *retry, "{promise}: {shown}");
        assert!(shown.contains("There is no voucher 999999."), "{shown}");
    }
    // The one of an unknown voucher: closed, and the books stand as they stood.
    let id = app.app.services.store.dead_letters(None, 10).await.unwrap()[3].id;
    let question = page(&app, &admin, &format!("/admin/dead-letters/{id}/discard")).await;
    assert!(question.contains("no unit returns, nobody is told") && !question.contains("return the unit"), "{question}");
    let cookie = format!("seckill_session={}; lang=en", admin.token);
    let retried = app.http.form(Some(&cookie), &format!("/admin/dead-letters/{id}/retry"), "").await;
    assert_eq!(retried.status, 409, "whoever tries it all the same is told");
    assert!(retried.text().contains("There is no voucher 999999") && retried.text().contains("can only be discarded"));
    assert_eq!(app.http.form(Some(&cookie), &format!("/admin/dead-letters/{id}/discard"), "").await.status, 303);
    app.app.services.releases.apply_due().await.unwrap();
    assert_eq!(app.app.services.store.tally(voucher).await.unwrap().unwrap(), before);
    app.abandon("the other letters wait for nobody").await;
}
