//! Sessions and who may do what: new ids at every login, dead ones stay dead, nobody acts for somebody else.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::support::app::TestApp;
use crate::support::http::Answer;
use crate::support::socket::Socket;

const PASSWORD: &str = "korrekt pferd";

async fn me(app: &TestApp, cookie: &str) -> Answer {
    app.http.send(Method::GET, "/api/user/me", &[("cookie", cookie)], "").await
}

async fn login(app: &TestApp, cookie: Option<&str>, phone: &str) -> String {
    let answer = app.http.form(cookie, "/login", &format!("phone={phone}&password=korrekt+pferd")).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let set = answer.header("set-cookie");
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax") && set.contains("Path=/"), "{set}");
    answer.cookie().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_login_gives_a_new_session_and_ends_the_one_it_came_with() {
    let app = TestApp::start().await;
    let phone = "13700000001";
    let made = app.http.json(None, "/api/user/register", &json!({"phone": phone, "password": PASSWORD})).await;
    let first = made.cookie().unwrap();
    assert_eq!(first, format!("seckill_session={}", made.data().as_str().unwrap()), "token and cookie are one session");
    assert!(app.http.page(None, "/login").await.cookie().is_none(), "a visitor gets no session to be fixed to");

    let second = login(&app, Some(&first), phone).await;
    assert_ne!(first, second);
    assert_eq!(
        (me(&app, &first).await.status, me(&app, &second).await.status),
        (401.try_into().unwrap(), 200.try_into().unwrap())
    );
    let third = login(&app, Some(&second), phone).await;
    assert_eq!((me(&app, &second).await.status.as_u16(), me(&app, &third).await.status.as_u16()), (401, 200));
    // By API with the token in the header: the same.
    let token = third.trim_start_matches("seckill_session=");
    let fourth =
        app.http.json(Some(token), "/api/user/login", &json!({"phone": phone, "password": PASSWORD})).await.cookie().unwrap();
    assert_eq!((me(&app, &third).await.status.as_u16(), me(&app, &fourth).await.status.as_u16()), (401, 200));

    let keys: Vec<String> = app.ask("KEYS login:token:*").await;
    assert_eq!(keys.len(), 1, "the dead ones are gone from Redis too");
    let token = fourth.trim_start_matches("seckill_session=");
    assert!(!keys[0].contains(token), "the key is a hash, not the token");
    let out = app.http.form(Some(&fourth), "/logout", "").await;
    assert!(out.status == 303 && out.header("set-cookie").contains("Max-Age=0"), "{:?}", out.headers);
    assert_eq!(me(&app, &fourth).await.status, 401);
    assert_eq!(app.ask::<Vec<String>>("KEYS login:token:*").await, Vec::<String>::new());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_link_of_our_pages_leads_where_the_address_says_a_foreign_host() {
    let app = TestApp::start().await;
    for path in ["//evil.example/", "//evil.example/?lang=en", "//evil.example/shop/1?theme=dark"] {
        let page = app.http.page(None, path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(!page.text().contains("evil.example"), "{path}: {}", page.text());
    }
    let page = app.http.page(None, "/nowhere?x=1").await;
    assert!(page.text().contains("/nowhere?"), "the other language of the same page: {}", page.text());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_self_made_session_id_is_never_adopted() {
    let app = TestApp::start().await;
    let phone = "13700000002";
    let real = app.http.json(None, "/api/user/register", &json!({"phone": phone, "password": PASSWORD})).await.data();
    for made in ["AAAAAAAAAAAAAAAAAAAAAA", "1", "", "../..", &"x".repeat(500), &real.as_str().unwrap().to_lowercase()] {
        let fixed = format!("seckill_session={made}");
        assert_eq!(me(&app, &fixed).await.status, 401, "{made}");
        let given = login(&app, Some(&fixed), phone).await;
        assert_ne!(given, fixed);
        assert_eq!(me(&app, &fixed).await.status, 401, "{made} after a login that carried it");
        assert_eq!(me(&app, &given).await.status, 200);
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sockets_of_an_ended_session_are_closed_and_hear_nothing_more() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(2).await, app.buyer().await);
    let (mut one, _) = Socket::of(&app.base, &buyer.token).await;
    let (mut two, _) = Socket::of(&app.base, &buyer.token).await;
    let elsewhere = app.session_of(buyer.id).await;
    let (mut other, _) = Socket::of(&app.base, &elsewhere.token).await;
    assert!(app.http.post_as(&buyer.token, "/api/user/logout").await.json()["success"] == true);
    assert_eq!((one.next().await.err(), two.next().await.err()), (Some(4401), Some(4401)));
    let again = Socket::open(&app.base, &[("authorization", &buyer.token)]).await.ok().unwrap().next().await;
    assert_eq!(again.err(), Some(4401));
    let id = app.admitted(&app.buy(&elsewhere, voucher).await);
    assert_eq!(other.wait_for("order.created").await["order"]["id"], id.to_string(), "the other session goes on");
    // Somebody else in the same browser hears nothing of the one before.
    let (mut next, snapshot) = Socket::of(&app.base, &app.buyer().await.token).await;
    assert_eq!(snapshot["orders"], json!([]));
    assert!(next.hears_no("order.created", Duration::from_millis(200)).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_asks_where_its_page_comes_from_and_who_it_is() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let cookie = format!("seckill_session={}", buyer.token);
    let host = app.base.trim_start_matches("http://");
    let port = host.rsplit(':').next().unwrap();
    let foreign = [
        String::from("https://evil.example"),
        String::from("null"),
        String::from("http://127.0.0.1:1"),
        String::from("http://127.0.0.1"),
        format!("http://{host}.evil.example"),
        format!("http://evil.example/{host}"),
        format!("http://evil.example:{port}"),
        format!("http://{host}@evil.example"),
        format!("file://{host}"),
        String::new(),
    ];
    for origin in &foreign {
        // With a token too: a foreign page has no business here, whatever it carries.
        for (name, value) in [("cookie", cookie.as_str()), ("authorization", buyer.token.as_str())] {
            let refused = Socket::open(&app.base, &[("origin", origin), (name, value)]).await.err();
            assert_eq!(refused, Some(403), "{origin:?} with {name}");
        }
        assert_eq!(Socket::open(&app.base, &[("origin", origin)]).await.err(), Some(403), "{origin:?} with nothing");
    }
    for (name, value) in [("cookie", cookie.as_str()), ("authorization", buyer.token.as_str())] {
        let mut socket = Socket::open(&app.base, &[(name, value)]).await.ok().unwrap();
        assert_eq!(socket.next().await.unwrap()["type"], "snapshot", "no origin: no browser");
    }
    let mut nobody = Socket::open(&app.base, &[]).await.ok().unwrap();
    assert_eq!(nobody.next().await.err(), Some(4401), "who says nothing for five seconds is let go");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_addresses_are_closed_to_everybody_else() {
    let app = TestApp::start().await;
    let (voucher, buyer, admin) = (app.sale(2).await, app.buyer().await, app.admin().await);
    let cookie = format!("seckill_session={}", buyer.token);
    let sale = format!("/admin/vouchers/{voucher}");
    for page in ["/admin", "/admin/vouchers/new", &sale] {
        assert_eq!(app.http.page(Some(&cookie), page).await.status, 403, "{page}");
        let visitor = app.http.page(None, page).await;
        assert!(visitor.status == 303 && visitor.header("location").starts_with("/login?next="), "{page}");
        assert_eq!(app.http.page(Some(&format!("seckill_session={}", admin.token)), page).await.status, 200, "{page}");
    }
    assert_eq!(app.http.form(Some(&cookie), "/admin/vouchers/new", "title=x").await.status, 403);
    let body = json!({"shopId": app.shop, "title": "x", "payValue": 1, "actualValue": 2, "stock": 1, "name": "x",
        "beginTime": "2020-01-01T00:00:00Z", "endTime": "2099-01-01T00:00:00Z"});
    let count = app.app.services.store.vouchers_of_shop(app.shop).await.unwrap().len();
    for path in ["/api/shop", "/api/voucher", "/api/voucher/seckill"] {
        let refused = app.http.json(Some(&buyer.token), path, &body).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (403, "FORBIDDEN"), "{path}");
        let refused = app.http.json(None, path, &body).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (401, "LOGIN_REQUIRED"), "{path}");
    }
    assert_eq!(app.app.services.store.vouchers_of_shop(app.shop).await.unwrap().len(), count);
    assert_eq!(app.app.services.store.shops().await.unwrap().len(), 1);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_buys_in_the_name_of_another_or_touches_his_order() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(5).await, app.buyers(2).await);
    let path = format!("/api/voucher-order/seckill/{voucher}");
    for body in [json!({"userId": buyers[0].id}), json!({"user_id": buyers[0].id, "type": 1})] {
        let _refused_or_his_own = app.http.json(Some(&buyers[1].token), &path, &body).await;
    }
    let query = format!("{path}?userId={}", buyers[0].id);
    app.admitted_or_held(&app.http.post_as(&buyers[1].token, &query).await);
    app.settled().await;
    let store = &app.app.services.store;
    assert!(store.live_order_of(buyers[0].id, voucher).await.unwrap().is_none(), "nobody bought for him");
    let id = store.live_order_of(buyers[1].id, voucher).await.unwrap().unwrap().id;
    let before = app.order(&buyers[1], id).await;
    // A foreign cookie, a missing one, and another's ticket: all read like "no such order".
    let stranger = format!("seckill_session={}", buyers[0].token);
    let missing = app.http.page(Some(&stranger), "/orders/123456789").await.status;
    assert_eq!((app.http.page(Some(&stranger), &format!("/orders/{id}")).await.status, missing.as_u16()), (missing, 404));
    for (method, tail) in [(Method::GET, ""), (Method::POST, "/cancel"), (Method::POST, "/pay"), (Method::POST, "/refund")] {
        let at = |id: &str| format!("/api/voucher-order/{id}{tail}");
        let headers = [("authorization", buyers[0].token.as_str())];
        let foreign = app.http.send(method.clone(), &at(&id.to_string()), &headers, "").await;
        let missing = app.http.send(method, &at("123456789"), &headers, "").await;
        assert_eq!((foreign.status, foreign.body), (missing.status, missing.body), "{tail}");
        assert!(matches!(foreign.status.as_u16(), 403 | 404), "{tail}: {}", foreign.status);
    }
    assert_eq!(app.order(&buyers[1], id).await, before, "nothing changed");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_names_two_hosts_is_malformed() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let app = TestApp::start().await;
    let mut stream = tokio::net::TcpStream::connect(app.base.trim_start_matches("http://")).await.unwrap();
    let head = "GET /healthz HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    app.finish().await;
}
