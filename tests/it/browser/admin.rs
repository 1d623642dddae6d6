//! The merchant makes a sale in the form; and every page of the shop keeps the console quiet.

use jiff::tz::TimeZone;
use seckill::domain::time::Millis;

use super::{CREATED, PASSWORD, button, only_order, person};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

/// A time as a field of the form takes it, in the zone that the form is read in.
pub(super) async fn typed_time(app: &TestApp, browser: &Browser, from_now: i64) -> String {
    let zone = browser.find("input[name='timeZone']").await.prop("value").await.unwrap().unwrap();
    let at = Millis(app.clock.now().0 + from_now * 1_000).in_zone(&TimeZone::get(&zone).unwrap());
    at.strftime("%Y-%m-%dT%H:%M").to_string()
}

/// A field for times takes no plain typing.
pub(super) async fn set_time(browser: &Browser, field: &str, value: &str) {
    browser.js(&format!("(document.getElementById({field:?}).value = {value:?})")).await;
}

pub(super) async fn value_of(browser: &Browser, field: &str) -> String {
    browser.find(&format!("#{field}")).await.prop("value").await.unwrap().unwrap_or_default()
}

async fn a_sale_made_in_the_form_can_be_bought_at_once(script: Script) {
    let app = TestApp::start().await;
    let admin = person(&app, "13711110002", None, true).await;
    let browser = Browser::open(&app.base, script).await;
    browser.go("/admin/vouchers/new").await;
    browser.log_in(admin.phone, PASSWORD).await;
    assert_eq!(browser.path().await, "/admin/vouchers/new");

    let (begin, end) = (typed_time(&app, &browser, -3_600).await, typed_time(&app, &browser, 7_200).await);
    browser.fill("#title", "夜宵套餐").await;
    browser.fill("#payValue", "12.345").await;
    browser.fill("#actualValue", "38").await;
    browser.fill("#rules", "第一行\n第二行").await;
    browser.fill("#stock", "-1").await;
    set_time(&browser, "beginTime", &end).await;
    set_time(&browser, "endTime", &begin).await;
    browser.click("form[data-form='voucher'] button.go").await;
    browser.find("#payValue-error").await;
    browser.ready().await;
    browser.says("[role='alert']", "还没保存").await;
    for field in ["payValue", "stock", "endTime"] {
        assert_ne!(browser.text(&format!("#{field}-error")).await, "", "{field}");
        assert_eq!(browser.attr(&format!("#{field}"), "aria-invalid").await, "true", "{field}");
        assert!(browser.attr(&format!("#{field}"), "aria-describedby").await.contains(&format!("{field}-error")));
    }
    for (field, kept) in [
        ("title", "夜宵套餐"),
        ("payValue", "12.345"),
        ("actualValue", "38"),
        ("rules", "第一行\n第二行"),
        ("stock", "-1"),
        ("beginTime", end.as_str()),
        ("endTime", begin.as_str()),
    ] {
        assert_eq!(value_of(&browser, field).await, kept, "{field}");
        let wrong = ["payValue", "stock", "endTime"].contains(&field);
        assert_eq!(!browser.attr(&format!("#{field}"), "aria-invalid").await.is_empty(), wrong, "{field}");
    }
    // A refused form is a 422, which the console counts as a failed load; nothing else may be there.
    assert!(browser.complaints().await.iter().all(|c| c.contains("422")));
    assert!(app.app.services.store.all_sales().await.unwrap().is_empty());

    browser.fill("#payValue", "9.9").await;
    browser.fill("#stock", "3").await;
    set_time(&browser, "beginTime", &begin).await;
    set_time(&browser, "endTime", &end).await;
    browser.click("form[data-form='voucher'] button.go").await;
    browser.says("main", "已保存并发布").await;
    browser.ready().await;
    let sales = app.app.services.store.all_sales().await.unwrap();
    assert_eq!(sales.len(), 1);
    let voucher = sales[0].voucher;
    assert_eq!(browser.path().await.split('?').next(), Some(format!("/admin/vouchers/{voucher}").as_str()));
    browser.find("[data-balanced='true']").await;
    assert_eq!(sales[0].end.0 - sales[0].begin.0, 3 * 3_600_000);

    browser.click(&format!("a[href^='/shop/{}']", app.shop)).await;
    browser.find(&button(voucher)).await;
    browser.ready().await;
    browser.click(&button(voucher)).await;
    browser.find(CREATED).await;
    assert_eq!(only_order(&app, admin.id).await.pay_amount.0, 990);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_made_in_the_form_can_be_bought_at_once_with_script() {
    a_sale_made_in_the_form_can_be_bought_at_once(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_made_in_the_form_can_be_bought_at_once_without_script() {
    a_sale_made_in_the_form_can_be_bought_at_once(Script::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_makes_the_console_speak_and_none_is_wider_than_a_phone() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let (open, _soon) = (app.sale(5).await, app.sale_between(5, 3_600_000, 7_200_000).await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.resize(360, 740).await;
    let shop = format!("/shop/{}", app.shop);
    let fits = async |path: &str| {
        browser.go(path).await;
        let fits = browser.js("innerWidth === 360 && document.documentElement.scrollWidth <= innerWidth").await;
        assert_eq!(fits, true, "{path} must not be scrolled sideways");
        let head = browser.js("document.querySelector('header.top').offsetHeight").await;
        assert!(head.as_i64().unwrap() < 64, "the head of {path} takes more than one line: {head} px");
        browser.quiet().await;
    };
    for lang in ["zh-CN", "en"] {
        for path in ["/", &shop, "/login", "/register"] {
            fits(&format!("{path}?lang={lang}")).await;
        }
    }
    let order = app.admitted(&app.buy(&admin, open).await);
    app.settled().await;
    browser.become_user(&admin).await;
    let (order, voucher) = (format!("/orders/{order}"), format!("/admin/vouchers/{open}"));
    for lang in ["zh-CN", "en"] {
        for path in ["/", &shop, "/orders", &order, "/account", "/admin", "/admin/vouchers/new", &voucher] {
            fits(&format!("{path}?lang={lang}")).await;
        }
    }
    // The log would tell: a violation of the content policy is one.
    browser.js("document.body.setAttribute('onclick', 'window.pwned = 1')").await;
    let told = browser.wait("no violation in the log", async || Some(browser.complaints().await).filter(|c| !c.is_empty())).await;
    assert!(told.iter().any(|t| t.contains("Content Security Policy")), "{told:?}");
    browser.close().await;
    app.finish().await;
}
