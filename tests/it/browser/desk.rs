//! The control room: its numbers follow by themselves, a unit of drift is seen, mended and written down, and what can only be
//! discarded is not offered to be tried again. Its every action is in `walks/`.

use std::time::{Duration, Instant};

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
async fn a_unit_of_drift_turns_the_equation_red_within_a_minute_and_the_repair_puts_it_right() {
    // The web role alone: it stays wrong until the test says who mends it.
    let app = TestApp::with("--roles", "web").start().await;
    let (voucher, admin) = (app.sale(5).await, app.admin().await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&admin).await;
    let books = |state: &str| format!("[data-part='sale-{voucher}'] [data-balanced='{state}']");
    let drift = async || app.ask::<i64>(&format!("INCR {}", keys::stock(Lane(0), voucher))).await;
    let stocks = async || app.app.services.gate.stocks(&[voucher]).await.unwrap();
    browser.go("/admin").await;
    browser.find(&books("true")).await;
    browser.reads("[data-connection]", "实时更新中").await;
    browser.js("(window.stayed = true)").await;

    let begun = Instant::now();
    assert_eq!(drift().await, 6);
    browser.find(&books("false")).await;
    assert!(begun.elapsed() < Duration::from_mins(1), "red only after {:?}", begun.elapsed());
    browser.says(&books("false"), "✕ 账不平：Redis 多 1 份").await;
    browser.says("#wrong", "账不平").await;
    assert_eq!(browser.js("window.stayed").await, true, "the page was loaded again");
    let cookie = format!("seckill_session={}", admin.token);
    let plain = app.http.page(Some(&cookie), "/admin").await.text();
    assert!(plain.contains("data-balanced=\"false\""), "the plain page says so, too: {plain}");
    assert_eq!(log_of(&app, voucher).await, ["sale.create"]);
    browser.click(&format!("{} button[data-action='rebuild']", books("false"))).await;
    browser.find(&books("true")).await;
    browser.ready().await;
    assert_eq!(stocks().await, [Some(5)]);
    assert_eq!(log_of(&app, voucher).await, ["sale.create", "sale.rebuild"]);
    let line = app.app.services.store.audit_lines(None, 1).await.unwrap().pop().unwrap();
    assert_eq!((line.action.as_str(), line.who), ("sale.rebuild", admin.id.to_string()));

    // Where nobody presses it, the shop's own round finds it: whoever only watches sees red, and green again.
    drift().await;
    browser.find(&books("false")).await;
    let round = app.app.services.drift.round(&[Lane(0)], Duration::from_hours(1)).await.unwrap();
    assert_eq!(round.believed, 1, "{round:?}");
    browser.find(&books("true")).await;
    assert_eq!(stocks().await, [Some(5)]);
    assert_eq!(log_of(&app, voucher).await.last().map(String::as_str), Some("gate.rebuild"));
    browser.go("/admin/audit-log").await;
    browser.says("[data-list]", "自动重建闸门").await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_decided_and_a_user_is_shut_out_by_hand() {
    let (app, voucher, _, browser) = at_the_desk(Script::Off, "en", 360).await;
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
    // Only what could be saved is offered to be tried again: neither what cannot be read nor what no sale is behind.
    assert_eq!(browser.driver().find_all(By::Css("button[data-action='retry']")).await.unwrap().len(), 0);
    browser.says("main", "userId is no number").await;
    browser.says("main", "There is no such sale").await;
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
