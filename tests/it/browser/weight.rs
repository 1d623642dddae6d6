//! What a shop's page costs: few bytes, no movement, no more requests, however many vouchers stand on it and however long.

use serde_json::json;

use super::{CREATED, button, card};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

/// Before anything else of a page: what moves is counted, and the monotonic clock can be set forward.
const WATCHED: &str = "window.moved = []; window.later = 0; \
    const told = node => (node?.parentElement ?? document.body).outerHTML.slice(0, 200); \
    new PerformanceObserver(l => l.getEntries().forEach(e => window.moved.push(...e.sources.map(s => told(s.node))))) \
        .observe({ type: 'layout-shift', buffered: true }); \
    performance.now = (real => () => real() + window.later)(performance.now.bind(performance));";

/// What the page asked for, and the picture of its tab, which no list of the browser has.
const ASKED: &str = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map(e => e.name) \
    .concat(document.querySelector('link[rel=icon]').href)";

/// Bytes of the answer to a request as a browser sends it, its head included.
async fn bytes_of(app: &TestApp, token: &str, url: &str) -> usize {
    let path = url.strip_prefix(&app.base).unwrap_or_else(|| panic!("{url} is somewhere else"));
    let cookie = format!("seckill_session={token}");
    let headers = [("accept", "text/html,*/*"), ("accept-encoding", "gzip, deflate, br, zstd"), ("cookie", cookie.as_str())];
    let answer = app.http.send(http::Method::GET, path, &headers, "").await;
    assert_eq!(answer.status, 200, "{path}");
    answer.body.len() + answer.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_of_twenty_vouchers_weighs_less_than_fifty_kilobytes_and_nothing_on_it_moves() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let voucher = app.sale(5).await;
    for n in 0..19 {
        // Among them sales whose countdown loses its hours while somebody looks.
        app.sale_between(5 + n, if n % 2 == 0 { 3_600_000 + n * 5_000 } else { -1_000 }, 7_200_000).await;
    }
    let browser = Browser::open(&app.base, Script::On).await;
    browser.before_each_page(WATCHED).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.reads("[data-connection]", "实时更新中").await;
    let asked: Vec<String> = serde_json::from_value(browser.js(ASKED).await).unwrap();
    let mut weight = 0;
    for kind in ["app.css", "app.js", "card.js", "mark.svg"] {
        assert!(asked.iter().any(|url| url.contains(kind.split('.').next().unwrap())), "{kind} is not among {asked:?}");
    }
    for url in &asked {
        weight += bytes_of(&app, &buyer.token, url).await;
    }
    assert!((10_000..50_000).contains(&weight), "the shop page weighs {weight} bytes: {asked:?}");

    browser.js("(window.moved = [])").await; // from here on nothing but the countdowns and ages move
    let shown = async || browser.text(&format!("{} time[data-countdown]", card(voucher))).await;
    for _ in 0..2 {
        let before = shown().await;
        browser.wait("the countdown stands still", async || (shown().await != before).then_some(())).await;
    }
    // Minutes go by at once: hours leave the countdowns, ages grow.
    for minute in 1..=4 {
        let before = shown().await;
        browser.js(&format!("(window.later = {minute} * 60000)")).await;
        browser.wait("the countdown stands still", async || (shown().await != before).then_some(())).await;
    }
    let moved = "window.moved.filter(part => !part.includes('data-age'))";
    assert_eq!(browser.js(moved).await, json!([]), "the page moves with its countdowns");
    let still: Vec<String> = serde_json::from_value(browser.js(ASKED).await).unwrap();
    assert_eq!(still, asked, "a page that only waits asks for nothing more");
    browser.quiet().await;
    // The bell is offered as long as there is news to come, survives what is drawn anew, and not longer.
    browser.click(&button(voucher)).await;
    browser.find(CREATED).await;
    browser.find("[data-tell]").await;
    browser.click("button[data-action='cancel']").await;
    browser.find("div[data-order][data-status='CANCELLED']").await;
    browser.ready().await;
    assert_eq!(browser.js("document.querySelectorAll('[data-tell]').length").await, json!(0));
    browser.close().await;
    app.finish().await;
}
