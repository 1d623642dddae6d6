//! The control room: every action of it, with and without script; its numbers follow by themselves, and a unit of drift is
//! seen, mended and written down.

use std::time::Duration;

use seckill::domain::ids::{Lane, VoucherId};
use seckill::keys;
use seckill::store::DeadLetter;
use thirtyfour::prelude::*;

use super::only_order;
use crate::support::app::{Buyer, TestApp};
use crate::support::browser::{Browser, Script};

async fn at_the_desk(script: Script, lang: &str, width: u32) -> (TestApp, VoucherId, Buyer, Browser) {
    let app = TestApp::start().await;
    let (voucher, admin) = (app.sale(5).await, app.admin().await);
    let browser = Browser::open_in(&app.base, script, lang).await;
    browser.resize(width, 900).await;
    browser.become_user(&admin).await;
    (app, voucher, admin, browser)
}

fn number(voucher: VoucherId, key: &str) -> String {
    format!("[data-part='sale-{voucher}'] [data-number='{key}']")
}

/// The actions that the audit log has of a voucher, oldest first.
async fn log_of(app: &TestApp, voucher: VoucherId) -> Vec<String> {
    let subject = format!("voucher {voucher}");
    let mut lines = app.app.services.store.audit_lines(None, 100).await.unwrap();
    lines.retain(|line| line.subject == subject);
    lines.into_iter().rev().map(|line| line.action).collect()
}

async fn a_sale_is_paused_resumed_grown_edited_and_ended(script: Script, lang: &str, width: u32) {
    let (app, voucher, admin, browser) = at_the_desk(script, lang, width).await;
    let store = app.app.services.store.clone();
    let sale = async || store.sale(voucher).await.unwrap().unwrap();
    let page = format!("/admin/vouchers/{voucher}");
    browser.go("/admin").await;
    browser.click("button[data-action='pause']").await;
    browser.find("button[data-action='resume']").await;
    assert_eq!(browser.path().await, "/admin?done=pause", "back in the control room");
    browser.ready().await;
    assert!(sale().await.paused);
    assert_eq!(app.buy(&admin, voucher).await.code(), "PAUSED");
    browser.click("button[data-action='resume']").await;
    browser.find("button[data-action='pause']").await;
    browser.ready().await;
    assert!(!sale().await.paused);

    browser.go(&page).await;
    browser.fill(&format!("#d{voucher}"), "+3").await;
    browser.click("button[data-action='stock']").await;
    browser.find(".note[role='status'][data-tone='good']").await;
    browser.ready().await;
    assert_eq!((sale().await.stock_total, sale().await.stock_left), (8, 8));
    browser.fill(&format!("#d{voucher}"), "-9").await;
    browser.click("button[data-action='stock']").await;
    browser.find("#delta-error").await;
    browser.ready().await;
    assert_eq!(sale().await.stock_total, 8, "more than there is cannot be taken away");
    browser.complaints().await; // a refused form is a 422, which the console counts as a failed load

    browser.go(&page).await;
    browser.fill("#title", "改过的标题").await;
    browser.click("button[data-action='edit']").await;
    browser.reads("h1", "改过的标题").await;
    browser.ready().await;
    // Two editors: the second is told, and what he typed is not lost.
    let version = browser.attr("#edit input[name='version']", "value").await;
    let first = format!("title=%E5%88%AB%E4%BA%BA%E7%9A%84&version={version}");
    let cookie = format!("seckill_session={}", admin.token);
    assert_eq!(app.http.form(Some(&cookie), &format!("{page}/edit"), &first).await.status, 303);
    browser.fill("#title", "我的标题").await;
    browser.click("button[data-action='edit']").await;
    browser.says("[role='alert']", "我的标题").await;
    browser.ready().await;
    browser.reads("h1", "别人的").await;
    assert_eq!(browser.find("#title").await.prop("value").await.unwrap().as_deref(), Some("别人的"));
    assert_eq!(sale().await.stock_total, 8, "an edit does not touch the stock");
    browser.complaints().await; // a conflict is a 409

    browser.go(&format!("{page}/end")).await;
    browser.click("a.btn").await;
    browser.reads("h1", "别人的").await;
    assert!(sale().await.end > app.clock.now(), "asked, and not done");
    browser.go(&format!("{page}/end")).await;
    browser.click("button[data-action='end']").await;
    browser.find("[data-state='ended']").await;
    browser.ready().await;
    assert!(sale().await.end <= app.clock.now());
    browser.go(&format!("/admin/reports/{voucher}")).await;
    browser.find("a[download]").await;
    let log = log_of(&app, voucher).await;
    let done = ["sale.create", "sale.pause", "sale.resume", "sale.stock", "voucher.edit", "voucher.edit", "sale.end"];
    assert_eq!(log, done);
    browser.go("/admin/audit-log").await;
    assert_eq!(browser.js("document.querySelectorAll('[data-list] li').length >= 7").await, true);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_paused_resumed_grown_edited_and_ended_with_script() {
    a_sale_is_paused_resumed_grown_edited_and_ended(Script::On, "zh-CN", 1280).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_paused_resumed_grown_edited_and_ended_without_script_on_a_phone() {
    a_sale_is_paused_resumed_grown_edited_and_ended(Script::Off, "en", 360).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_follow_by_themselves_and_every_one_opens_its_list() {
    let (app, voucher, _, browser) = at_the_desk(Script::On, "zh-CN", 1280).await;
    browser.go("/admin").await;
    browser.js("(window.stayed = true)").await;
    browser.reads("[data-connection]", "实时更新中").await;
    let buyers = app.buyers(6).await;
    for buyer in &buyers {
        app.buy(buyer, voucher).await;
    }
    browser.reads(&number(voucher, "admitted"), "5").await;
    browser.reads(&number(voucher, "pending"), "5").await;
    browser.reads(&number(voucher, "redisStock"), "0").await;
    browser.find(&format!("[data-part='sale-{voucher}'][data-state='soldOut'] [data-balanced='true']")).await;
    browser.says(&format!("[data-part='sale-{voucher}']"), "抢光 1").await;
    let order = only_order(&app, buyers[0].id).await.id;
    app.http.post_as(&buyers[0].token, &format!("/api/voucher-order/{order}/cancel")).await;
    browser.reads(&number(voucher, "cancelled"), "1").await;
    browser.reads(&number(voucher, "pending"), "4").await;
    // The plot has what came, once its five seconds are over.
    let path = "document.querySelector('#plot path.a').getAttribute('d').split(/[ML]/).some(p => p && !p.endsWith(' 1000'))";
    browser.wait("the plot is empty", async || browser.js(path).await.as_bool().filter(|moved| *moved)).await;
    assert_eq!(browser.js("window.stayed").await, true, "the page was loaded again");
    // A sale that was made meanwhile comes by itself.
    let fresh = app.sale(3).await;
    browser.find(&format!("[data-part='sale-{fresh}']")).await;
    // What somebody types is not taken from under his hands.
    browser.fill(&format!("#d{voucher}"), "12").await;
    app.buy(&buyers[5], voucher).await;
    browser.reads(&number(voucher, "admitted"), "6").await;
    assert_eq!(browser.find(&format!("#d{voucher}")).await.prop("value").await.unwrap().as_deref(), Some("12"));

    let links = browser.js("[...document.querySelectorAll('.nums a, .eq a')].map(a => a.getAttribute('href'))").await;
    let links: Vec<String> = serde_json::from_value(links).unwrap();
    assert!(links.len() > 20);
    for link in links.iter().filter(|link| link.starts_with('/')) {
        let answer = app.http.page(Some(&format!("seckill_session={}", app.admin().await.token)), link).await;
        assert_eq!(answer.status, 200, "{link}");
    }
    browser.click(&number(voucher, "cancelled")).await;
    browser.says("[data-list]", &order.to_string()).await;
    assert_eq!(browser.js("document.querySelectorAll('[data-list] li').length").await, 1);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_of_drift_turns_the_equation_red_and_the_repair_puts_it_right() {
    let (app, voucher, _, browser) = at_the_desk(Script::On, "zh-CN", 1280).await;
    let buyer = app.buyer().await;
    app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    browser.go("/admin").await;
    let books = |state: &str| format!("[data-part='sale-{voucher}'] [data-balanced='{state}']");
    browser.find(&books("true")).await;
    // A unit that is sold and free at once, so that the gate's own sum holds: what does not add up there is mended within the
    // second, this within the minute. The shop may still be faster than the hand: then it is put in once more.
    let (stock, holders) = (keys::stock(Lane(0), voucher), keys::holders(Lane(0), voucher));
    let drift = async || {
        if app.ask::<i64>(&format!("HDEL {holders} {}", buyer.id)).await == 1 {
            app.ask::<i64>(&format!("INCR {stock}")).await;
        }
    };
    let by_hand = async || {
        drift().await;
        browser.go("/admin").await;
        if browser.text(&books("false")).await.contains("✕ 账不平：Redis 多 1 份") {
            assert!(browser.text("#wrong").await.contains("账不平"), "what is wrong stands on top");
        }
        let mend = format!("{} button[data-action='rebuild']", books("false"));
        browser.driver().find(By::Css(&mend)).await.ok()?.click().await.ok()?;
        browser.find(&books("true")).await;
        browser.ready().await;
        log_of(&app, voucher).await.iter().any(|action| action == "sale.rebuild").then_some(())
    };
    browser.wait("the equation never turned red", by_hand).await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!(app.app.services.gate.stocks(&[voucher]).await.unwrap(), [Some(sale.stock_left)]);
    // And whoever only watches sees it, too: red, and green again, whoever mends it.
    let seen = "(window.reds = 0, new MutationObserver(() => { \
        if (document.querySelector(\"[data-balanced='false']\")) window.reds += 1; }) \
        .observe(document.body, { childList: true, subtree: true }))";
    browser.js(seen).await;
    drift().await;
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while browser.js("window.reds > 0").await != true {
        assert!(tokio::time::Instant::now() < deadline, "a watcher saw nothing red within a minute");
        drift().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mended = async || {
        let drift = app.app.services.drift.round(&[Lane(0)], Duration::from_hours(1)).await;
        drift.ok()?;
        browser.driver().find(By::Css(books("true"))).await.ok().map(drop)
    };
    browser.wait("it stays red", mended).await;
    browser.go("/admin/audit-log").await;
    browser.says("[data-list]", "重建闸门").await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_decided_and_a_user_is_shut_out_by_hand() {
    for script in [Script::On, Script::Off] {
        let (app, voucher, _, browser) = at_the_desk(script, "en", 360).await;
        let buyer = app.buyer().await;
        let mut tx = app.app.services.store.begin().await.unwrap();
        let nowhere = "{\"id\":\"7\",\"userId\":\"7\",\"voucherId\":\"999\",\"epoch\":\"1\",\"admittedAt\":\"1\"}";
        let unreadable = [("{\"userId\":\"13x\"}", "userId is no number"), ("<b>", "no entry at all")];
        for (entry, reason) in unreadable.into_iter().chain([(nowhere, "no such voucher")]) {
            let (stream_id, entry_json) = (String::from("7-0"), entry.to_owned());
            let letter = DeadLetter { stream_id, lane: Lane(0), entry_json, reason: reason.to_owned() };
            assert!(tx.bury(&letter, app.clock.now()).await.unwrap());
        }
        tx.commit().await.unwrap();
        browser.go("/admin").await;
        browser.click("a[href='/admin/dead-letters']").await;
        browser.find("[data-letters='3']").await;
        // Only what names an order is offered to be tried again.
        assert_eq!(browser.driver().find_all(By::Css("button[data-action='retry']")).await.unwrap().len(), 1);
        browser.says("main", "userId is no number").await;
        browser.click("[data-dead-letter] button[data-action='retry']").await;
        browser.says("[role='alert']", "can only be discarded").await;
        browser.ready().await;
        browser.complaints().await; // a conflict is a 409, which the console counts as a failed load
        for left in [2, 1, 0] {
            browser.click("[data-dead-letter] a.btn").await;
            browser.click("button[data-action='discard']").await;
            browser.find(&format!("[data-letters='{left}']")).await;
            browser.ready().await;
        }

        browser.go(&format!("/admin/users?q={}", buyer.id)).await;
        browser.click("button[data-action='disable']").await;
        browser.find("button[data-action='enable']").await;
        browser.ready().await;
        assert_eq!(app.buy(&buyer, voucher).await.code(), "LOGIN_REQUIRED");
        browser.click("button[data-action='enable']").await;
        browser.find("button[data-action='disable']").await;
        browser.ready().await;
        let buyer = app.session_of(buyer.id).await;
        browser.click("button[data-action='logout-user']").await;
        browser.says("[role='status']", "All sessions are over").await;
        browser.ready().await;
        assert_eq!(app.buy(&buyer, voucher).await.code(), "LOGIN_REQUIRED");
        browser.close().await;
        app.finish().await;
    }
}
