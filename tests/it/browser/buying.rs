//! The main path: log in, click, hear that the order is created; and every way to click too often.

use std::time::Duration;

use seckill::domain::ids::VoucherId;
use serde_json::Value;
use thirtyfour::prelude::*;

use super::{CREATED, NEWS, PASSWORD, button, card, only_order, person};
use crate::support::app::{Buyer, TestApp};
use crate::support::browser::{Browser, Script};
use crate::support::socket::Socket;

async fn the_page_shows_the_created_order_without_a_reload(script: Script) {
    let app = TestApp::start().await;
    let (person, voucher) = (person(&app, "13711110001", None, false).await, app.sale(5).await);
    let browser = Browser::open(&app.base, script).await;
    let shop = format!("/shop/{}", app.shop);
    browser.go(&shop).await;
    browser.click(&button(voucher)).await;
    browser.says("main", "登录后回到刚才的页面").await;
    browser.log_in(person.phone, PASSWORD).await;
    assert_eq!(browser.path().await, shop, "back on the page that he came from");

    // While somebody else writes to the database the order can only wait; the page says so.
    let writer = app.lock_writes().await;
    browser.reads(&button(voucher), "限时抢购").await;
    browser.click(&button(voucher)).await;
    browser.find("div[data-order][data-status='QUEUED']").await;
    browser.reads("h1", "正在排队").await;
    if script == Script::On {
        browser.ready().await;
        browser.js("(window.stayed = true)").await;
    }
    writer.close().await;
    browser.find(CREATED).await;
    browser.find(NEWS).await;
    browser.says(NEWS, "订单已创建").await;
    browser.reads("h1", "下单成功，等你付款").await;
    if script == Script::On {
        assert_eq!(browser.js("window.stayed").await, true, "the page was loaded again");
        browser.reads("[data-connection]", "实时更新中").await;
    }
    let order = only_order(&app, person.id).await;
    assert_eq!(browser.attr("div[data-order]", "data-order").await, order.id.to_string());
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_created_order_without_a_reload_with_script() {
    the_page_shows_the_created_order_without_a_reload(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_created_order_by_itself_without_script() {
    the_page_shows_the_created_order_without_a_reload(Script::Off).await;
}

/// A shop, a sale, a buyer who is logged in and sees the card.
async fn at_the_card(script: Script) -> (TestApp, VoucherId, Buyer, Browser) {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(5).await, app.buyer().await);
    let browser = Browser::open(&app.base, script).await;
    browser.become_user(&buyer).await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    (app, voucher, buyer, browser)
}

/// The order's page is there, and stays the same after a reload and after the way back; one order, one unit.
async fn one_order_whatever_is_loaded_again(app: &TestApp, voucher: VoucherId, buyer: &Buyer, browser: &Browser) {
    browser.find(CREATED).await;
    let id = only_order(app, buyer.id).await.id.to_string();
    for _ in 0..2 {
        browser.driver().refresh().await.unwrap();
        browser.ready().await;
        assert_eq!(browser.attr(CREATED, "data-order").await, id);
    }
    browser.driver().back().await.unwrap();
    browser.go(&format!("/shop/{}", app.shop)).await;
    assert_eq!(browser.attr(&card(voucher), "data-held").await, id);
    let link = browser.attr(&format!("{} .stub a", card(voucher)), "href").await;
    assert_eq!(link.split('?').next(), Some(format!("/orders/{id}").as_str()));
    only_order(app, buyer.id).await;
    let sale = app.app.services.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.stock_total, sale.stock_left), (5, 4));
}

async fn ten_fast_clicks_make_one_order(script: Script) {
    let (app, voucher, buyer, browser) = Box::pin(at_the_card(script)).await;
    let target = browser.find(&button(voucher)).await;
    let mut clicks =
        browser.driver().action_chain_with_delay(Some(Duration::ZERO), Some(Duration::ZERO)).move_to_element_center(&target);
    for _ in 0..10 {
        clicks = clicks.click();
    }
    clicks.perform().await.unwrap();
    Box::pin(one_order_whatever_is_loaded_again(&app, voucher, &buyer, &browser)).await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_fast_clicks_make_one_order_with_script() {
    ten_fast_clicks_make_one_order(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_fast_clicks_make_one_order_without_script() {
    ten_fast_clicks_make_one_order(Script::Off).await;
}

async fn enter_twice_makes_one_order(script: Script) {
    let (app, voucher, buyer, browser) = Box::pin(at_the_card(script)).await;
    browser.find(&button(voucher)).await.send_keys(Key::Enter + Key::Enter).await.unwrap();
    Box::pin(one_order_whatever_is_loaded_again(&app, voucher, &buyer, &browser)).await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_twice_makes_one_order_with_script() {
    enter_twice_makes_one_order(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn enter_twice_makes_one_order_without_script() {
    enter_twice_makes_one_order(Script::Off).await;
}

async fn the_keyboard_alone_is_enough_to_buy(script: Script) {
    let app = TestApp::start().await;
    let (person, voucher) = (person(&app, "13711110001", None, false).await, app.sale(5).await);
    let browser = Browser::open(&app.base, script).await;
    browser.go(&format!("/login?next=/shop/{}", app.shop)).await;
    tab_to(&browser, "name", "phone").await;
    press(&browser, person.phone).await;
    tab_to(&browser, "name", "password").await;
    press(&browser, PASSWORD).await;
    press(&browser, Key::Enter).await;
    browser.find(&button(voucher)).await;
    browser.ready().await;
    tab_to(&browser, "data-action", "buy").await;
    press(&browser, Key::Enter).await;
    browser.find(CREATED).await;
    only_order(&app, person.id).await;
    browser.close().await;
    app.finish().await;
}

pub(super) async fn press(browser: &Browser, keys: impl Into<TypingData>) {
    browser.driver().action_chain().send_keys(keys).perform().await.unwrap();
}

/// Goes from element to element until it stands on the one whose attribute has this value.
pub(super) async fn tab_to(browser: &Browser, attribute: &'static str, value: &str) {
    for _ in 0..40 {
        press(browser, Key::Tab).await;
        let here = browser.driver().active_element().await.unwrap();
        if here.attr(attribute).await.unwrap().as_deref() == Some(value) {
            return;
        }
    }
    panic!("the keyboard does not reach {attribute}={value}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_is_enough_to_buy_with_script() {
    the_keyboard_alone_is_enough_to_buy(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_is_enough_to_buy_without_script() {
    the_keyboard_alone_is_enough_to_buy(Script::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_tab_hears_it_too_and_its_button_becomes_the_way_to_the_order() {
    let (app, voucher, buyer, browser) = at_the_card(Script::On).await;
    browser.js("(window.stayed = true)").await;
    browser.reads("[data-connection]", "实时更新中").await;
    let first = browser.driver().window().await.unwrap();
    let second = browser.driver().new_tab().await.unwrap();
    browser.driver().switch_to_window(second).await.unwrap();
    browser.go(&format!("/shop/{}", app.shop)).await;
    browser.click(&button(voucher)).await;
    browser.find(CREATED).await;
    let id = only_order(&app, buyer.id).await.id.to_string();
    browser.driver().switch_to_window(first).await.unwrap();
    browser.says(NEWS, "订单已创建").await;
    browser.find(&format!("{}[data-held='{id}']", card(voucher))).await;
    assert_eq!(browser.attr(&format!("{NEWS} a"), "href").await, format!("/orders/{id}"));
    assert_eq!(browser.js("window.stayed").await, true);
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_id_is_the_same_digit_for_digit_wherever_it_stands() {
    let (app, voucher, buyer, browser) = at_the_card(Script::On).await;
    let (mut socket, _) = Socket::of(&app.base, &buyer.token).await;
    // What the page itself is answered: the click's own exchange, kept as text.
    let keep = "(window.fetch = (real => async (...a) => { const r = await real(...a); \
                if (a[1]?.method === 'POST') sessionStorage.setItem('told', await r.clone().text()); return r; \
                })(window.fetch), true)";
    browser.js(keep).await;
    browser.click(&button(voucher)).await;
    browser.find(CREATED).await;
    let order = only_order(&app, buyer.id).await;
    let told = browser.js("sessionStorage.getItem('told')").await;
    let told: Value = serde_json::from_str(told.as_str().unwrap()).unwrap();
    let message = socket.wait_for("order.created").await;
    let id = order.id.to_string();
    assert!(id.len() > 16, "{id}: long enough for a number of a script to lose its last digits");
    assert_eq!(told["data"], id);
    assert_eq!(message["order"]["id"], id);
    assert_eq!(app.ask::<String>(&format!("HGET seckill:{{0}}:order:{voucher} {}", buyer.id)).await, id);
    assert_eq!(browser.path().await.split('?').next(), Some(format!("/orders/{id}").as_str()));
    assert_eq!(browser.attr("div[data-order]", "data-order").await, id);
    assert!(browser.text(".facts").await.contains(&id));
    browser.go("/orders").await;
    assert_eq!(browser.attr("li[data-order]", "data-order").await, id);
    assert_eq!(browser.attr("li[data-order] a", "href").await, format!("/orders/{id}"));
    browser.close().await;
    app.finish().await;
}
