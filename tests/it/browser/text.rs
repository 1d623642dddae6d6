//! Words: what others typed is shown and never run, and each state speaks both languages.

use seckill::domain::money::Fen;
use seckill::domain::time::Millis;
use seckill::domain::voucher::NewSale;

use super::{CREATED, NEWS, PASSWORD, button, card, person};
use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

/// Also what a template of another kind would fill in, and the line separator that ends a line in a script and not in JSON.
const HOSTILE: [&str; 2] = [
    "</script><script>window.pwned=1</script>`${window.pwned=1}`{{7*7}}\u{2028}window.pwned=1",
    "<img src=x onerror=window.pwned=1>\"'{t}{title}&amp;<!--",
];

/// Nothing of what was typed became a part of the page.
async fn harmless(browser: &Browser) {
    let found = browser.js("[typeof window.pwned, document.images.length, document.scripts.length]").await;
    assert_eq!(found, serde_json::json!(["undefined", 0, 2]), "{}", browser.path().await);
    browser.quiet().await;
}

/// Waits until the element holds `title` letter for letter, as text.
async fn shows(browser: &Browser, css: &str, title: &str) {
    let css = serde_json::to_string(css).unwrap();
    let text = format!("(document.querySelector({css})?.textContent ?? '')");
    let there = async || browser.js(&text).await.as_str().unwrap_or_default().contains(title).then_some(());
    browser.wait(&format!("{css} does not show {title:?}"), there).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_typed_shows_as_text_everywhere() {
    let app = TestApp::start().await;
    let nick = "<img src=x onerror=pwned=1>";
    let admin = person(&app, "13711110002", Some(nick), true).await;
    let browser = Browser::open(&app.base, Script::On).await;
    browser.go("/login").await;
    browser.log_in(admin.phone, PASSWORD).await;
    browser.go("/account").await;
    browser.says(".facts", nick).await;
    harmless(&browser).await;
    for title in HOSTILE {
        let now = app.clock.now();
        let (begin, end) = (Millis(now.0 + 6_000), Millis(now.0 + 3_600_000));
        let mut voucher = app.voucher(title);
        (voucher.sub_title, voucher.rules) = (title.to_owned(), title.to_owned());
        let sale = NewSale { stock: 3, begin, end, captcha: false };
        let id = app.app.services.sales.create_sale(Some(admin.id), None, &voucher, &sale).await.unwrap();
        let shop = format!("/shop/{}", app.shop);
        browser.go("/").await;
        shows(&browser, &format!("{} h3", card(id)), title).await;
        // Parts that the script draws: what it announces, the news of an order, the order's page put in place anew.
        shows(&browser, "[data-announce]", title).await;
        harmless(&browser).await;
        browser.go(&shop).await;
        shows(&browser, &format!("{} h3", card(id)), title).await;
        harmless(&browser).await;
        let first = browser.driver().window().await.unwrap();
        let second = browser.driver().new_tab().await.unwrap();
        browser.driver().switch_to_window(second).await.unwrap();
        browser.go(&shop).await;
        let writer = app.lock_writes().await;
        browser.click(&button(id)).await;
        browser.find("div[data-order][data-status='QUEUED']").await;
        browser.ready().await;
        writer.close().await;
        browser.find(CREATED).await;
        shows(&browser, NEWS, title).await;
        shows(&browser, "h2#what", title).await;
        harmless(&browser).await;
        browser.go("/orders").await;
        shows(&browser, "ol.list", title).await;
        harmless(&browser).await;
        browser.go("/admin").await;
        // What the server drew at first, and what the script puts in place each second.
        browser.js("(window.first = document.querySelector('[data-part=\"as-of\"]'), 0)").await;
        shows(&browser, "main", title).await;
        browser
            .wait("no news in the control room", async || (browser.js("window.first.isConnected").await == false).then_some(()))
            .await;
        shows(&browser, "main", title).await;
        harmless(&browser).await;
        for (path, place) in [
            (format!("/admin/vouchers/{id}/orders"), "main"),
            (format!("/admin/vouchers/{id}/end"), "main"),
            (format!("/admin/reports/{id}"), "main"),
            (String::from("/admin/audit-log"), "[data-list]"),
        ] {
            browser.go(&path).await;
            shows(&browser, place, title).await;
            harmless(&browser).await;
        }
        browser.go(&format!("/admin/users?q={}", admin.phone)).await;
        shows(&browser, "main", nick).await;
        harmless(&browser).await;
        browser.go(&format!("/admin/vouchers/{id}")).await;
        shows(&browser, "h1", title).await;
        harmless(&browser).await;
        browser.go("/admin/vouchers/new").await;
        browser.fill("#title", title).await;
        browser.fill("#rules", title).await;
        browser.click("form[data-form='voucher'] button.go").await;
        browser.find("#payValue-error").await;
        browser.ready().await;
        assert_eq!(browser.js("[title.value, rules.value].map(v => v)").await, serde_json::json!([title, title]));
        // The refused form is a 422, which the console counts as a failed load.
        browser.complaints().await;
        harmless(&browser).await;
        browser.driver().close_window().await.unwrap();
        browser.driver().switch_to_window(first).await.unwrap();
        shows(&browser, NEWS, title).await;
        harmless(&browser).await;
    }
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_says_its_words_in_both_languages() {
    let app = TestApp::start().await;
    let services = &app.app.services;
    let (buyer, other) = (app.buyer().await, app.buyer().await);
    let open = app.sale(5).await;
    let soon = app.sale_between(5, 3_600_000, 7_200_000).await;
    let ended = app.sale_between(5, -7_200_000, -60_000).await;
    let sold_out = app.sale(1).await;
    app.admitted(&app.buy(&other, sold_out).await);
    let held = app.sale(5).await;
    app.admitted(&app.buy(&buyer, held).await);
    let paused = app.sale(5).await;
    super::state::pause(&app, paused, true).await;
    let mut everyday = app.voucher("普通券");
    everyday.pay_value = Fen(1800);
    services.sales.create_voucher(None, None, &everyday).await.unwrap();
    app.settled().await;

    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    let words = [
        (
            "zh-CN",
            [
                (open, "open", "正在抢", "限时抢购", "每人限 1 份；抢到后 15 分钟内付款。"),
                (soon, "soon", "即将开始", "开抢", "到点按钮自己亮起，不用刷新。"),
                (ended, "ended", "已结束", "已结束", "这场结束了；已买到的券照常可用。"),
                (sold_out, "soldOut", "已抢光", "已抢光", "没有扣款。有人取消或超时未付，名额会放回，按钮自己亮起。"),
                (held, "open", "你有一份", "去付款", "你已抢到 1 份，订单待付款；不能重复下单。"),
                (paused, "paused", "已暂停", "已暂停", "商家暂停了这场抢购。已抢到的不受影响；恢复后按钮自己亮起。"),
            ],
        ),
        (
            "en",
            [
                (open, "open", "On now", "Buy now", "One each; pay within 15 minutes."),
                (soon, "soon", "Soon", "Opens", "The button wakes up by itself; no need to reload."),
                (ended, "ended", "Ended", "Ended", "This sale is over; vouchers already bought stay valid."),
                (
                    sold_out,
                    "soldOut",
                    "Sold out",
                    "Sold out",
                    "Nothing was charged. If someone cancels or does not pay, the unit returns",
                ),
                (held, "open", "Yours", "Pay now", "You have one; it is waiting for payment. One each."),
                (
                    paused,
                    "paused",
                    "Paused",
                    "Paused",
                    "The shop has paused this sale. Units already won are safe; the button wakes up",
                ),
            ],
        ),
    ];
    for (lang, states) in words {
        browser.go(&format!("/shop/{}?lang={lang}", app.shop)).await;
        assert_eq!(browser.attr("html", "lang").await, lang);
        for (voucher, state, chip, label, why) in states {
            let card = card(voucher);
            assert_eq!(browser.attr(&card, "data-state").await, state);
            assert_eq!(browser.text(&format!("{card} .chip")).await, chip);
            assert!(browser.text(&format!("{card} .why")).await.contains(why), "{}", browser.text(&card).await);
            let action = browser.find(&format!("{card} .stub :is(button, a.btn)")).await;
            assert!(action.text().await.unwrap().contains(label), "{}", action.text().await.unwrap());
            // Whatever can be done is named, and a button that is off says why.
            assert_eq!(action.is_enabled().await.unwrap(), ["限时抢购", "Buy now", "去付款", "Pay now"].contains(&label));
            assert_eq!(action.attr("aria-describedby").await.unwrap(), Some(format!("why{voucher}")));
        }
        // The choice is remembered.
        browser.go("/orders").await;
        assert_eq!(browser.attr("html", "lang").await, lang);
        browser.says("ol.list .chip", if lang == "en" { "To pay" } else { "待付款" }).await;
    }
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_the_language_that_his_browser_asks_for() {
    let app = TestApp::start().await;
    let browser = Browser::open_in(&app.base, Script::Off, "en-GB").await;
    browser.go("/").await;
    browser.reads("h1", "Sales today").await;
    browser.close().await;
    app.finish().await;
}
