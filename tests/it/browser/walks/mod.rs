//! Two people walk the whole shop, each in four ways: a phone and a desk, both languages, with scripts and without, so that
//! each pair of these meets. Every page and every action of the tables below is on somebody's way in each of the four.

mod merchant;
mod shopper;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use seckill::i18n::Lang;
use serde_json::json;
use thirtyfour::prelude::*;

use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};

/// Pages, by who walks there.
const PAGES: [(Who, &str); 26] = [
    (Who::Shopper, "/"),
    (Who::Shopper, "/shop/{id}"),
    (Who::Shopper, "/login"),
    (Who::Shopper, "/register"),
    (Who::Shopper, "/account"),
    (Who::Shopper, "/orders"),
    (Who::Shopper, "/orders/{id}"),
    (Who::Shopper, "/sandbox-pay/{paymentId}"),
    (Who::Shopper, "/sandbox-sms"),
    (Who::Shopper, "/docs"),
    (Who::Merchant, "/admin"),
    (Who::Merchant, "/admin/vouchers/new"),
    (Who::Merchant, "/admin/vouchers/{id}"),
    (Who::Merchant, "/admin/vouchers/{id}/end"),
    (Who::Merchant, "/admin/vouchers/{id}/stock"),
    (Who::Merchant, "/admin/vouchers/{id}/orders"),
    (Who::Merchant, "/admin/vouchers/{id}/refusals"),
    (Who::Merchant, "/admin/reports/{id}"),
    (Who::Merchant, "/admin/outbox"),
    (Who::Merchant, "/admin/audit-log"),
    (Who::Merchant, "/admin/dead-letters"),
    (Who::Merchant, "/admin/dead-letters/{id}/discard"),
    (Who::Merchant, "/admin/seconds"),
    (Who::Merchant, "/admin/sockets"),
    (Who::Merchant, "/admin/users"),
    (Who::Merchant, "/admin/waiting"),
];

/// What is done, by whom, and the form that does it; without one it is seen on pages alone.
const ACTIONS: [(Who, &str, Option<&str>); 34] = [
    (Who::Shopper, "switch the language", None),
    (Who::Shopper, "switch the theme", None),
    (Who::Shopper, "register", Some("/register")),
    (Who::Shopper, "change the password", Some("/account/password")),
    (Who::Shopper, "end the other sessions", Some("/account/password")),
    (Who::Shopper, "log out", Some("/logout")),
    (Who::Shopper, "log in by password", Some("/login")),
    (Who::Shopper, "log in by code", Some("/login")),
    (Who::Shopper, "buy", Some("/vouchers/{id}/buy")),
    (Who::Shopper, "wait", None),
    (Who::Shopper, "cancel", Some("/orders/{id}/cancel")),
    (Who::Shopper, "pay", Some("/orders/{id}/pay")),
    (Who::Shopper, "press the provider's buttons", Some("/sandbox-pay/{paymentId}")),
    (Who::Shopper, "pay too late and be refunded", None),
    (Who::Shopper, "be refunded by the shop", None),
    (Who::Shopper, "lose the way", None),
    (Who::Merchant, "copy a sale", None),
    (Who::Merchant, "preview", Some("/admin/vouchers/new")),
    (Who::Merchant, "create a sale", Some("/admin/vouchers/new")),
    (Who::Merchant, "pause", Some("/admin/vouchers/{id}/pause")),
    (Who::Merchant, "resume", Some("/admin/vouchers/{id}/resume")),
    (Who::Merchant, "add and take stock", Some("/admin/vouchers/{id}/stock")),
    (Who::Merchant, "edit", Some("/admin/vouchers/{id}/edit")),
    (Who::Merchant, "be told as the second editor", Some("/admin/vouchers/{id}/edit")),
    (Who::Merchant, "repair drift", Some("/admin/vouchers/{id}/rebuild")),
    (Who::Merchant, "end early", Some("/admin/vouchers/{id}/end")),
    (Who::Merchant, "try a dead letter again", Some("/admin/dead-letters/{id}/retry")),
    (Who::Merchant, "discard a dead letter", Some("/admin/dead-letters/{id}/discard")),
    (Who::Merchant, "see what is owed", None),
    (Who::Merchant, "disable a user", Some("/admin/users/{id}/disable")),
    (Who::Merchant, "enable a user", Some("/admin/users/{id}/enable")),
    (Who::Merchant, "end a user's sessions", Some("/admin/users/{id}/logout")),
    (Who::Merchant, "read a report and take its CSV", None),
    (Who::Merchant, "read the audit log", None),
];

/// Routes among the pages that answer JSON to a program.
const NO_PAGES: [&str; 1] = ["GET /sandbox-pay/books"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Shopper,
    Merchant,
}

/// How somebody walks.
#[derive(Debug, Clone, Copy)]
struct Way {
    lang: Lang,
    width: u32,
    script: Script,
}

const PHONE_ZH: Way = Way { lang: Lang::ZhCn, width: 360, script: Script::On };
const DESK_ZH: Way = Way { lang: Lang::ZhCn, width: 1280, script: Script::Off };
const PHONE_EN: Way = Way { lang: Lang::En, width: 360, script: Script::Off };
const DESK_EN: Way = Way { lang: Lang::En, width: 1280, script: Script::On };

/// Somebody on his way: where he was, which forms he sent, what he has done.
struct Walk<'a> {
    app: &'a TestApp,
    browser: Browser,
    who: Who,
    way: Way,
    /// `GET /route` and `POST /route`, as the router has them.
    asked: RefCell<BTreeSet<String>>,
    done: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Walk<'a> {
    /// Opens the browser of somebody whose language is the other one: he switches first.
    async fn begin(app: &'a TestApp, who: Who, way: Way) -> Self {
        let browser = Browser::open_in(&app.base, way.script, way.lang.other().tag()).await;
        browser.resize(way.width, 900).await;
        Self { app, browser, who, way, asked: RefCell::default(), done: RefCell::default() }
    }

    /// The words of his language under `key`.
    fn t(&self, key: &str) -> String {
        self.way.lang.t(key)
    }

    /// Goes to a page by its address, and looks at it.
    async fn go(&self, path: &str) {
        self.browser.go(path).await;
        self.look().await;
    }

    /// Follows a link, and looks at the page behind it once it shows `then`.
    async fn follow(&self, css: &str, then: &str) {
        self.browser.click(css).await;
        self.browser.find(then).await;
        self.look().await;
    }

    /// Presses a button of a form, and looks at the page once it shows `then`.
    async fn press(&self, css: &str, then: &str) {
        self.send(css).await;
        self.browser.find(then).await;
        self.look().await;
    }

    /// The same where the answer is a refusal, which the console counts as a failed load.
    async fn press_in_vain(&self, css: &str, then: &str) {
        self.send(css).await;
        self.browser.find(then).await;
        self.browser.ready().await;
        let complaints = self.browser.complaints().await;
        let failed = complaints.iter().all(|c| ["404", "409", "422"].iter().any(|status| c.contains(status)));
        assert!(failed && !complaints.is_empty(), "{css}: {complaints:?}");
        self.look().await;
    }

    /// Presses a button, and writes down which form it belongs to.
    async fn send(&self, css: &str) {
        self.browser.find(css).await;
        let form = "(b => [b.form.method, new URL(b.form.action).pathname])(document.querySelector(arguments[0]))";
        let form = self.browser.driver().execute(format!("return {form}"), vec![json!(css)]).await.unwrap().json().clone();
        assert_eq!(form[0], "post", "{css}");
        self.asked.borrow_mut().insert(format!("POST {}", route_of(form[1].as_str().unwrap())));
        self.browser.click(css).await;
    }

    /// Waits for what comes by itself with a script, and after a reload without one.
    async fn comes(&self, css: &str) {
        let here = async || {
            if self.browser.driver().find(By::Css(css)).await.is_ok() {
                return Some(());
            }
            if self.way.script == Script::Off {
                tokio::time::sleep(Duration::from_millis(150)).await;
                self.browser.driver().refresh().await.unwrap();
            }
            None
        };
        self.browser.wait(&format!("{css} does not come"), here).await;
        self.look().await;
    }

    /// What holds of every page: his language and no other, no sideways scrolling, a quiet console.
    async fn look(&self) {
        self.browser.ready().await;
        let path = self.browser.path().await;
        self.asked.borrow_mut().insert(format!("GET {}", route_of(path.split(['?', '#']).next().unwrap())));
        let seen = self.browser.js(SEEN).await;
        assert_eq!(seen[0], self.way.lang.tag(), "{path}");
        assert_eq!(seen[1], json!([]), "{path} must not be scrolled sideways");
        let strange = strange_words(self.way.lang, seen[2].as_str().unwrap());
        assert!(strange.is_empty(), "{path} says in the wrong language: {strange:?}");
        self.browser.quiet().await;
    }

    /// He has done it.
    fn done(&self, action: &'static str) {
        assert!(ACTIONS.iter().any(|(who, what, _)| (*who, *what) == (self.who, action)), "{action} is not in the table");
        self.done.borrow_mut().insert(action);
    }

    /// The end of the way: nothing of the tables was left out.
    async fn end(self) {
        let asked = self.asked.borrow().clone();
        for (_, page) in PAGES.iter().filter(|(who, _)| *who == self.who) {
            assert!(asked.contains(&format!("GET {page}")), "{:?} never came to {page}: {asked:?}", self.who);
        }
        for (_, action, form) in ACTIONS.iter().filter(|(who, ..)| *who == self.who) {
            assert!(self.done.borrow().contains(action), "{:?} did not {action}", self.who);
            let sent = form.is_none_or(|form| asked.contains(&format!("POST {form}")));
            assert!(sent, "{:?} did {action} without {form:?}: {asked:?}", self.who);
        }
        self.browser.close().await;
    }
}

/// The page's language, what of it is wider than the page, and every word of it that is not marked as another language's.
const SEEN: &str = "(() => { \
    const wide = document.documentElement.scrollWidth > innerWidth \
        ? [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => \
            `${e.tagName} ${e.className} ${Math.round(e.getBoundingClientRect().right)}`) : []; \
    const labels = [...document.querySelectorAll('[aria-label]:not([lang])')].map(e => e.getAttribute('aria-label')); \
    const marked = [...document.body.querySelectorAll('[lang]')].map(e => e.innerText); \
    const words = marked.reduce((text, other) => text.replace(other, ''), document.body.innerText); \
    return [document.documentElement.lang, wide, [document.title, words, ...labels].join('\\n')]; })()";

/// What the test's people typed in Chinese.
const NAMES: [&str; 3] = ["测试小馆", "下午茶", "全天"];

/// Lines that are not of this language: for an English page Chinese signs; for a Chinese one three English words in a row.
fn strange_words(lang: Lang, text: &str) -> Vec<String> {
    let text = NAMES.iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
    let foreign = |line: &str| match lang {
        Lang::En => line.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)),
        Lang::ZhCn => {
            let words: Vec<bool> = line.split(' ').map(|w| w.len() > 1 && w.chars().all(|c| c.is_ascii_lowercase())).collect();
            words.windows(3).any(|three| three.iter().all(|word| *word))
        }
    };
    text.lines().filter(|line| foreign(line)).map(str::to_owned).collect()
}

/// Page routes of the router, as its one page says them: `GET /login`.
fn page_routes() -> BTreeSet<String> {
    let text = include_str!("../../../../src/web/routes.rs");
    let between = |from: &str, to: &str| text.split_once(from).unwrap().1.split_once(to).unwrap().0;
    let pages = [between("let pages = Router::new()", "let plain ="), between("fn control_room()", "pub fn health_only")];
    let mut routes = BTreeSet::new();
    for route in pages.iter().flat_map(|part| part.split(".route(\"").skip(1)) {
        let (path, methods) = route.split_once('"').unwrap();
        let methods = methods.split_once("))").map_or(methods, |(methods, _)| methods);
        for (word, method) in [("get(", "GET"), ("post(", "POST")] {
            if methods.contains(word) {
                routes.insert(format!("{method} {path}"));
            }
        }
    }
    routes
}

/// The route that an address belongs to: of several the one with the fewest places to fill in.
fn route_of(path: &str) -> String {
    let fits = |route: &str| {
        let (mut of_route, mut of_path) = (route.split('/'), path.split('/'));
        loop {
            match (of_route.next(), of_path.next()) {
                (None, None) => return true,
                (Some(place), Some(word)) if place == word || (place.starts_with('{') && !word.is_empty()) => {}
                _ => return false,
            }
        }
    };
    let routes = page_routes();
    let paths = routes.iter().filter_map(|route| route.split_once(' ')).map(|(_, path)| path);
    let found = paths.filter(|route| fits(route)).min_by_key(|route| route.matches('{').count());
    found.map_or_else(|| format!("none: {path}"), str::to_owned)
}

#[test]
fn every_page_and_every_form_of_the_router_is_on_somebodys_way() {
    let pages = PAGES.iter().map(|(_, page)| format!("GET {page}"));
    let forms = ACTIONS.iter().filter_map(|(_, _, form)| *form).map(|form| format!("POST {form}"));
    let walked: BTreeSet<String> = pages.chain(forms).chain(NO_PAGES.map(str::to_owned)).collect();
    let routes = page_routes();
    assert!(routes.len() > 40, "{routes:?}");
    assert_eq!(walked, routes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shopper_walks_with_a_phone_in_chinese() {
    Box::pin(shopper::walk(PHONE_ZH)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shopper_walks_at_a_desk_in_chinese_without_script() {
    Box::pin(shopper::walk(DESK_ZH)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shopper_walks_with_a_phone_in_english_without_script() {
    Box::pin(shopper::walk(PHONE_EN)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shopper_walks_at_a_desk_in_english() {
    Box::pin(shopper::walk(DESK_EN)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_walks_with_a_phone_in_chinese() {
    Box::pin(merchant::walk(PHONE_ZH)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_walks_at_a_desk_in_chinese_without_script() {
    Box::pin(merchant::walk(DESK_ZH)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_walks_with_a_phone_in_english_without_script() {
    Box::pin(merchant::walk(PHONE_EN)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_walks_at_a_desk_in_english() {
    Box::pin(merchant::walk(DESK_EN)).await;
}
