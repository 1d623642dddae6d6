//! The walk of a shopper: from a new account through an order that he gives back, one that he pays and one that he pays too late.

use std::time::Duration;

use seckill::domain::ids::UserId;
use seckill::domain::user::Phone;

use super::{Walk, Way, Who};
use crate::browser::{CREATED, button, card};
use crate::support::app::TestApp;
use crate::support::browser::Script;
use crate::support::until;

const PHONE: &str = "13655550001";
const FIRST_PASSWORD: &str = "korrekt pferd";
const PASSWORD: &str = "batterie heftklammer";
const LOGGED_IN: &str = "button[data-action='logout']";
const PAY: &str = "button[data-action='pay']";

pub(super) async fn walk(way: Way) {
    let app = TestApp::start().await;
    let walk = Walk::begin(&app, Who::Shopper, way).await;
    chooses_a_look(&walk).await;
    let user = gets_an_account(&walk).await;
    buys_waits_and_gives_back(&walk).await;
    pays(&walk, user).await;
    pays_too_late(&walk, user).await;
    comes_back_by_code(&walk).await;
    walk.end().await;
    app.finish().await;
}

/// An order's page in this state.
fn order(status: &str) -> String {
    format!("div[data-order][data-status='{status}']")
}

async fn chooses_a_look(walk: &Walk<'_>) {
    let (browser, tag) = (&walk.browser, walk.way.lang.tag());
    browser.go("/").await;
    assert_eq!(browser.attr("html", "lang").await, walk.way.lang.other().tag(), "his browser asked for it");
    walk.follow(&format!("header a[hreflang='{tag}']"), &format!("html[lang='{tag}']")).await;
    walk.go("/").await;
    walk.done("switch the language");
    walk.follow("footer a[href*='theme=dark']", "html[data-theme='dark']").await;
    walk.go("/docs").await;
    assert_eq!(browser.attr("html", "data-theme").await, "dark", "remembered");
    walk.follow("footer a[href*='theme=auto']", "html:not([data-theme])").await;
    walk.done("switch the theme");
    browser.go("/not-there").await;
    browser.reads("h1", &walk.t("error-title-not-found")).await;
    assert!(browser.complaints().await.iter().all(|c| c.contains("404")));
    walk.follow("main a.btn.go", "section[aria-labelledby='now']").await;
    walk.done("lose the way");
}

async fn gets_an_account(walk: &Walk<'_>) -> UserId {
    let (app, browser) = (walk.app, &walk.browser);
    walk.go("/login").await;
    walk.follow("main a[href^='/register']", "form[action='/register']").await;
    browser.fill("#phone", PHONE).await;
    browser.fill("#password", "short").await;
    walk.press_in_vain("form[action='/register'] button", "#password-error").await;
    browser.reads("#password-error", &walk.t("error-password-short")).await;
    browser.fill("#password", FIRST_PASSWORD).await;
    walk.press("form[action='/register'] button", LOGGED_IN).await;
    let user = app.app.services.users.by_phone_or_new(&Phone::parse(PHONE).unwrap()).await.unwrap().id;
    walk.done("register");

    let elsewhere = app.session_of(user).await;
    assert_eq!(app.http.get_as(&elsewhere.token, "/api/user/me").await.status, 200);
    walk.go("/account").await;
    browser.fill("#oldPassword", FIRST_PASSWORD).await;
    browser.fill("#newPassword", PASSWORD).await;
    walk.press("form[action='/account/password'] button", "main [role='status'][data-tone='good']").await;
    browser.says("main [role='status']", &walk.t("account-password-done")).await;
    walk.done("change the password");
    assert_eq!(app.http.get_as(&elsewhere.token, "/api/user/me").await.status, 401, "logged out everywhere else");
    walk.done("end the other sessions");

    walk.press(LOGGED_IN, "header a[href^='/login']").await;
    walk.done("log out");
    user
}

async fn buys_waits_and_gives_back(walk: &Walk<'_>) {
    let (app, browser) = (walk.app, &walk.browser);
    let (voucher, shop) = (app.sale(5).await, format!("/shop/{}", app.shop));
    walk.go(&shop).await;
    walk.press(&button(voucher), "form[action='/login'] #password").await;
    browser.says("main", &walk.t("login-back")).await;
    browser.fill("#phone", PHONE).await;
    browser.fill("#password", FIRST_PASSWORD).await;
    walk.press_in_vain("form:has(#password) button", "main [role='alert']").await;
    browser.says("main [role='alert']", &walk.t("next-bad-credentials")).await;
    browser.fill("#password", PASSWORD).await;
    walk.press("form:has(#password) button", LOGGED_IN).await;
    assert_eq!(browser.path().await, shop, "back on the page that he came from");
    walk.done("log in by password");

    // While somebody else writes to the database the order can only wait.
    let writer = app.lock_writes().await;
    browser.reads(&button(voucher), &walk.t("buy")).await;
    walk.press(&button(voucher), &order("QUEUED")).await;
    walk.done("buy");
    browser.reads("h1", &walk.t("title-queued")).await;
    writer.close().await;
    walk.comes(CREATED).await;
    browser.reads("h1", &walk.t("title-pending")).await;
    walk.done("wait");
    walk.press("button[data-action='cancel']", &order("CANCELLED")).await;
    browser.reads("h1", &walk.t("title-cancelled")).await;
    walk.done("cancel");
}

async fn pays(walk: &Walk<'_>, user: UserId) {
    let (app, browser) = (walk.app, &walk.browser);
    let voucher = app.sale(5).await;
    walk.go(&format!("/shop/{}", app.shop)).await;
    walk.press(&button(voucher), "div[data-order]").await;
    walk.comes(CREATED).await;
    walk.press(PAY, "button[value='decline']").await;
    walk.done("pay");
    walk.press("button[value='decline']", CREATED).await;
    walk.press(PAY, "button[value='approve']").await;
    walk.press("button[value='approve']", "div[data-order]").await;
    walk.comes(&format!("{} [data-coupon]", order("PAID"))).await;
    browser.reads("h1", &walk.t("title-paid")).await;
    walk.done("press the provider's buttons");

    walk.go(&format!("/shop/{}", app.shop)).await;
    browser.says(&format!("{} .chip", card(voucher)), &walk.t("chip-held")).await;
    walk.follow(&format!("{} .stub a.go", card(voucher)), &order("PAID")).await;
    let orders = app.app.services.store.orders_of(user, None, 1).await.unwrap();
    let path = format!("/api/voucher-order/{}/refund", orders[0].id);
    assert_eq!(app.http.post_as(&app.admin().await.token, &path).await.status, 200);
    walk.comes(&order("REFUNDED")).await;
    browser.reads("h1", &walk.t("title-refunded")).await;
    walk.done("be refunded by the shop");
}

async fn pays_too_late(walk: &Walk<'_>, user: UserId) {
    let (app, browser) = (walk.app, &walk.browser);
    let voucher = app.sale(5).await;
    walk.go("/").await;
    walk.press(&button(voucher), "div[data-order]").await;
    walk.comes(CREATED).await;
    walk.press(PAY, "button[value='late']").await;
    walk.press("button[value='late']", CREATED).await;
    app.clock.advance(Duration::from_mins(20));
    walk.comes(&order("CANCELLED")).await;
    let late = app.app.services.store.orders_of(user, None, 1).await.unwrap()[0].id;
    until("the money does not go back", Duration::from_secs(20), async || {
        app.app.services.store.order(late).await.unwrap().unwrap().refunded_at.is_some()
    })
    .await;
    let refunded = async || {
        if walk.way.script == Script::Off {
            browser.driver().refresh().await.unwrap();
        }
        (browser.text("h1").await == walk.t("title-late-done")).then_some(())
    };
    browser.wait("the money does not come back", refunded).await;
    walk.look().await;
    walk.done("pay too late and be refunded");
    walk.go("/orders").await;
    for chip in ["status-cancelled", "status-refunded"] {
        browser.says("ol.list", &walk.t(chip)).await;
    }
}

async fn comes_back_by_code(walk: &Walk<'_>) {
    let browser = &walk.browser;
    walk.press(LOGGED_IN, "header a[href^='/login']").await;
    walk.go("/login?next=/account").await;
    browser.click("details summary").await;
    browser.fill("#codephone", PHONE).await;
    walk.press("button[value='code']", "details[open] [role='status']").await;
    browser.says("details [role='status']", &walk.t("login-code-sent")).await;
    walk.follow("details [role='status'] a", "[data-code]").await;
    let code = browser.text("[data-code]").await;
    walk.go("/login?next=/account").await;
    browser.click("details summary").await;
    browser.fill("#codephone", PHONE).await;
    browser.fill("#code", &code).await;
    walk.press("form[data-form='code'] button.go", LOGGED_IN).await;
    assert_eq!(browser.path().await, "/account");
    walk.done("log in by code");
}
