//! The login loop: cookies for TLS that a browser drops over plain HTTP, and cookies without `Secure` behind a proxy with TLS. By
//! every way that leads to a shop a login holds to the end of a purchase, or the next page says why not.

use http::Method;
use seckill::service::users::Registration;
use serde_json::{Value, json};

use crate::support::app::TestApp;
use crate::support::browser::{Browser, Script};
use crate::support::certificates::certificates;
use crate::support::nginx::Nginx;
use crate::support::servers::ports;

const PASSWORD: &str = "korrekt pferd";

async fn person(app: &TestApp, phone: &str) {
    let typed = Registration { phone: phone.to_owned(), password: PASSWORD.to_owned().into(), nick_name: None, admin: false };
    app.app.services.users.register(typed).await.unwrap();
}

/// The session cookies that the browser holds for the present page.
async fn sessions(browser: &Browser) -> Vec<Value> {
    let all = browser.devtools("Network.getCookies", json!({})).await["cookies"].as_array().unwrap().clone();
    all.into_iter().filter(|cookie| cookie["name"].as_str().unwrap().ends_with("seckill_session")).collect()
}

/// Logs in, buys, logs out: the cookie is as it should be, holds all along, and is gone afterwards.
async fn a_purchase(app: &TestApp, browser: &mut Browser, base: &str, phone: &str, secure: bool, name: &str) {
    let voucher = app.sale(1).await;
    browser.turn_to(base);
    person(app, phone).await;
    let shop = format!("/shop/{}", app.shop);
    browser.go(&format!("/login?next={shop}")).await;
    browser.log_in(phone, PASSWORD).await;
    assert_eq!(browser.path().await, shop, "{base}");
    let held = sessions(browser).await;
    assert_eq!(held.len(), 1, "{base}: {held:?}");
    let told = (&held[0]["name"], &held[0]["secure"], &held[0]["httpOnly"], &held[0]["sameSite"], &held[0]["path"]);
    assert_eq!(told, (&json!(name), &json!(secure), &json!(true), &json!("Lax"), &json!("/")), "{base}");
    browser.click(&format!("article.ticket[data-voucher='{voucher}'] button[data-action='buy']")).await;
    browser.find("div[data-order][data-status='PENDING']").await;
    browser.click("button[data-action='logout']").await;
    browser.find("a[href^='/login']").await;
    browser.ready().await;
    assert_eq!(sessions(browser).await, Vec::<Value>::new(), "{base}: a logout takes back the cookie that the login set");
    browser.go("/orders").await;
    assert!(browser.path().await.starts_with("/login"), "{base}");
}

/// By the name localhost, by the LAN, and by TLS through a proxy that speaks HTTP to the shop.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_holds_by_http_and_by_a_proxy_with_tls_and_says_why_where_it_cannot() {
    let (made, port) = (certificates(), ports(1)[0]);
    let public = format!("https://127.0.0.1:{port}");
    let plain = TestApp::with("--trusted-proxies", "127.0.0.1/32").start().await;
    let behind = TestApp::with("--trusted-proxies", "127.0.0.1/32").with("--public-url", &public).start().await;
    let nginx = Nginx::with_tls(&behind.base, port, made.path()).await;
    let mut browser = Browser::open(&plain.base, Script::On).await;
    let named = |app: &TestApp, host: &str| app.base.replace("127.0.0.1", host);

    a_purchase(&plain, &mut browser, &named(&plain, "localhost"), "13712220001", false, "seckill_session").await;
    a_purchase(&plain, &mut browser, &named(&plain, "shop.lan"), "13712220002", false, "seckill_session").await;
    a_purchase(&behind, &mut browser, &nginx.base, "13712220003", true, "__Host-seckill_session").await;

    // Past the proxy, straight to the shop: the browser does not take the cookie, and is told where to go instead of asked again.
    person(&behind, "13712220004").await;
    for (lang, word) in [("zh-CN", "浏览器没有保存"), ("en", "your browser did not keep it")] {
        browser.turn_to(&named(&behind, "shop.lan"));
        browser.go(&format!("/orders?lang={lang}")).await;
        browser.fill("#phone", "13712220004").await;
        browser.fill("#password", PASSWORD).await;
        browser.click("main form button").await;
        browser.says("[role='alert']", word).await;
        assert_eq!(sessions(&browser).await, Vec::<Value>::new());
        let way = browser.attr("[role='alert'] a", "href").await;
        assert!(way.starts_with(&format!("{public}/login?next=/orders")), "{way}");
    }
    // From there he gets in, and on to the page that he wanted.
    browser.click("[role='alert'] a").await;
    browser.turn_to(&nginx.base);
    browser.wait("the shop's own address", async || browser.path().await.starts_with("/login").then_some(())).await;
    browser.log_in("13712220004", PASSWORD).await;
    assert!(browser.path().await.starts_with("/orders"), "{}", browser.path().await);
    browser.close().await;
    plain.finish().await;
    behind.finish().await;
}

/// The reverse: the options say http, and a proxy in front speaks TLS.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_says_tls_gets_secure_cookies_whatever_the_public_address_says() {
    let app = TestApp::with("--trusted-proxies", "127.0.0.1/32").start().await;
    let body = |phone: &str| json!({"phone": phone, "password": PASSWORD}).to_string();
    let register = async |phone: &str, said: &str| {
        let headers = [("content-type", "application/json"), ("x-forwarded-proto", said), ("x-forwarded-for", "203.0.113.7")];
        app.http.send(Method::POST, "/api/user/register", &headers, body(phone)).await.header("set-cookie").to_owned()
    };
    let secure = register("13712220011", "https").await;
    assert!(secure.ends_with("; Secure") && secure.contains("HttpOnly") && secure.contains("SameSite=Lax"), "{secure}");
    for (phone, said) in [("13712220012", "http"), ("13712220013", "https, http")] {
        let cookie = register(phone, said).await;
        assert!(!cookie.contains("Secure"), "{said}: {cookie}");
    }
    let cookie = secure.split(';').next().unwrap();
    let headers = [("cookie", cookie), ("x-forwarded-proto", "https"), ("sec-fetch-site", "same-origin")];
    let out = app.http.send(Method::POST, "/logout", &headers, "").await;
    let cleared = out.header("set-cookie");
    assert!(cleared.starts_with("seckill_session=; Path=/; Max-Age=0") && cleared.ends_with("; Secure"), "{cleared}");
    app.finish().await;
}
