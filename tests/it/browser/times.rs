//! Whose time it is: a sale begins on the server's, whatever the reader's clock says, does or has slept through; and a time
//! that is typed is one of the zone that it is typed in.

use std::time::Duration;

use seckill::domain::ids::VoucherId;
use seckill::domain::time::Millis;
use serde_json::json;

use super::admin::{set_time, value_of};
use super::{CREATED, button, card, only_order};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};
use crate::support::until;

/// The reader's own clock is wrong by these hours; the test may set it again while the page is open.
fn wrong_clock(hours: i32) -> String {
    format!(
        "(() => {{ const Real = Date; globalThis.wrongBy = {hours} * 3600000; globalThis.Date = class extends Real {{ \
         constructor(...a) {{ a.length ? super(...a) : super(Real.now() + wrongBy); }} \
         static now() {{ return Real.now() + wrongBy; }} }}; }})()"
    )
}

/// A machine that sleeps: its monotonic clock stands still meanwhile, as on a suspended computer.
const SLEEPER: &str = "(() => { const real = performance.now.bind(performance); let slept = 0, since; \
    globalThis.fallAsleep = () => { since = real(); return true; }; \
    globalThis.wakeUp = () => { slept += real() - since; since = undefined; wrongBy += 60000; return slept; }; \
    performance.now = () => (since ?? real()) - slept; })()";

async fn begin_of(app: &TestApp, voucher: VoucherId) -> Millis {
    app.app.services.store.sale(voucher).await.unwrap().unwrap().begin
}

/// Waits until the countdown of a card shows what is left until `at`, to about a second.
async fn counts_down_to(app: &TestApp, browser: &Browser, voucher: VoucherId, at: Millis) {
    let right = async || {
        let text = browser.text(&format!("{} time[data-countdown]", card(voucher))).await;
        let shown = text.split(':').try_fold(0, |sum, part| Some(sum * 60 + part.parse::<i64>().ok()?))?;
        let left = at.0 - app.clock.now().0;
        (left - 1_000..=left + 1_500).contains(&(shown * 1_000)).then_some(())
    };
    browser.wait("the countdown is wrong by more than about a second", right).await;
}

/// A click that asks no page: the server alone decides.
async fn posted(browser: &Browser, voucher: VoucherId) -> serde_json::Value {
    browser.promised(&format!("fetch('/api/voucher-order/seckill/{voucher}', {{ method: 'POST' }}).then(r => r.json())")).await
}

async fn the_button_wakes_up_at_begin_on_the_servers_time(hours: i32, later: i32) {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.before_each_page(&wrong_clock(hours)).await;
    browser.become_user(&buyer).await;
    let long = app.sale(5).await;
    let end = app.app.services.store.sale(long).await.unwrap().unwrap().end;
    let shop = format!("/shop/{}", app.shop);
    browser.go(&shop).await;
    let off = browser.js("Date.now()").await.as_i64().unwrap() - app.clock.now().0;
    assert!((off - i64::from(hours) * 3_600_000).abs() < 60_000, "the reader's clock is right: {off}");
    browser.reads("[data-connection]", "实时更新中").await;
    // What the page believes lies between two readings of the server's clock, give or take the fifth of a second that it may err.
    let believes = async || {
        let before = app.clock.now().0;
        let clock = "import(document.querySelector('script[type=module]').src.replace('app.js', 'clock.js'))";
        let believed = browser.promised(&format!("{clock}.then(m => Math.round(m.now()))")).await.as_i64().unwrap();
        let after = app.clock.now().0;
        assert!((before - 200..=after + 200).contains(&believed), "{} ms off", believed - before);
    };
    believes().await;
    counts_down_to(&app, &browser, long, end).await;
    let soon = app.sale_between(5, 6_000, 3_600_000).await;
    let begin = begin_of(&app, soon).await.0;
    assert_eq!(posted(&browser, soon).await["code"], "NOT_BEGUN");
    browser.go(&shop).await;
    assert_eq!(browser.attr(&card(soon), "data-state").await, "soon");
    assert!(!browser.find(&button(soon)).await.is_enabled().await.unwrap());
    browser.js(&format!("(window.stayed = true, globalThis.wrongBy = {later} * 3600000)")).await;
    browser.reads("[data-connection]", "实时更新中").await;
    believes().await;
    counts_down_to(&app, &browser, long, end).await;

    browser.find(&format!("{}:enabled", button(soon))).await;
    let woke = app.clock.now().0;
    assert!(woke >= begin, "{} ms too early", begin - woke);
    assert!(woke < begin + 2_000, "{} ms too late", woke - begin);
    assert_eq!(browser.attr(&card(soon), "data-state").await, "open");
    assert_eq!(browser.js("window.stayed").await, true);
    browser.click(&button(soon)).await;
    browser.find(CREATED).await;
    let left = browser.text("time[data-countdown]").await;
    assert!(left.starts_with("14:") || left == "15:00", "a quarter of an hour to pay, not {left}");
    assert_eq!(posted(&browser, long).await["success"], true);
    app.settled().await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_wakes_up_in_time_for_a_clock_that_is_two_hours_fast() {
    the_button_wakes_up_at_begin_on_the_servers_time(2, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_wakes_up_in_time_for_a_clock_that_is_two_hours_slow() {
    the_button_wakes_up_at_begin_on_the_servers_time(-2, -2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_wakes_up_in_time_for_a_clock_of_next_year_that_is_set_while_the_page_is_open() {
    the_button_wakes_up_at_begin_on_the_servers_time(366 * 24, -2).await;
}

/// Moves the window of a sale by hand and loads its gate anew.
async fn moved(app: &TestApp, voucher: VoucherId, begin: i64) -> Millis {
    let services = &app.app.services;
    let (begin, end) = (Millis(app.clock.now().0 + begin), Millis(app.clock.now().0 + 7_200_000));
    let mut tx = services.store.begin().await.unwrap();
    tx.set_window(voucher, begin, end).await.unwrap();
    tx.commit().await.unwrap();
    services.rebuilds.rebuild(voucher, 0).await.unwrap();
    services.sales.tell(voucher).await;
    begin
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_moved_moves_the_pages_that_wait_for_it() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let (earlier, later) = (app.sale_between(5, 3_000_000, 7_200_000).await, app.sale_between(5, 8_000, 7_200_000).await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.reads("[data-connection]", "实时更新中").await;
    browser.js("(window.stayed = true)").await;
    let old = begin_of(&app, later).await;
    counts_down_to(&app, &browser, later, old).await;
    let begin = moved(&app, later, 3_000_000).await;
    counts_down_to(&app, &browser, later, begin).await;
    let begin = moved(&app, earlier, 4_000).await;
    counts_down_to(&app, &browser, earlier, begin).await;
    browser.find(&format!("{}:enabled", button(earlier))).await;
    assert!(app.clock.now() >= begin);
    // The first start of the other one goes by, and nothing happens.
    until("the old start does not come", Duration::from_secs(20), async || app.clock.now() > old + Duration::from_millis(600))
        .await;
    assert_eq!(browser.attr(&card(later), "data-state").await, "soon");
    assert!(!browser.find(&button(later)).await.is_enabled().await.unwrap());
    assert_eq!(browser.js("window.stayed").await, true);
    browser.click(&button(earlier)).await;
    browser.find(CREATED).await;
    only_order(&app, buyer.id).await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_slept_through_the_start_is_usable_when_its_reader_is_back() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.before_each_page(&wrong_clock(0)).await;
    browser.before_each_page(SLEEPER).await;
    browser.become_user(&buyer).await;
    browser.go("/orders").await; // a page of the same shop, so that its files are there
    let soon = app.sale_between(5, 8_000, 3_600_000).await;
    let sale = app.app.services.store.sale(soon).await.unwrap().unwrap();
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.reads("[data-connection]", "实时更新中").await;
    browser.js("(window.stayed = true)").await;
    assert_eq!(browser.attr(&card(soon), "data-state").await, "soon");
    // No timer of a frozen page runs, and its machine's own clock stands still.
    browser.js("fallAsleep()").await;
    browser.devtools("Page.setWebLifecycleState", json!({ "state": "frozen" })).await;
    until("the start does not come", Duration::from_secs(20), async || app.clock.now() > sale.begin + Duration::from_secs(2))
        .await;
    browser.devtools("Page.setWebLifecycleState", json!({ "state": "active" })).await;
    assert!(browser.js("wakeUp()").await.as_f64().unwrap() > 2_000.0, "it has not slept");
    let back = app.clock.now();
    browser.find(&format!("{}:enabled", button(soon))).await;
    let took = app.clock.now().0 - back.0;
    assert!(took < 4_000, "usable only {took} ms after its reader was back");
    counts_down_to(&app, &browser, soon, sale.end).await;
    assert_eq!(browser.js("window.stayed").await, true, "nobody loaded it again");
    // A thousand who come back at once ask at times of their own, and none of them for a page.
    let asked = "(() => { const real = setTimeout, waits = []; \
        Object.defineProperty(document, 'hidden', { get: () => false }); \
        globalThis.setTimeout = (f, ms, ...a) => { waits.push(ms); return real(f, ms, ...a); }; \
        for (let i = 0; i < 24; i++) document.dispatchEvent(new Event('visibilitychange')); \
        globalThis.setTimeout = real; return waits; })()";
    let waits: Vec<f64> = serde_json::from_value(browser.js(asked).await).unwrap();
    let early = waits.iter().filter(|ms| **ms < 1_000.0).count();
    assert!(waits.len() == 24 && waits.iter().all(|ms| (0.0..2_000.0).contains(ms)), "{waits:?}");
    assert!((3..=21).contains(&early), "not spread over two seconds: {waits:?}");
    browser.click(&button(soon)).await;
    browser.find(CREATED).await;
    only_order(&app, buyer.id).await;
    // A frozen page loses its connection, which the console tells; nothing else may be there.
    assert!(browser.complaints().await.iter().all(|c| c.contains("WebSocket")));
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_time_is_one_of_the_browsers_zone_however_often_it_is_saved() {
    let app = TestApp::with("--time-zone", "UTC").start().await;
    let admin = app.admin().await;
    let browser = Browser::open_in(&app.base, Script::On, "en").await;
    browser.become_user(&admin).await;
    browser.in_zone("Asia/Shanghai").await;
    browser.go("/admin/vouchers/new").await;
    browser.says("#zone", "Asia/Shanghai (UTC+8)").await;
    let day = Millis(app.clock.now().0 + 2 * 86_400_000).rfc3339()[..10].to_owned();
    let typed = [("beginTime", format!("{day}T10:00")), ("endTime", format!("{day}T12:00"))];
    for (field, text) in &typed {
        set_time(&browser, field, text).await;
    }
    browser.fill("#title", "Tea").await;
    browser.fill("#payValue", "1.234").await;
    browser.fill("#actualValue", "38").await;
    for _ in 0..3 {
        browser.js("(window.old = true)").await;
        browser.click("form[data-form='voucher'] button.go").await;
        browser.wait("the form does not come back", async || (browser.js("!window.old").await == true).then_some(())).await;
        browser.find("#payValue-error").await;
        browser.ready().await;
        browser.complaints().await; // a refused form is a 422, which the console counts as a failed load
        for (field, text) in &typed {
            assert_eq!(value_of(&browser, field).await, *text, "{field}");
        }
        for named in ["Asia/Shanghai", "(UTC+8)"] {
            browser.says("#zone", named).await;
        }
    }
    browser.fill("#payValue", "9.90").await;
    browser.click("form[data-form='voucher'] button.go").await;
    browser.says("main", "Saved and published").await;
    browser.ready().await;
    let stored = async || app.sql().await.rows::<(i64, i64)>("SELECT begin_at, end_at FROM flash_sale").await;
    let at = |hour: &str| format!("{day}T{hour}:00Z").parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert_eq!(stored().await, [(at("02:00"), at("04:00"))]);
    for title in ["Tea", "Tea", "Tea"] {
        browser.fill("#title", title).await;
        browser.js("(window.old = true)").await;
        browser.click("button[data-action='edit']").await;
        browser.wait("the text is not saved", async || (browser.js("!window.old").await == true).then_some(())).await;
        browser.find("main [role='status'][data-tone='good']").await;
        browser.ready().await;
        assert_eq!(stored().await, [(at("02:00"), at("04:00"))], "a save moved the times");
    }
    // From the other side of the world it is the same sale, and every page names the zone of its times.
    browser.in_zone("America/Bogota").await;
    let page = browser.path().await;
    browser.go(page.split('?').next().unwrap()).await;
    for part in ["02:00", "04:00"] {
        browser.says("main", part).await;
    }
    browser.says("footer", "UTC").await;
    let voucher = app.app.services.store.all_sales().await.unwrap()[0].voucher;
    browser.go(&format!("/shop/{}", app.shop)).await;
    assert_eq!(browser.attr(&card(voucher), "data-begin").await, Millis(at("02:00")).rfc3339());
    browser.says(&button(voucher), "02:00").await;
    browser.go("/admin/vouchers/new").await;
    browser.says("#zone", "America/Bogota (UTC-5)").await;
    assert_eq!(stored().await, [(at("02:00"), at("04:00"))]);
    browser.close().await;
    app.finish().await;
}
