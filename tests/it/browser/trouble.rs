//! Pages of what goes wrong: each says what happened and what to do next, in both languages, on a phone and at a desk.

use super::axe::is_accessible;
use super::pages::{all_pairs, picture};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};
use crate::support::redis::TestRedis;

/// A page that says this in its heading, with a way on; the console may only tell of its status.
async fn is_a_good_one(browser: &Browser, name: &str, width: u32, look: (&str, &str), status: &str) {
    let fits = browser.js(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= innerWidth")).await;
    assert_eq!(fits, true, "{name} must not be scrolled sideways at {width} px in {look:?}");
    is_accessible(browser).await;
    let complaints = browser.complaints().await;
    assert!(complaints.iter().all(|c| c.contains(status)), "{name}: {complaints:?}");
    picture(browser, &format!("{name}-{width}-{}-{}", look.1, look.0), width).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_trouble_has_a_page_that_says_what_to_do_next() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).with("--rate-limit", "1/2").start().await;
    let (buyer, voucher) = (app.buyer().await, app.sale(5).await);
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let browser = Browser::open(&app.base, Script::On).await;
    let nobody = crate::support::app::Buyer { id: buyer.id, token: "A".repeat(buyer.token.len()) };
    let stranger = async |user| {
        browser.devtools("Network.clearBrowserCookies", serde_json::json!({})).await;
        if let Some(user) = user {
            browser.become_user(user).await;
        }
    };
    for (i, look) in all_pairs().into_iter().enumerate() {
        let width = if i % 2 == 0 { 360 } else { 1280 };
        browser.resize(width, 900).await;
        let words = seckill::i18n::Lang::from_tag(look.0).unwrap();
        let query = format!("lang={}&theme={}", look.0, look.1);
        stranger(None).await;
        browser.go(&format!("/not-there?{query}")).await;
        browser.reads("h1", &words.t("error-title-not-found")).await;
        browser.find("main a.btn.go[href='/']").await;
        is_a_good_one(&browser, "error-404", width, look, "404").await;
        // A ticket that is no longer good shows an order to nobody.
        browser.go(&format!("/orders/{order}?ticket=stale&{query}")).await;
        browser.reads("h1", &words.t("error-title-not-found")).await;
        is_a_good_one(&browser, "error-ticket", width, look, "404").await;
        stranger(Some(&buyer)).await;
        browser.go(&format!("/admin?{query}")).await;
        browser.reads("h1", &words.t("error-title-forbidden")).await;
        browser.find("main a[href='/orders']").await;
        is_a_good_one(&browser, "error-403", width, look, "403").await;

        stranger(None).await;
        browser.go(&format!("/login?{query}")).await;
        let too_fast = words.t("error-title-too-many-requests");
        let pressed = async || {
            browser.fill("#phone", "13655550001").await;
            browser.fill("#password", "korrekt pferd").await;
            browser.click("form:has(#password) button").await;
            browser.find("main [role='alert']").await;
            browser.ready().await;
            browser.complaints().await; // who is refused is told by a status
            browser.text("main [role='alert']").await.starts_with(&too_fast).then_some(())
        };
        browser.wait("nobody is too fast", pressed).await;
        is_a_good_one(&browser, "login-429", width, look, "429").await;

        // Nobody can tell who this is: his page has to wait, everybody's page says so.
        stranger(Some(&nobody)).await;
        redis.freeze();
        browser.go(&format!("/orders?{query}")).await;
        browser.reads("h1", &words.t("error-title-busy")).await;
        browser.says("main a.btn.go", &words.t("error-retry")).await;
        is_a_good_one(&browser, "error-503", width, look, "503").await;
        browser.go(&format!("/shop/{}?{query}", app.shop)).await;
        browser.says("main .note", &words.t("notice-sessions")).await;
        browser.complaints().await; // its socket is refused as long as nobody can tell
        picture(&browser, &format!("shop-sessions-away-{width}-{}-{}", look.1, look.0), width).await;
        browser.driver().goto("about:blank").await.unwrap();
        redis.thaw();
    }
    browser.complaints().await;
    browser.close().await;
    app.finish().await;
}
