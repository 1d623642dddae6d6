//! The walk of a merchant: a new sale after an old one, everything that can be done to it, what is decided by hand, the end.
//!
//! Nobody saves or mends in this shop (it has the web role alone): what goes wrong stays wrong until a button is pressed.

use seckill::domain::ids::{Lane, VoucherId};
use seckill::keys;
use seckill::store::DeadLetter;
use serde_json::json;

use super::{Walk, Way, Who};
use crate::browser::admin::{set_time, typed_time};
use crate::browser::{PASSWORD, person};
use crate::support::app::{Buyer, TestApp};

const GOOD: &str = "main [role='status'][data-tone='good']";
const ALERT: &str = "main [role='alert']";

pub(super) async fn walk(way: Way) {
    let app = TestApp::with("--roles", "web").start().await;
    let admin = person(&app, "13711110002", None, true).await;
    let admin = (app.session_of(admin.id).await, admin.phone);
    let earlier = app.sale_between(7, -7_200_000, -60_000).await;
    let walk = Walk::begin(&app, Who::Merchant, way).await;
    logs_in(&walk, admin.1).await;
    let voucher = makes_a_sale(&walk, earlier).await;
    pauses_and_grows(&walk, voucher).await;
    edits(&walk, voucher, &admin.0).await;
    repairs(&walk, voucher).await;
    decides_letters(&walk, voucher).await;
    shuts_out(&walk, voucher).await;
    ends_and_reads(&walk, voucher).await;
    walk.end().await;
    app.finish().await;
}

async fn logs_in(walk: &Walk<'_>, phone: &str) {
    let tag = walk.way.lang.tag();
    walk.browser.go("/admin").await;
    walk.browser.fill("#phone", phone).await;
    walk.browser.fill("#password", PASSWORD).await;
    walk.browser.click("form:has(#password) button").await;
    walk.follow(&format!("header a[hreflang='{tag}']"), &format!("html[lang='{tag}']")).await;
    assert_eq!(walk.browser.path().await.split('?').next(), Some("/admin"));
}

/// What was said after a button of the control room.
async fn said(walk: &Walk<'_>, key: &str) {
    walk.browser.says(GOOD, &walk.t(key)).await;
}

async fn makes_a_sale(walk: &Walk<'_>, earlier: VoucherId) -> VoucherId {
    let (app, browser) = (walk.app, &walk.browser);
    walk.follow("main nav a[href='/admin/vouchers/new']", "form[data-form='voucher']").await;
    browser.click(&format!("#copy option[value='{earlier}']")).await;
    walk.follow("form[method='get'] button", "main [role='status'][data-tone='accent']").await;
    assert_eq!(browser.find("#stock").await.prop("value").await.unwrap().as_deref(), Some("7"));
    walk.done("copy a sale");

    browser.fill("#title", "2026").await;
    browser.fill("#payValue", "120").await;
    set_time(browser, "beginTime", &typed_time(app, browser, -3_600).await).await;
    walk.press("button[value='preview']", "[data-minds] .mind").await;
    browser.reads("[data-look] h3", "2026").await;
    assert_eq!(app.app.services.store.all_sales().await.unwrap().len(), 1, "a preview saves nothing");
    walk.done("preview");

    browser.fill("#payValue", "1.234").await;
    walk.press_in_vain("form[data-form='voucher'] button.go", "#payValue-error").await;
    browser.reads("#payValue-error", &walk.t("error-amount")).await;
    browser.fill("#payValue", "49").await;
    walk.press("form[data-form='voucher'] button.go", "[data-balanced='true']").await;
    browser.says("main", &walk.t("voucher-created")).await;
    walk.done("create a sale");
    let sales = app.app.services.store.all_sales().await.unwrap();
    sales.iter().map(|sale| sale.voucher).find(|id| *id != earlier).unwrap()
}

async fn pauses_and_grows(walk: &Walk<'_>, voucher: VoucherId) {
    let (app, browser) = (walk.app, &walk.browser);
    let sale = async || app.app.services.store.sale(voucher).await.unwrap().unwrap();
    let buyer = app.buyer().await;
    let mine = format!("article[data-voucher='{voucher}']");
    walk.go("/admin").await;
    walk.press(&format!("{mine} button[data-action='pause']"), "button[data-action='resume']").await;
    said(walk, "done-pause").await;
    assert!(sale().await.paused);
    assert_eq!(app.buy(&buyer, voucher).await.code(), "PAUSED");
    walk.done("pause");
    walk.press(&format!("{mine} button[data-action='resume']"), &format!("{mine} button[data-action='pause']")).await;
    said(walk, "done-resume").await;
    assert!(!sale().await.paused);
    walk.done("resume");

    walk.follow(&format!("{mine} h3 a"), "#edit").await;
    browser.fill(&format!("#d{voucher}"), "+3").await;
    walk.press("button[data-action='stock']", GOOD).await;
    said(walk, "done-stock").await;
    assert_eq!((sale().await.stock_total, sale().await.stock_left), (10, 10));
    browser.fill(&format!("#d{voucher}"), "-11").await;
    walk.press_in_vain("button[data-action='stock']", "#delta-error").await;
    assert_eq!(sale().await.stock_total, 10, "more than there is cannot be taken away");
    walk.go(&format!("/admin/vouchers/{voucher}")).await;
    browser.fill(&format!("#d{voucher}"), "-2").await;
    walk.press("button[data-action='stock']", GOOD).await;
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(8)], "the gate has it, too");
    walk.done("add and take stock");
    walk.go(&format!("/admin/vouchers/{voucher}/stock")).await;
    browser.says("[data-list]", &walk.t("act-sale-stock")).await;
}

async fn edits(walk: &Walk<'_>, voucher: VoucherId, admin: &Buyer) {
    let (app, browser, page) = (walk.app, &walk.browser, format!("/admin/vouchers/{voucher}"));
    walk.go(&page).await;
    browser.fill("#title", "2027").await;
    walk.press("button[data-action='edit']", GOOD).await;
    said(walk, "done-edit").await;
    browser.reads("h1", "2027").await;
    walk.done("edit");
    // Two editors: the second is told, and what he typed is not lost.
    let version = browser.attr("#edit input[name='version']", "value").await;
    let cookie = format!("seckill_session={}", admin.token);
    let first = app.http.form(Some(&cookie), &format!("{page}/edit"), &format!("title=2028&version={version}")).await;
    assert_eq!(first.status, 303);
    browser.fill("#title", "2029").await;
    walk.press_in_vain("button[data-action='edit']", ALERT).await;
    browser.says(ALERT, &walk.t("next-version-conflict")).await;
    browser.says(ALERT, "2029").await;
    browser.reads("h1", "2028").await;
    assert_eq!(app.app.services.store.sale(voucher).await.unwrap().unwrap().stock_total, 8, "the stock is not touched");
    walk.done("be told as the second editor");
}

async fn repairs(walk: &Walk<'_>, voucher: VoucherId) {
    let (app, browser) = (walk.app, &walk.browser);
    let books = |state: &str| format!("[data-part='sale-{voucher}'] [data-balanced='{state}']");
    walk.go("/admin").await;
    browser.find(&books("true")).await;
    app.ask::<i64>(&format!("INCR {}", keys::stock(Lane(0), voucher))).await;
    walk.comes(&books("false")).await;
    browser.says(&books("false"), &walk.way.lang.f("books-bad", &[("n", &1)])).await;
    browser.says("#wrong", &walk.t("wrong-why")).await;
    walk.press(&format!("{} button[data-action='rebuild']", books("false")), &books("true")).await;
    said(walk, "done-rebuild").await;
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(8)]);
    walk.done("repair drift");
}

/// A buyer's entry that was put aside as the worker does it.
async fn buried(app: &TestApp, voucher: VoucherId) {
    let order = app.admitted(&app.buy_for_sure(&app.buyer().await, voucher).await);
    let entries = app.app.services.queue.entries(Lane(0)).await.unwrap();
    let delivery = entries.into_iter().find(|d| d.entry.as_ref().is_ok_and(|e| e.order == order)).unwrap();
    let entry = delivery.entry.unwrap();
    let letter = DeadLetter {
        stream_id: delivery.stream_id.to_string(),
        lane: Lane(0),
        entry_json: json!({
            "id": entry.order, "userId": entry.user.to_string(), "voucherId": entry.voucher.to_string(),
            "epoch": entry.epoch.to_string(), "admittedAt": entry.admitted_at.0.to_string(),
        })
        .to_string(),
        reason: String::from("13 × 503"),
    };
    let mut tx = app.app.services.store.begin().await.unwrap();
    assert!(tx.bury(&letter, app.clock.now()).await.unwrap());
    tx.commit().await.unwrap();
    app.ask::<i64>(&format!("XDEL stream.orders:{{0}} {}", delivery.stream_id)).await;
}

async fn decides_letters(walk: &Walk<'_>, voucher: VoucherId) {
    let (app, browser) = (walk.app, &walk.browser);
    buried(app, voucher).await;
    buried(app, voucher).await;
    walk.go(&format!("/admin/vouchers/{voucher}/orders?status=QUEUED")).await;
    assert_eq!(browser.js("document.querySelectorAll('[data-list] li').length").await, 2, "undecided, they wait");
    walk.go("/admin").await;
    walk.follow("main nav a[href='/admin/dead-letters']", "[data-letters='2']").await;
    walk.press("button[data-action='retry']", "[data-letters='1']").await;
    said(walk, "done-retry").await;
    walk.done("try a dead letter again");
    walk.follow("a[href$='/discard']", "button[data-action='discard']").await;
    browser.says("main", &walk.t("discard-why")).await;
    walk.follow("main form a.btn", "[data-letters='1']").await;
    walk.follow("a[href$='/discard']", "button[data-action='discard']").await;
    walk.press("button[data-action='discard']", "[data-letters='0']").await;
    said(walk, "done-discard").await;
    walk.done("discard a dead letter");
    // Nobody gives the unit back here until the test does.
    walk.go("/admin").await;
    walk.comes("[data-part='below'] .list .chip").await;
    browser.says("[data-part='below']", &walk.t("kind-release")).await;
    walk.follow("[data-part='below'] a[href='/admin/outbox']", "[data-list]").await;
    browser.says("[data-list]", &walk.t("kind-release")).await;
    app.app.services.releases.apply_due().await.unwrap();
    walk.done("see what is owed");
    for list in ["/admin/seconds", "/admin/sockets", "/admin/waiting"] {
        walk.go(list).await;
    }
    walk.go(&format!("/admin/vouchers/{voucher}/orders")).await;
    for chip in ["status-pending", "status-failed"] {
        browser.says("[data-list]", &walk.t(chip)).await;
    }
}

async fn shuts_out(walk: &Walk<'_>, voucher: VoucherId) {
    let (app, browser) = (walk.app, &walk.browser);
    let buyer = app.buyer().await;
    walk.go("/admin").await;
    walk.follow("main nav a[href='/admin/users']", "#q").await;
    browser.fill("#q", &buyer.id.to_string()).await;
    walk.follow("form[action='/admin/users'] button", "[data-user]").await;
    walk.press("button[data-action='disable']", "button[data-action='enable']").await;
    said(walk, "done-disable").await;
    assert_eq!(app.buy(&buyer, voucher).await.code(), "LOGIN_REQUIRED");
    walk.done("disable a user");
    walk.press("button[data-action='enable']", "button[data-action='disable']").await;
    said(walk, "done-enable").await;
    walk.done("enable a user");
    let buyer = app.session_of(buyer.id).await;
    walk.press("button[data-action='logout-user']", GOOD).await;
    browser.says(GOOD, &walk.t("done-logout")).await;
    assert_eq!(app.buy(&buyer, voucher).await.code(), "LOGIN_REQUIRED");
    walk.done("end a user's sessions");
}

async fn ends_and_reads(walk: &Walk<'_>, voucher: VoucherId) {
    let (app, browser) = (walk.app, &walk.browser);
    let end = async || app.app.services.store.sale(voucher).await.unwrap().unwrap().end;
    walk.go(&format!("/admin/vouchers/{voucher}/refusals")).await;
    browser.says("main", &walk.t("list-refusals-lead")).await;
    walk.go(&format!("/admin/vouchers/{voucher}/end")).await;
    walk.follow("main form a.btn", "#edit").await;
    assert!(end().await > app.clock.now(), "asked, and not done");
    walk.go(&format!("/admin/vouchers/{voucher}/end")).await;
    walk.press("button[data-action='end']", "[data-part] > .row .chip").await;
    said(walk, "done-end").await;
    browser.find(&format!("[data-part='sale-{voucher}'][data-state='ended']")).await;
    assert!(end().await <= app.clock.now());
    walk.done("end early");

    walk.follow(&format!("a[href='/admin/reports/{voucher}']"), "a[download]").await;
    browser.click("a[download]").await;
    let csv = browser.downloaded().await;
    assert_eq!(csv.lines().count(), 3, "a head and two orders: {csv}");
    assert!(csv.contains("PENDING") && csv.contains("DISCARDED"), "{csv}");
    walk.done("read a report and take its CSV");

    walk.go("/admin/audit-log").await;
    let acts = ["sale-create", "sale-pause", "sale-resume", "sale-stock", "voucher-edit", "sale-rebuild", "sale-end"];
    let others = ["dead-letter-retry", "dead-letter-discard", "user-disable", "user-enable", "user-logout"];
    for act in acts.into_iter().chain(others) {
        browser.says("[data-list]", &walk.t(&format!("act-{act}"))).await;
    }
    walk.done("read the audit log");
}
