//! Every page, as a picture and as a reader meets it: at phone, tablet and desktop width, in both languages, light and dark. No
//! sideways scrolling, nothing serious for axe, a quiet console, no violation of the content policy. The pictures lie in
//! `target/screenshots`, named by page, width, theme and language; what goes wrong has its pages in `trouble.rs`.

use std::path::Path;

use seckill::domain::ids::Lane;
use seckill::store::DeadLetter;
use serde_json::json;

use super::axe::{findings, is_accessible};
use crate::support::app::{Buyer, TestApp};
use crate::support::browser::{Browser, Script};
use crate::support::long;

const VIOLATIONS: &str = "window.violations = []; \
    addEventListener('securitypolicyviolation', e => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));";

/// A picture of the whole page.
pub(super) async fn picture(browser: &Browser, name: &str, width: u32) {
    let height = browser.js("Math.min(document.documentElement.scrollHeight, 6000)").await;
    let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
    let asked = json!({ "captureBeyondViewport": true, "clip": clip });
    let shot = browser.devtools("Page.captureScreenshot", asked).await;
    let png = data_encoding::BASE64.decode(shot["data"].as_str().unwrap().as_bytes()).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.png")), png).unwrap();
}

/// A shop with something in every state, and the pages that show it: name and path.
async fn a_full_shop(app: &TestApp, admin: &Buyer, buyer: &Buyer) -> Vec<(&'static str, String)> {
    let (open, sold_out) = (app.sale(20).await, app.sale(1).await);
    app.sale_between(20, 3_600_000, 7_200_000).await;
    app.sale_between(20, -7_200_000, -60_000).await;
    let paused = app.sale(5).await;
    super::state::pause(app, paused, true).await;
    app.app.services.sales.create_voucher(None, None, &app.voucher("咖啡券")).await.unwrap();
    let pending = app.admitted(&app.buy(buyer, open).await);
    let cancelled = app.admitted(&app.buy(buyer, sold_out).await);
    app.buy(admin, sold_out).await;
    let paid = app.admitted(&app.buy(admin, open).await);
    app.settled().await;
    app.http.post_as(&buyer.token, &format!("/api/voucher-order/{cancelled}/cancel")).await;
    let link = app.http.post_as(&admin.token, &format!("/api/voucher-order/{paid}/pay")).await.data();
    let pay_page = link["payUrl"].as_str().unwrap().split_once("/sandbox-pay/").unwrap().1.to_owned();
    let mut tx = app.app.services.store.begin().await.unwrap();
    let letter = DeadLetter {
        stream_id: String::from("7-0"),
        lane: Lane(0),
        entry_json: String::from("{\"userId\":\"13x\"}"),
        reason: String::from("userId is no number"),
    };
    assert!(tx.bury(&letter, app.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
    app.settled().await;
    let letter = app.app.services.store.open_dead_letters(1).await.unwrap()[0].id;
    vec![
        ("front", String::from("/")),
        ("shop", format!("/shop/{}", app.shop)),
        ("orders", String::from("/orders")),
        ("order-pending", format!("/orders/{pending}")),
        ("order-own", format!("/orders/{paid}")),
        ("order-cancelled", format!("/orders/{cancelled}")),
        ("sandbox-pay", format!("/sandbox-pay/{pay_page}")),
        ("account", String::from("/account")),
        ("sandbox-sms", String::from("/sandbox-sms")),
        ("docs", String::from("/docs")),
        ("admin", String::from("/admin")),
        ("admin-voucher", format!("/admin/vouchers/{open}")),
        ("admin-voucher-new", String::from("/admin/vouchers/new")),
        ("admin-voucher-copy", format!("/admin/vouchers/new?copy={open}")),
        ("admin-end", format!("/admin/vouchers/{open}/end")),
        ("admin-orders", format!("/admin/vouchers/{open}/orders")),
        ("admin-orders-paid", format!("/admin/vouchers/{open}/orders?status=PAID")),
        ("admin-refusals", format!("/admin/vouchers/{sold_out}/refusals")),
        ("admin-stock", format!("/admin/vouchers/{open}/stock")),
        ("admin-report", format!("/admin/reports/{sold_out}")),
        ("admin-dead-letters", String::from("/admin/dead-letters")),
        ("admin-discard", format!("/admin/dead-letters/{letter}/discard")),
        ("admin-outbox", String::from("/admin/outbox?all=1")),
        ("admin-audit-log", String::from("/admin/audit-log")),
        ("admin-sockets", String::from("/admin/sockets")),
        ("admin-waiting", String::from("/admin/waiting")),
        ("admin-seconds", String::from("/admin/seconds")),
        ("admin-users", format!("/admin/users?q={}", buyer.id)),
    ]
}

/// A look: language and theme.
type Look = (&'static str, &'static str);

/// Each language in each theme.
pub(super) fn all_pairs() -> [Look; 4] {
    [("zh-CN", "light"), ("en", "dark"), ("en", "light"), ("zh-CN", "dark")]
}

/// Looks at every page in these looks, and in the long run in all: what one width leaves out another shows.
async fn every_page_is_a_good_one(width: u32, looks: [Look; 2]) {
    let app = TestApp::start().await;
    let (admin, buyer) = (app.admin().await, app.buyer().await);
    let pages = a_full_shop(&app, &admin, &buyer).await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.before_each_page(VIOLATIONS).await;
    // What moves is read when it stands still.
    let calm = json!({ "features": [{ "name": "prefers-reduced-motion", "value": "reduce" }] });
    browser.devtools("Emulation.setEmulatedMedia", calm).await;
    browser.resize(width, 900).await;
    let visitor = [("login", String::from("/login")), ("register", String::from("/register")), ("front-visitor", "/".into())];
    let all: Vec<_> = visitor.into_iter().chain(pages).collect();
    let looks = if long() { all_pairs().to_vec() } else { looks.to_vec() };
    for &(lang, theme) in &looks {
        browser.devtools("Network.clearBrowserCookies", json!({})).await;
        for (name, path) in &all {
            if *name == "front" {
                browser.become_user(&admin).await;
            }
            let sign = if path.contains('?') { '&' } else { '?' };
            browser.go(&format!("{path}{sign}lang={lang}&theme={theme}")).await;
            let fits = browser.js(&format!("innerWidth === {width} && document.documentElement.scrollWidth <= innerWidth")).await;
            assert_eq!(fits, true, "{path} must not be scrolled sideways at {width} px in {lang}");
            is_accessible(&browser).await;
            assert_eq!(browser.js("window.violations").await, json!([]), "{path}");
            browser.quiet().await;
            picture(&browser, &format!("{name}-{width}-{theme}-{lang}"), width).await;
        }
    }
    // axe would tell: a field without a name.
    browser.go("/admin/vouchers/new").await;
    browser.js("document.querySelector('label[for=title]').remove()").await;
    let found = findings(&browser).await;
    assert!(found.iter().any(|f| f["id"] == "label"), "{found:#?}");
    browser.close().await;
    app.abandon("the dead letter that was put in waits for nobody").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_a_good_one_on_a_phone() {
    every_page_is_a_good_one(360, [("zh-CN", "light"), ("en", "dark")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_a_good_one_on_a_tablet() {
    every_page_is_a_good_one(768, [("en", "light"), ("zh-CN", "dark")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_a_good_one_on_a_desk() {
    every_page_is_a_good_one(1280, [("zh-CN", "light"), ("en", "dark")]).await;
}
