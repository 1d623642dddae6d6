//! Who may call what: every route with the role that it needs, every odd spelling of it, fields that nobody asks for.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use seckill::domain::ids::VoucherId;
use serde_json::json;

use self::Role::{Admin, Anyone, Provider, User};
use crate::support::app::{Buyer, TestApp};
use crate::support::http::Answer;
use crate::support::socket::Socket;

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everybody, also without a session.
    Anyone,
    /// Whoever is logged in; of things that belong to somebody, only their owner.
    User,
    /// Administrators.
    Admin,
    /// The payment provider, by its signature or its token; a session is nothing there.
    Provider,
}

/// Every route of the shop. `/metrics` is for this machine besides, which its own test holds.
pub const ROUTES: &[(&str, &str, Role)] = &[
    ("GET", "/", Anyone),
    ("GET", "/account", User),
    ("POST", "/account/password", User),
    ("GET", "/admin", Admin),
    ("GET", "/admin/audit-log", Admin),
    ("GET", "/admin/dead-letters", Admin),
    ("GET", "/admin/dead-letters/{id}/discard", Admin),
    ("POST", "/admin/dead-letters/{id}/discard", Admin),
    ("POST", "/admin/dead-letters/{id}/retry", Admin),
    ("GET", "/admin/outbox", Admin),
    ("GET", "/admin/sockets", Admin),
    ("GET", "/admin/waiting", Admin),
    ("GET", "/admin/seconds", Admin),
    ("GET", "/admin/reports/{id}", Admin),
    ("GET", "/admin/users", Admin),
    ("POST", "/admin/users/{id}/disable", Admin),
    ("POST", "/admin/users/{id}/enable", Admin),
    ("POST", "/admin/users/{id}/logout", Admin),
    ("GET", "/admin/vouchers/new", Admin),
    ("POST", "/admin/vouchers/new", Admin),
    ("GET", "/admin/vouchers/{id}", Admin),
    ("POST", "/admin/vouchers/{id}/edit", Admin),
    ("GET", "/admin/vouchers/{id}/end", Admin),
    ("POST", "/admin/vouchers/{id}/end", Admin),
    ("GET", "/admin/vouchers/{id}/orders", Admin),
    ("POST", "/admin/vouchers/{id}/pause", Admin),
    ("POST", "/admin/vouchers/{id}/rebuild", Admin),
    ("GET", "/admin/vouchers/{id}/refusals", Admin),
    ("POST", "/admin/vouchers/{id}/resume", Admin),
    ("GET", "/admin/vouchers/{id}/stock", Admin),
    ("POST", "/admin/vouchers/{id}/stock", Admin),
    ("GET", "/api/admin/sale/{voucherId}", Admin),
    ("GET", "/api/admin/sale/{voucherId}/samples", Admin),
    ("GET", "/api/admin/sale/{voucherId}/orders", Admin),
    ("POST", "/api/admin/sale/{voucherId}/pause", Admin),
    ("POST", "/api/admin/sale/{voucherId}/resume", Admin),
    ("POST", "/api/admin/sale/{voucherId}/end", Admin),
    ("POST", "/api/admin/sale/{voucherId}/rebuild", Admin),
    ("POST", "/api/admin/sale/{voucherId}/stock", Admin),
    ("PATCH", "/api/admin/voucher/{id}", Admin),
    ("GET", "/api/admin/dead-letter", Admin),
    ("POST", "/api/admin/dead-letter/{id}/retry", Admin),
    ("POST", "/api/admin/dead-letter/{id}/discard", Admin),
    ("GET", "/api/admin/outbox", Admin),
    ("GET", "/api/admin/audit-log", Admin),
    ("GET", "/api/admin/report/{voucherId}", Admin),
    ("GET", "/api/blog/hot", Anyone),
    ("GET", "/api/blog/of/follow", Anyone),
    ("GET", "/api/blog/of/me", Anyone),
    ("GET", "/api/captcha/{voucherId}", User),
    ("POST", "/api/payment/callback", Provider),
    ("GET", "/api/picture/shop.svg", Anyone),
    ("GET", "/api/shop-type/list", Anyone),
    ("POST", "/api/shop", Admin),
    ("GET", "/api/shop/of/name", Anyone),
    ("GET", "/api/shop/of/type", Anyone),
    ("GET", "/api/shop/{id}", Anyone),
    ("POST", "/api/user/code", Anyone),
    ("GET", "/api/user/info/{id}", Anyone),
    ("POST", "/api/user/login", Anyone),
    ("POST", "/api/user/logout", User),
    ("GET", "/api/user/me", User),
    ("POST", "/api/user/password", User),
    ("POST", "/api/user/register", Anyone),
    ("POST", "/api/user/{id}/disable", Admin),
    ("POST", "/api/user/{id}/enable", Admin),
    ("POST", "/api/user/{id}/logout", Admin),
    ("POST", "/api/voucher", Admin),
    ("GET", "/api/voucher-order", User),
    ("POST", "/api/voucher-order/seckill/{voucherId}", User),
    ("GET", "/api/voucher-order/{id}", User),
    ("POST", "/api/voucher-order/{id}/cancel", User),
    ("POST", "/api/voucher-order/{id}/pay", User),
    ("POST", "/api/voucher-order/{id}/refund", Admin),
    ("POST", "/api/voucher-order/{id}/timeout", Admin),
    ("GET", "/api/voucher/list/{shopId}", Anyone),
    ("POST", "/api/voucher/seckill", Admin),
    ("GET", "/docs", Anyone),
    ("GET", "/healthz", Anyone),
    ("GET", "/login", Anyone),
    ("POST", "/login", Anyone),
    ("POST", "/logout", Anyone),
    ("GET", "/metrics", Anyone),
    ("GET", "/openapi.json", Anyone),
    ("GET", "/orders", User),
    ("GET", "/orders/{id}", User),
    ("POST", "/orders/{id}/cancel", User),
    ("POST", "/orders/{id}/pay", User),
    ("GET", "/readyz", Anyone),
    ("GET", "/register", Anyone),
    ("POST", "/register", Anyone),
    ("GET", "/sandbox-pay/books", Admin),
    ("GET", "/sandbox-pay/{paymentId}", Anyone),
    ("POST", "/sandbox-pay/{paymentId}", Anyone),
    ("POST", "/sandbox-provider/payments", Provider),
    ("POST", "/sandbox-provider/refunds", Provider),
    ("GET", "/sandbox-sms", Anyone),
    ("GET", "/shop/{id}", Anyone),
    ("GET", "/static/{*path}", Anyone),
    ("POST", "/vouchers/{id}/buy", User),
    ("GET", "/ws", Anyone),
];

/// A path of the template that names nothing that is there.
pub fn path_of(template: &str) -> String {
    let parts = template.split('/').map(|part| match part {
        "{*path}" => "0/app.css",
        part if part.starts_with('{') => "987654321",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Every address that is for administrators, with a voucher that is there in the place of an id.
pub fn admin_paths(voucher: VoucherId) -> BTreeSet<String> {
    let admin = ROUTES.iter().filter(|(_, _, role)| *role == Admin);
    admin.map(|(_, template, _)| path_of(template).replace("987654321", &voucher.to_string())).collect()
}

async fn call(app: &TestApp, method: &str, path: &str, who: Option<&Buyer>) -> Answer {
    let method: Method = method.parse().unwrap();
    let api = path.starts_with("/api/") || path.starts_with("/sandbox-pr");
    let cookie = who.map(|b| format!("seckill_session={}", b.token));
    let mut headers = vec![("sec-fetch-site", "same-origin")];
    if let Some(who) = who
        && api
    {
        headers.push(("authorization", &who.token));
    }
    if let Some(cookie) = cookie.as_deref()
        && !api
    {
        headers.push(("cookie", cookie));
    }
    headers.push(("accept", if api { "application/json" } else { "text/html" }));
    app.http.send(method, path, &headers, "").await
}

/// Whether the answer says "log in first": at the API a status, in a browser the way to the login page.
fn asks_to_log_in(answer: &Answer) -> bool {
    answer.status == 401 || (answer.status.is_redirection() && answer.header("location").starts_with("/login"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_is_listed_and_open_to_exactly_those_whom_its_role_names() {
    let routed = crate::programs::openapi::routed();
    let listed: BTreeSet<_> = ROUTES.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(ROUTES.len(), listed.len(), "a route stands twice");
    let missing: Vec<_> = routed.difference(&listed).collect();
    assert!(missing.is_empty(), "say in tests/it/security/may.rs who may call {missing:?}");
    assert_eq!(listed.difference(&routed).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "listed, and no route");

    let app = TestApp::start().await;
    let administrator = app.admin().await;
    for (method, template, role) in ROUTES {
        let path = path_of(template);
        let at = format!("{method} {template}");
        // A session each: a logout must not be the end of the test.
        let (user, admin) = (app.buyer().await, app.session_of(administrator.id).await);
        let nobody = call(&app, method, &path, None).await;
        let as_user = call(&app, method, &path, Some(&user)).await;
        let as_admin = call(&app, method, &path, Some(&admin)).await;
        for answer in [&nobody, &as_user, &as_admin] {
            assert!(answer.status.as_u16() < 500, "{at}: {}", answer.status);
        }
        match role {
            Anyone => {
                let to_login_by_itself = ["/logout", "/login", "/register"].contains(template);
                for answer in [&nobody, &as_user, &as_admin] {
                    assert!(answer.status != 401 && answer.status != 403, "{at}: {}", answer.status);
                    assert!(to_login_by_itself || !asks_to_log_in(answer), "{at}");
                }
            }
            User => {
                // Who asks for one order without being known may be told that there is none: he may hold a ticket.
                // That a voucher is not there is nobody's secret.
                let by_ticket = ["/api/voucher-order/{id}", "/vouchers/{id}/buy"].contains(template) && nobody.status == 404;
                assert!(asks_to_log_in(&nobody) || by_ticket, "{at} by nobody: {}", nobody.status);
                for answer in [&as_user, &as_admin] {
                    assert!(
                        answer.status != 403 && !asks_to_log_in(answer) || template.contains("password"),
                        "{at}: {}",
                        answer.status
                    );
                }
            }
            Admin => {
                assert!(asks_to_log_in(&nobody), "{at} by nobody: {}", nobody.status);
                assert_eq!(as_user.status, 403, "{at} by a user");
                assert!(as_admin.status != 403 && !asks_to_log_in(&as_admin), "{at} by an admin: {}", as_admin.status);
            }
            Provider => {
                for answer in [&nobody, &as_user, &as_admin] {
                    assert!([400, 401, 403, 404].contains(&answer.status.as_u16()), "{at}: {}", answer.status);
                }
            }
        }
        if asks_to_log_in(&nobody) && nobody.status.is_redirection() {
            assert!(nobody.header("location").starts_with("/login"), "{at}: a path of ours");
        }
        let allowed: Vec<&str> = ROUTES.iter().filter(|(_, path, _)| path == template).map(|(method, ..)| *method).collect();
        for other in ["POST", "GET", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "BREW"] {
            if allowed.contains(&other) {
                continue;
            }
            let refused = call(&app, other, &path, Some(&admin)).await;
            // Another route may have this path too: /orders/{id} and the like have one method each.
            assert!(
                refused.status == 405 && !refused.header("allow").is_empty(),
                "{other} {template}: {} {:?}",
                refused.status,
                refused.header("allow")
            );
        }
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_an_admins_address_lets_a_user_in() {
    let app = TestApp::start().await;
    let (voucher, user) = (app.sale(3).await, app.buyer().await);
    let cookie = format!("seckill_session={}", user.token);
    let mut tried = 0;
    for (method, template, _) in ROUTES.iter().filter(|(_, _, role)| *role == Admin) {
        let path = path_of(template).replace("987654321", &voucher.to_string());
        let (first, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        for odd in [
            format!("{path}/"),
            format!("/{path}"),
            format!("/./{}", &path[1..]),
            format!("/x/..{path}"),
            format!("/%2e%2e{path}"),
            format!("/{}/{rest}", first.to_uppercase()),
            format!("/{first}//{rest}"),
            format!("/{first}%2f{rest}"),
            format!("{path};a=b"),
            format!("{path}%00"),
            format!("{path}%20"),
        ] {
            let headers = [
                ("cookie", cookie.as_str()),
                ("sec-fetch-site", "same-origin"),
                ("x-http-method-override", "GET"),
                ("x-original-url", &path),
            ];
            let answer = app.http.send(method.parse().unwrap(), &odd, &headers, "").await;
            assert!(matches!(answer.status.as_u16(), 400 | 403..=405), "{method} {odd}: {}", answer.status);
            tried += 1;
        }
        // The method that a header names is not the one that counts.
        let other = if *method == "GET" { Method::POST } else { Method::GET };
        let answer = app
            .http
            .send(other, &path, &[("cookie", &cookie), ("sec-fetch-site", "same-origin"), ("x-http-method-override", method)], "")
            .await;
        assert!(matches!(answer.status.as_u16(), 403..=405), "{method} {path}: {}", answer.status);
    }
    assert!(tried > 200, "{tried}");
    app.finish().await;
}

/// The session remembers an admin; what counts is the row, at each request and at least twice a minute on an open socket.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_admin_any_more_is_refused_with_his_next_request_and_his_control_room_falls_silent() {
    let app = TestApp::start().await;
    let (voucher, buyer, admin) = (app.sale(2).await, app.buyer().await, app.admin().await);
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let (foreign, sale) = (format!("/api/voucher-order/{order}"), format!("/api/admin/sale/{voucher}"));
    let cookie = format!("seckill_session={}", admin.token);
    let status = async |path: &str| app.http.get_as(&admin.token, path).await.status.as_u16();
    let page = async || app.http.page(Some(&cookie), "/admin").await.status.as_u16();
    assert_eq!((status(&foreign).await, status(&sale).await, page().await), (200, 200, 200), "the control");
    let (mut room, _) = Socket::of(&app.base, &admin.token).await;
    room.send("{\"type\":\"desk\"}").await;
    room.wait_for("desk").await;

    app.execute(&format!("UPDATE users SET admin = FALSE WHERE id = {}", admin.id)).await;
    assert_eq!((status(&foreign).await, status(&sale).await, page().await), (404, 403, 403));
    assert_eq!(app.http.post_as(&admin.token, &format!("{sale}/pause")).await.status, 403);
    let (mut late, _) = Socket::of(&app.base, &admin.token).await;
    late.send("{\"type\":\"desk\"}").await;
    assert_eq!(late.wait_for("error").await["code"], "MALFORMED");
    app.clock.advance(Duration::from_secs(31));
    let end = loop {
        if let Err(code) = room.next().await {
            break code;
        }
    };
    assert_eq!(end, 1008);
    assert_eq!(status("/api/user/me").await, 200, "he is a user as before");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_nobody_asks_for_change_nothing() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let phone = "13512340000";
    for (name, value) in
        [("admin", json!(true)), ("role", json!("admin")), ("id", json!(1)), ("is_admin", json!(1)), ("credits", json!(99))]
    {
        let mut body = json!({"phone": phone, "password": "korrekt pferd"});
        body[name] = value;
        assert_eq!(app.http.json(None, "/api/user/register", &body).await.code(), "MALFORMED", "{name}");
        assert_eq!(app.http.json(None, "/api/user/login", &body).await.code(), "MALFORMED", "{name}");
    }
    // A form may have more fields than ours; they are not read.
    let form = format!("phone={phone}&password=korrekt+pferd&admin=true&isAdmin=1&role=admin&id=1&credits=99");
    let cookie = app.http.form(None, "/register", &form).await.cookie().unwrap();
    let me = app.http.send(Method::GET, "/api/user/me", &[("cookie", &cookie)], "").await.data();
    assert_eq!((&me["admin"], &me["credits"]), (&json!(false), &json!(0)));
    let now = app.clock.now();
    for (name, value) in [
        ("stock_left", json!(5)),
        ("stockLeft", json!(5)),
        ("id", json!(7)),
        ("epoch", json!(9)),
        ("paused", json!(true)),
        ("status", json!(1)),
    ] {
        let mut body = json!({"shopId": app.shop, "title": "x", "payValue": 1, "actualValue": 2, "stock": 1,
            "beginTime": now.rfc3339(), "endTime": (now + std::time::Duration::from_hours(1)).rfc3339()});
        body[name] = value;
        assert_eq!(app.http.json(Some(&admin.token), "/api/voucher/seckill", &body).await.code(), "MALFORMED", "{name}");
    }
    assert_eq!(app.app.services.store.vouchers_of_shop(app.shop).await.unwrap().len(), 0);
    let (voucher, buyers) = (app.sale(2).await, app.buyers(2).await);
    let path = format!("/api/voucher-order/seckill/{voucher}");
    for body in [json!({"userId": buyers[0].id}), json!({"amount": 1}), json!({"status": "PAID"}), json!({"orderId": "5"})] {
        assert_eq!(app.http.json(Some(&buyers[1].token), &path, &body).await.code(), "MALFORMED", "{body}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callback_takes_posts_alone_and_sets_nothing() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
        let answer = app.http.send(method.clone(), "/api/payment/callback", &[], "{}").await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "POST"), "{method}");
    }
    // No session and no origin stand in its way or help it: only its signature counts.
    let cookie = format!("seckill_session={}", buyer.token);
    for headers in [
        vec![],
        vec![("origin", "https://provider.example")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("cookie", cookie.as_str())],
    ] {
        let answer = app.http.send(Method::POST, "/api/payment/callback", &headers, "{}").await;
        assert_eq!(answer.status, 401, "{headers:?}");
        assert_eq!(answer.header("set-cookie"), "", "{headers:?}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_address_that_goes_out_comes_from_a_request() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(1).await, app.buyer().await);
    let order = app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let path = format!("/api/voucher-order/{order}/pay?callbackUrl=http://evil.example/&returnUrl=http://evil.example/");
    let headers = [
        ("authorization", buyer.token.as_str()),
        ("x-forwarded-host", "evil.example"),
        ("forwarded", "host=evil.example"),
        ("referer", "http://evil.example/"),
    ];
    let answer = app.http.send(Method::POST, &path, &headers, "").await;
    let url = answer.data()["payUrl"].as_str().unwrap().to_owned();
    assert!(url.starts_with('/') || url.starts_with(&app.base), "{url}");
    let page = app.http.page(None, url.trim_start_matches(app.base.as_str())).await;
    assert!(page.status == 200 && !page.text().contains("evil.example"), "{}", page.text());
    app.finish().await;
}
