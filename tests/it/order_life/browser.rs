//! What a buyer sees in a real browser, with the page's script and without a reload of his own.

use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_buys_pays_and_sees_his_code() {
    let app = TestApp::start().await;
    let voucher = app.sale(3).await;
    let buyer = app.buyer().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.click(&format!("[data-voucher='{voucher}'] button[data-action='buy']")).await;
    browser.find("[data-order][data-status='PENDING']").await;
    let countdown = browser.find("time[data-countdown]").await.text().await.unwrap();
    assert!(countdown.contains("15:00") || countdown.contains("14:"), "{countdown}");
    browser.click("button[data-action='pay']").await;
    browser.click("button[value='approve']").await;
    browser.find("[data-order][data-status='PAID']").await;
    let code = browser.find("[data-coupon]").await.text().await.unwrap();
    assert_eq!(code.chars().filter(char::is_ascii_alphanumeric).count(), 12, "{code}");
    browser.find("svg.qr path").await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_cancels_and_buys_again() {
    let app = TestApp::start().await;
    let voucher = app.sale(1).await;
    let buyer = app.buyer().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    let buy = format!("[data-voucher='{voucher}'] button[data-action='buy']");
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.click(&buy).await;
    browser.find("[data-order][data-status='PENDING']").await;
    let first = browser.path().await;
    browser.click("button[data-action='cancel']").await;
    browser.find("[data-order][data-status='CANCELLED']").await;
    browser.click(&format!("a[href='/shop/{}']", app.shop)).await;
    browser.click(&buy).await;
    browser.find("[data-order][data-status='PENDING']").await;
    assert_ne!(browser.path().await, first, "a new order");
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_waits_too_long_and_sees_it_closed_without_a_reload() {
    let app = TestApp::with("--pay-window", "4s").start().await;
    let voucher = app.sale(1).await;
    let buyer = app.buyer().await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.click(&format!("[data-voucher='{voucher}'] button[data-action='buy']")).await;
    browser.find("[data-order][data-status='PENDING']").await;
    browser.ready().await;
    browser.find("[data-order][data-status='CANCELLED']").await;
    browser.close().await;
    app.finish().await;
}
