//! What changes by itself: a card whose sale is sold out, paused, resumed or over, and a page that has to be read anew.

use seckill::domain::ids::VoucherId;

use super::{CREATED, button, card};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

/// Pauses or resumes as the books and the gate know it, and tells everybody.
pub(super) async fn pause(app: &TestApp, voucher: VoucherId, paused: bool) {
    let services = &app.app.services;
    let sale = services.store.sale(voucher).await.unwrap().unwrap();
    let mut tx = services.store.begin().await.unwrap();
    assert!(tx.set_paused(voucher, paused, sale.version).await.unwrap());
    tx.commit().await.unwrap();
    assert!(services.gate.set_paused(voucher, sale.epoch, paused).await.unwrap());
    services.sales.tell(voucher).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_hears_that_its_sale_is_paused_resumed_sold_out_and_over() {
    let app = TestApp::start().await;
    let (visitor, other) = (app.buyer().await, app.buyer().await);
    let (voucher, short) = (app.sale(1).await, app.sale_between(5, -1_000, 8_000).await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&visitor).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.js("(window.stayed = true)").await;
    browser.reads("[data-connection]", "实时更新中").await;
    let is = async |voucher: VoucherId, state: &str, chip: &str, enabled: bool| {
        let card = card(voucher);
        browser.find(&format!("{card}[data-state='{state}']")).await;
        browser.reads(&format!("{card} .chip"), chip).await;
        assert_eq!(browser.find(&button(voucher)).await.is_enabled().await.unwrap(), enabled, "{state}");
    };
    is(voucher, "open", "正在抢", true).await;
    pause(&app, voucher, true).await;
    is(voucher, "paused", "已暂停", false).await;
    pause(&app, voucher, false).await;
    is(voucher, "open", "正在抢", true).await;
    app.admitted(&app.buy(&other, voucher).await);
    is(voucher, "soldOut", "已抢光", false).await;
    browser.reads(&format!("{} [data-stock]", card(voucher)), "0").await;
    is(short, "ended", "已结束", false).await;
    assert_eq!(browser.js("window.stayed").await, true);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_comes_too_late_hears_why_and_the_card_follows() {
    let app = TestApp::start().await;
    let (late, other) = (app.buyer().await, app.buyer().await);
    let voucher = app.sale(1).await;
    for script in [Script::On, Script::Off] {
        let browser = Browser::open(&app.base, script).await;
        browser.become_user(&late).await;
        // No socket: the page cannot know before it asks.
        browser.before_each_page("globalThis.WebSocket = class extends EventTarget {};").await;
        let fresh = if script == Script::On { voucher } else { app.sale(1).await };
        browser.go(&format!("/shop/{}", app.shop)).await;
        app.admitted(&app.buy(&other, fresh).await);
        browser.click(&button(fresh)).await;
        browser.says(&format!("{} [role='alert']", card(fresh)), "没抢到").await;
        assert_eq!(browser.attr(&card(fresh), "data-state").await, "soldOut");
        assert!(!browser.find(&button(fresh)).await.is_enabled().await.unwrap());
        browser.close().await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_could_not_be_read_anew_asks_again_until_it_says_what_is() {
    let app = TestApp::start().await;
    let (buyer, voucher) = (app.buyer().await, app.sale(5).await);
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    // The first answer is BUSY, the second never comes.
    let trouble = "globalThis.asked = 0; globalThis.fetch = (real => (...a) => ++asked === 1 ? \
        Promise.resolve(new Response('', { status: 503 })) : asked === 2 ? Promise.reject(new TypeError('away')) : real(...a) \
        )(globalThis.fetch)";
    browser.before_each_page(trouble).await;
    browser.go(&format!("/orders/{order}")).await;
    browser.reads("[data-connection]", "实时更新中").await;
    browser.find(CREATED).await;
    app.http.post_as(&buyer.token, &format!("/api/voucher-order/{order}/cancel")).await;
    browser.find("div[data-order][data-status='CANCELLED']").await;
    assert_eq!(browser.js("asked").await, 3);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_a_page_is_read_anew_is_shown_too() {
    let app = TestApp::start().await;
    let (buyer, admin, voucher) = (app.buyer().await, app.admin().await, app.sale(5).await);
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let api = format!("/api/voucher-order/{order}");
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    // The first answer is read by the server and held back.
    let hold = "globalThis.fetch = (real => async (...a) => { const answer = await real(...a); \
        if (!globalThis.release) await new Promise(done => { globalThis.release = done; }); return answer; })(globalThis.fetch)";
    browser.before_each_page(hold).await;
    browser.go(&format!("/orders/{order}")).await;
    browser.reads("[data-connection]", "实时更新中").await;
    let link = app.http.post_as(&buyer.token, &format!("{api}/pay")).await.data();
    let page = format!("/sandbox-pay/{}", link["payUrl"].as_str().unwrap().split_once("/sandbox-pay/").unwrap().1);
    assert_eq!(app.http.form(None, &page, "do=approve").await.status, 303);
    browser.wait("the page is not read anew", async || (browser.js("!!globalThis.release").await == true).then_some(())).await;
    assert_eq!(app.http.post_as(&admin.token, &format!("{api}/refund")).await.status, 200);
    browser.find("[role='status'][data-event='order.refunded']").await;
    browser.find(CREATED).await;
    browser.js("globalThis.release()").await;
    browser.find("div[data-order][data-status='REFUNDED']").await;
    browser.close().await;
    app.finish().await;
}
