//! Hands that are slow, quick or late in the control room: what they do to the stock is what they meant, and once.

use futures_util::future::join_all;

use super::admin::{set_time, typed_time};
use crate::support::app::{Buyer, TestApp};
use crate::support::browser::{Browser, Script};
use seckill::domain::ids::VoucherId;

/// Units ever put on sale, left in the books, left at the gate.
async fn stock(app: &TestApp, voucher: VoucherId) -> (i64, i64, i64) {
    app.settled().await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    let gate = app.app.services.gate.stocks(&[voucher]).await.unwrap();
    (sale.stock_total, sale.stock_left, gate[0].unwrap())
}

async fn all_buy(app: &TestApp, buyers: &[Buyer], voucher: VoucherId) {
    for answer in join_all(buyers.iter().map(|buyer| app.buy_for_sure(buyer, voucher))).await {
        app.admitted_or_held(&answer);
    }
}

async fn an_edit_page_that_was_open_all_along_touches_no_stock(script: Script) {
    let app = TestApp::start().await;
    let (admin, voucher, buyers) = (app.admin().await, app.sale(100).await, app.buyers(55).await);
    let browser = Browser::open_in(&app.base, script, "en").await;
    browser.become_user(&admin).await;
    browser.go(&format!("/admin/vouchers/{voucher}")).await;
    all_buy(&app, &buyers[..5], voucher).await;
    assert_eq!(stock(&app, voucher).await, (100, 95, 95));
    browser.fill("#title", "Tea").await;
    browser.click("button[data-action='edit']").await;
    browser.says("main [role='status']", "The text is saved.").await;
    browser.ready().await;
    browser.reads("h1", "Tea").await;
    assert_eq!(stock(&app, voucher).await, (100, 95, 95), "a new title is no new stock");

    // Ten more while fifty click: none of these is lost in either store.
    let grow = async {
        browser.fill(&format!("#d{voucher}"), "+10").await;
        browser.click("button[data-action='stock']").await;
        browser.says("main [role='status']", "The stock is changed.").await;
        browser.ready().await;
    };
    tokio::join!(grow, all_buy(&app, &buyers[5..], voucher));
    assert_eq!(stock(&app, voucher).await, (110, 55, 55));
    browser.fill(&format!("#d{voucher}"), "-56").await;
    browser.click("button[data-action='stock']").await;
    browser.find("#delta-error").await;
    browser.ready().await;
    browser.complaints().await; // a refused form is a 422, which the console counts as a failed load
    assert_eq!(stock(&app, voucher).await, (110, 55, 55), "what is sold cannot be taken away");

    browser.go("/admin/vouchers/new").await;
    for (field, text) in [("#title", "Twice"), ("#payValue", "9.9"), ("#actualValue", "38"), ("#stock", "3")] {
        browser.fill(field, text).await;
    }
    set_time(&browser, "beginTime", &typed_time(&app, &browser, -3_600).await).await;
    set_time(&browser, "endTime", &typed_time(&app, &browser, 7_200).await).await;
    let save = browser.find("form[data-form='voucher'] button.go").await;
    let twice = browser.driver().action_chain_with_delay(Some(std::time::Duration::ZERO), Some(std::time::Duration::ZERO));
    twice.double_click_element(&save).perform().await.unwrap();
    browser.says("main", "Saved and published.").await;
    browser.ready().await;
    assert_eq!(app.app.services.store.all_sales().await.unwrap().len(), 2, "two clicks are one sale");
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_page_that_was_open_all_along_touches_no_stock_with_script() {
    Box::pin(an_edit_page_that_was_open_all_along_touches_no_stock(Script::On)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_page_that_was_open_all_along_touches_no_stock_without_script() {
    Box::pin(an_edit_page_that_was_open_all_along_touches_no_stock(Script::Off)).await;
}
