//! The form for a new sale: what it offers, what it shows before anything is saved, what it warns about.

use super::admin::{set_time, typed_time, value_of};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

async fn a_sale_is_copied_previewed_warned_about_and_saved(script: Script) {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let earlier = app.sale_between(7, -7_200_000, -60_000).await;
    let browser = Browser::open(&app.base, script).await;
    browser.become_user(&admin).await;
    browser.go("/admin/vouchers/new?lang=en").await;
    // It offers a sale that can be saved once it has a name and a price.
    assert_eq!(value_of(&browser, "stock").await, "100");
    assert!(value_of(&browser, "endTime").await > value_of(&browser, "beginTime").await);
    assert!(value_of(&browser, "beginTime").await >= typed_time(&app, &browser, 60).await);
    browser.says("#zone", "time zone").await;
    browser.click(&format!("#copy option[value='{earlier}']")).await;
    browser.click("form[method='get'] button").await;
    browser.says("[role='status']", "Copied from").await;
    browser.ready().await;
    for (field, value) in [("title", "下午茶"), ("payValue", "49"), ("actualValue", "100"), ("stock", "7")] {
        assert_eq!(value_of(&browser, field).await, value, "{field}");
    }
    assert!(value_of(&browser, "beginTime").await >= typed_time(&app, &browser, 60).await, "its times are moved on");
    browser.reads("[data-look] h3", "下午茶").await;
    browser.reads("[data-look] [data-stock]", "7").await;

    browser.fill("#title", "夜宵").await;
    browser.fill("#payValue", "120").await;
    browser.fill("#stock", "0").await;
    browser.js("(document.getElementById('captcha').checked = true)").await;
    let begin = typed_time(&app, &browser, -7_200).await;
    set_time(&browser, "beginTime", &begin).await;
    if script == Script::On {
        browser.js("document.getElementById('title').dispatchEvent(new Event('input', { bubbles: true }))").await;
    } else {
        browser.click("button[value='preview']").await;
    }
    browser.reads("[data-look] h3", "夜宵").await;
    for warning in ["The price of 120 yuan is above", "0 units", "is over: the sale is on as soon as you save"] {
        browser.says("[data-minds]", warning).await;
    }
    assert!(browser.text("[role='alert']").await.is_empty(), "a warning is no error");
    assert_eq!(app.app.services.store.all_sales().await.unwrap().len(), 1, "a preview saves nothing");
    assert_eq!(value_of(&browser, "beginTime").await, begin, "what was typed is kept");

    browser.fill("#payValue", "1.234").await;
    browser.click("form[data-form='voucher'] button.go").await;
    browser.says("#payValue-error", "at most two decimals").await;
    browser.ready().await;
    browser.says("[role='alert'] a[href='#payValue']", "Price").await;
    browser.complaints().await; // the refused form is a 422, which the console counts as a failed load
    browser.fill("#payValue", "120").await;
    browser.click("form[data-form='voucher'] button.go").await;
    browser.says("main", "Saved and published").await;
    browser.ready().await;
    let sales = app.app.services.store.all_sales().await.unwrap();
    let saved = sales.iter().find(|sale| sale.voucher != earlier).unwrap();
    assert_eq!((saved.stock_total, saved.captcha), (0, true));
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_copied_previewed_warned_about_and_saved_with_script() {
    a_sale_is_copied_previewed_warned_about_and_saved(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_copied_previewed_warned_about_and_saved_without_script() {
    a_sale_is_copied_previewed_warned_about_and_saved(Script::Off).await;
}
