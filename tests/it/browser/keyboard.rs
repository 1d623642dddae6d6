//! By keyboard alone: from the ready line to a paid order, and back out of one.

use std::time::{Duration, Instant};

use thirtyfour::prelude::*;

use super::buying::{press, tab_to};
use super::{CREATED, button};
use crate::support::app::{TestApp, short_dir};
use crate::support::browser::{Browser, Script};
use crate::support::process::Process;

#[tokio::test(flavor = "multi_thread")]
async fn from_the_ready_line_to_a_paid_order_by_keyboard_alone() {
    let dir = short_dir();
    let mut demo = Process::serve(&dir.path().join("d"), &["--demo"]).await;
    let ready = Instant::now();
    let line = demo.printed.iter().find(|line| line.starts_with("demo buyer ")).expect("the demo names its buyer").clone();
    let [_, _, phone, password] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let browser = Browser::open(&demo.base, Script::On).await;
    browser.go("/").await;
    tab_to(&browser, "data-action", "buy").await;
    press(&browser, Key::Enter).await;
    browser.says("main", "登录后回到刚才的页面").await;
    browser.ready().await;
    tab_to(&browser, "name", "phone").await;
    press(&browser, phone).await;
    press(&browser, Key::Tab).await;
    press(&browser, password).await;
    press(&browser, Key::Enter).await;
    browser.find("button[data-action='logout']").await;
    browser.ready().await;
    tab_to(&browser, "data-action", "buy").await;
    press(&browser, Key::Enter).await;
    browser.find(CREATED).await;
    browser.ready().await;
    tab_to(&browser, "data-action", "pay").await;
    press(&browser, Key::Enter).await;
    browser.find("button[value='approve']").await;
    browser.ready().await;
    tab_to(&browser, "value", "approve").await;
    press(&browser, Key::Enter).await;
    browser.find("div[data-order][data-status='PAID'] [data-coupon]").await;
    let took = ready.elapsed();
    assert!(took < Duration::from_mins(2), "it took {took:?}");
    browser.close().await;
    demo.child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_given_back_by_keyboard_alone() {
    let app = TestApp::start().await;
    let (buyer, voucher) = (app.buyer().await, app.sale(5).await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    // While somebody else writes to the database the order can only wait; what is said is said to a reader of screens, too.
    let writer = app.lock_writes().await;
    browser.find(&button(voucher)).await;
    tab_to(&browser, "data-action", "buy").await;
    press(&browser, Key::Enter).await;
    browser.find("div[data-order][data-status='QUEUED']").await;
    browser.find("[role='status'][data-event='order.queued']").await;
    browser.ready().await;
    writer.close().await;
    browser.find(CREATED).await;
    browser.find("[role='status'][data-event='order.created']").await;
    tab_to(&browser, "data-action", "cancel").await;
    press(&browser, Key::Enter).await;
    browser.find("div[data-order][data-status='CANCELLED']").await;
    browser.ready().await;
    // The skip link leads past the head of the page.
    browser.go("/").await;
    press(&browser, Key::Tab).await;
    let first = browser.driver().active_element().await.unwrap();
    assert_eq!(first.attr("href").await.unwrap().as_deref(), Some("#main"));
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_that_is_new_here_logs_in_by_a_code() {
    let app = TestApp::start().await;
    for (script, first) in [(Script::On, 13_655_550_000_u64), (Script::Off, 13_655_560_000)] {
        let browser = Browser::open(&app.base, script).await;
        // A slow machine may say BUSY, and the same phone has to wait a minute then: the next one need not.
        let mut phones = first..;
        let mut phone = String::new();
        while !browser.text("[role='status']").await.contains("验证码已发出") {
            phone = phones.next().filter(|next| *next < first + 8).expect("no code is sent").to_string();
            browser.go("/login?next=/account").await;
            browser.click("details summary").await;
            browser.fill("#codephone", &phone).await;
            browser.click("button[value='code']").await;
            browser.find("details[open]").await;
            browser.ready().await;
        }
        let phone = phone.as_str();
        browser.complaints().await; // a BUSY is a 503, which the console counts as a failed load
        assert_eq!(browser.find("#codephone").await.prop("value").await.unwrap().as_deref(), Some(phone));
        browser.fill("#code", "000000x").await;
        browser.click("form[data-form='code'] button.go").await;
        browser.says("[role='alert']", "验证码不对或已过期").await;
        browser.ready().await;
        browser.complaints().await; // the refused form is a 422, which the console counts as a failed load
        browser.go("/sandbox-sms").await;
        let code = browser.text("[data-code]").await;
        browser.go("/login?next=/account").await;
        browser.click("details summary").await;
        browser.fill("#codephone", phone).await;
        browser.fill("#code", &code).await;
        browser.click("form[data-form='code'] button.go").await;
        browser.find("button[data-action='logout']").await;
        assert_eq!(browser.path().await, "/account");
        browser.close().await;
    }
    app.finish().await;
}
