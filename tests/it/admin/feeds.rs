//! Whoever looks at the control room reads what the database counts: on the plain page to the letter, over the socket with
//! less than a second of traffic between the two.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use scraper::{Html, Selector};
use serde_json::json;

use crate::support::app::{Buyer, TestApp};
use crate::support::long;
use crate::support::socket::Socket;

/// Numbers of a sale's part as a page holds them.
const NUMBERS: [&str; 3] = ["admitted", "pending", "redisStock"];

#[expect(clippy::print_stdout, reason = "figures are for whoever reads the run")]
fn figure(text: &str) {
    println!("{text}");
}

fn number(html: &str, name: &str) -> i64 {
    let at = Selector::parse(&format!("[data-number='{name}']")).unwrap();
    let text: String = Html::parse_fragment(html).select(&at).next().unwrap().text().collect();
    text.replace(',', "").parse().unwrap()
}

/// A run of orders that takes some seconds, so that the socket has something to tell while it lasts.
async fn clicks(app: &TestApp, buyers: &[Buyer], voucher: seckill::domain::ids::VoucherId) {
    let crowds = buyers.chunks(buyers.len() / 60);
    for crowd in crowds {
        let next = tokio::time::sleep(Duration::from_millis(80));
        futures_util::future::join_all(crowd.iter().map(|buyer| app.app.services.purchase.buy(buyer.id, voucher))).await;
        next.await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_and_socket_of_the_control_room_say_what_the_database_counts_through_a_run_of_orders() {
    let orders = if long() { 5_000 } else { 600 };
    let app = TestApp::start().await;
    let (admin, buyers) = (app.admin().await, app.buyers(orders).await);
    let voucher = app.sale(i64::try_from(orders).unwrap()).await;
    let (mut socket, _) = Socket::of(&app.base, &admin.token).await;
    socket.send(&json!({ "type": "desk" }).to_string()).await;
    let pending = async || app.app.services.store.tally(voucher).await.unwrap().unwrap().pending;
    // What SQL counted when: the count only grows.
    let counted = RefCell::new(vec![(Instant::now(), pending().await)]);
    let over = Cell::new(false);
    let run = async {
        clicks(&app, &buyers, voucher).await;
        app.settled().await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        over.set(true);
    };
    let counts = async {
        while !over.get() {
            let begun = Instant::now();
            let count = pending().await;
            counted.borrow_mut().push((begun, count));
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    };
    let pages = async {
        let (mut looks, cookie) = (0, format!("seckill_session={}", admin.token));
        while !over.get() {
            let before = pending().await;
            let page = app.http.page(Some(&cookie), &format!("/admin/vouchers/{voucher}")).await.text();
            let (told, after) = (number(&page, "pending"), pending().await);
            assert!((before..=after).contains(&told), "the page says {told} between {before} and {after}");
            looks += 1;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        looks
    };
    let heard = RefCell::new(Vec::new());
    let listens = async {
        let part = format!("sale-{voucher}");
        while !over.get() {
            let Ok(Ok(message)) = tokio::time::timeout(Duration::from_millis(200), socket.next()).await else { continue };
            if let Some(html) = message["parts"][&part].as_str() {
                heard.borrow_mut().push((Instant::now(), NUMBERS.map(|name| number(html, name))));
            }
        }
    };
    let ((), (), looks, ()) = tokio::join!(run, counts, pages, listens);
    let (heard, counted) = (heard.into_inner(), counted.into_inner());
    let counted_at = |at: Instant| counted.iter().rev().find(|(when, _)| *when <= at).map_or(0, |(_, count)| *count);
    let a_second = counted.iter().map(|(when, count)| counted_at(*when + Duration::from_secs(1)) - count).max().unwrap();
    let mut behind = Vec::new();
    for (i, (at, [admitted, told, _])) in heard.iter().enumerate() {
        assert!(told <= admitted, "saved before it was admitted");
        let after = counted.iter().find(|(when, _)| when > at).map_or(i64::MAX, |(_, count)| *count);
        assert!(*told <= after, "the socket says {told} and the database {after}");
        // Behind when it comes, and most so just before the next comes.
        let next = heard.get(i + 1).map_or(*at, |(next, _)| *next);
        behind.push((counted_at(*at) - told).max(counted_at(next) - told));
    }
    assert!(looks >= 5 && heard.len() >= 4, "{looks} looks, {} messages", heard.len());
    behind.sort_unstable();
    let (messages, worst) = (behind.len(), behind[behind.len() - 1]);
    figure(&format!(
        "{orders} orders: {looks} pages exact; {messages} messages of the socket at most {worst} orders behind, a second brings {a_second}"
    ));
    // One in four may come late on a machine that does something else.
    let most = behind[(messages * 3).div_ceil(4) - 1];
    assert!(most < a_second && worst < 2 * a_second, "behind by orders {behind:?}; a second brings {a_second}");
    let total = i64::try_from(orders).unwrap();
    assert_eq!(heard.last().unwrap().1, [total, total, 0]);
    app.finish().await;
}
