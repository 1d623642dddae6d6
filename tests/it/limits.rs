//! Limits: by user or address, by account, for all together; what they never stand in the way of; forged requests.

use std::time::Duration;

use http::Method;
use seckill::web::session::{Guessed, Guesses};
use serde_json::json;

use crate::support::app::{On, TestApp, on_both_databases};
use crate::support::http::Answer;

on_both_databases!(
    guesses_at_one_account_get_slower_from_wherever_they_come_and_the_owner_gets_in,
    a_login_that_races_with_a_shut_out_keeps_no_session,
);

const PASSWORD: &str = "korrekt pferd";

async fn login(app: &TestApp, phone: &str, password: &str, from: &str) -> Answer {
    let headers = [("content-type", "application/json"), ("x-forwarded-for", from)];
    let body = json!({"phone": phone, "password": password}).to_string();
    app.http.send(Method::POST, "/api/user/login", &headers, body).await
}

fn seconds(answer: &Answer) -> u64 {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (429, "TOO_MANY_REQUESTS"));
    answer.header("retry-after").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purchase_limit_counts_users_and_stands_in_nobody_elses_way() {
    let app = TestApp::with("--rate-limit", "2/5").start().await;
    let (voucher, buyers) = (app.sale(100).await, app.buyers(60).await);
    let me = &buyers[0];
    let mut answers = Vec::new();
    for _ in 0..12 {
        answers.push(app.buy(me, voucher).await);
    }
    let passed = answers.iter().filter(|a| a.status == 200).count();
    assert!((5..=7).contains(&passed), "{passed}");
    let refused = answers.iter().find(|a| a.status == 429).unwrap();
    assert_eq!(seconds(refused), 1);
    let id = app.admitted(&answers[0]);
    app.settled().await;
    // His status, his payment and his cancellation have no such limit.
    for _ in 0..20 {
        assert_eq!(app.order(me, id).await["status"], "PENDING");
    }
    let pay = format!("/api/voucher-order/{id}/pay");
    for _ in 0..8 {
        assert_eq!(app.http.post_as(&me.token, &pay).await.status, 200);
    }
    assert_eq!(app.http.post_as(&me.token, &format!("/api/voucher-order/{id}/cancel")).await.status, 200);
    // The form says it in our style, at the card.
    let cookie = format!("seckill_session={}", me.token);
    let mut page = app.http.form(Some(&cookie), &format!("/vouchers/{voucher}/buy"), "").await;
    while page.status != 429 {
        page = app.http.form(Some(&cookie), &format!("/vouchers/{voucher}/buy"), "").await;
    }
    assert!(
        !page.header("retry-after").is_empty() && page.text().contains("role=\"alert\"") && page.text().contains("点得太快了")
    );
    // Fifty-nine others behind the same address are each served.
    for buyer in &buyers[1..] {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    app.finish().await;
}

/// The seconds of `Retry-After`, of one wait or of the one after it: a request that read the clock a moment before the one that set the
/// wait is told to wait a moment, and so a second, longer.
fn wait_of(answer: &Answer) -> Option<u64> {
    answer.header("retry-after").parse::<u64>().ok().map(|seconds| if seconds == 2 { 1 } else { seconds })
}

async fn guesses_at_one_account_get_slower_from_wherever_they_come_and_the_owner_gets_in(on: On) {
    let app = TestApp::on(on).with("--rate-limit", "10/20").with("--trusted-proxies", "127.0.0.1/32").start().await;
    let phones = ["13600000001", "13600000002"];
    app.http.json(None, "/api/user/register", &json!({"phone": phones[0], "password": PASSWORD})).await.data();
    // Known or not: the same answers, to the letter. All at once, because each is counted before it is checked.
    let mut told = Vec::new();
    for phone in phones {
        let guesses = (0..26).map(|n| {
            let (app, from) = (&app, format!("203.0.113.{n}"));
            async move { login(app, phone, "falsches pferd", &from).await }
        });
        let answers = futures_util::future::join_all(guesses).await;
        let mut heard: Vec<_> = answers.iter().map(|a| (a.status.as_u16(), wait_of(a), a.code())).collect();
        heard.sort();
        told.push(heard);
    }
    assert_eq!(told[0], told[1], "a known phone is answered like an unknown one");
    assert!(told[0][..20].iter().all(|(status, _, code)| (*status, code.as_str()) == (200, "BAD_CREDENTIALS")), "{told:?}");
    assert!(told[0][20..].iter().all(|told| *told == (429, Some(1), String::from("TOO_MANY_REQUESTS"))), "{told:?}");
    // Each further guess doubles the wait, up to a minute; those that were refused cost nothing.
    let guesses = Guesses::new(app.app.services.redis.clone(), Some(20));
    let (mut now, mut waits) = (app.clock.now() + Duration::from_secs(2), Vec::new());
    for _ in 0..9 {
        assert_eq!(guesses.count(Guessed::Password(phones[0]), now).await.unwrap(), 0);
        let wait = guesses.count(Guessed::Password(phones[0]), now).await.unwrap();
        waits.push(wait);
        now = now + Duration::from_secs(wait);
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
    // The owner waits a minute at most, and his login wipes the slate.
    app.clock.advance(app.clock.now().until(now));
    login(&app, phones[0], PASSWORD, "192.0.2.7").await.data();
    for _ in 0..5 {
        assert_eq!(login(&app, phones[0], "falsches pferd", "192.0.2.8").await.code(), "BAD_CREDENTIALS");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_guesses_passwords_does_not_stand_in_the_way_of_a_code() {
    let app = TestApp::with("--rate-limit", "10/20").start().await;
    let phone = "13600000003";
    for _ in 0..22 {
        app.clock.advance(Duration::from_millis(150));
        login(&app, phone, "falsches pferd", "x").await;
    }
    app.clock.advance(Duration::from_secs(1));
    app.http.send(Method::POST, &format!("/api/user/code?phone={phone}"), &[], "").await.json();
    let page = app.http.page(None, "/sandbox-sms").await.text();
    let at = page.find(phone).unwrap();
    let code: String = page[at + phone.len()..].split(|c: char| !c.is_ascii_digit()).find(|w| w.len() == 6).unwrap().to_owned();
    let entered = app.http.json(None, "/api/user/login", &json!({"phone": phone, "code": code})).await;
    assert!(entered.data().is_string());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invented_forwarded_address_changes_nothing_without_a_trusted_proxy() {
    let app = TestApp::with("--rate-limit", "1/20").start().await;
    let mut passed = 0;
    for n in 0..60 {
        // Another phone and another address each time: only the true peer is the same.
        let answer = login(&app, &format!("136000001{n:02}"), "falsches pferd", &format!("203.0.113.{n}")).await;
        passed += u32::from(answer.status == 200);
    }
    assert!((20..=26).contains(&passed), "{passed}");
    let register = json!({"phone": "13600000200", "password": PASSWORD});
    assert_eq!(app.http.json(None, "/api/user/register", &register).await.status, 429, "one bucket for all ways in");
    let code = app.http.send(Method::POST, "/api/user/code?phone=13600000200", &[], "").await;
    assert_eq!(code.status, 429);
    let page = app.http.form(None, "/login", "phone=13600000200&password=x").await;
    assert!(page.status == 429 && !page.header("retry-after").is_empty() && page.text().contains("role=\"alert\""));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_request_is_refused_whatever_header_it_carries() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(5).await, app.buyers(2).await);
    let cookie = format!("seckill_session={}", buyers[0].token);
    let path = format!("/api/voucher-order/seckill/{voucher}");
    let (host, token) = (app.base.clone(), buyers[0].token.clone());
    let foreign: [&[(&str, &str)]; 7] = [
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "https://evil.example"), ("content-type", "text/plain")],
        // What a browser adds by itself where a proxy once asked for it.
        &[("sec-fetch-site", "cross-site"), ("authorization", "Basic dXNlcjpwYXNz")],
        &[("sec-fetch-site", "cross-site"), ("authorization", "junk")],
    ];
    for headers in foreign {
        let all = [headers, &[("cookie", cookie.as_str())]].concat();
        for target in [path.as_str(), &format!("/vouchers/{voucher}/buy"), "/logout", "/login", "/register", "/account/password"]
        {
            let refused = app.http.send(Method::POST, target, &all, "").await;
            assert_eq!(refused.status, 403, "{target} {headers:?}");
        }
    }
    // A page of ours, a program with a cookie, a program with a token: all may.
    for headers in [
        &[("sec-fetch-site", "same-origin"), ("origin", host.as_str()), ("cookie", cookie.as_str())][..],
        &[("cookie", cookie.as_str())],
        &[("authorization", token.as_str())],
        &[("authorization", token.as_str()), ("origin", "https://tool.example")],
    ] {
        let answer = app.http.send(Method::POST, &path, headers, "").await;
        app.admitted_or_held(&answer);
        assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{:?}", answer.headers);
    }
    // Two users in one request, and one token twice.
    let other = buyers[1].token.as_str();
    for headers in [[("authorization", other), ("cookie", cookie.as_str())], [("authorization", other), ("authorization", other)]]
    {
        assert_eq!(app.http.send(Method::POST, &path, &headers, "").await.status, 401, "{headers:?}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_of_password_a_browser_goes_on_with_a_new_session_and_the_others_end() {
    let app = TestApp::start().await;
    let phone = "13600000004";
    let account = json!({"phone": phone, "password": PASSWORD});
    let first = app.http.json(None, "/api/user/register", &account).await.cookie().unwrap();
    let program = app.http.json(None, "/api/user/login", &account).await.data().as_str().unwrap().to_owned();
    let browser = app.http.json(None, "/api/user/login", &account).await.cookie().unwrap();
    let me = async |cookie: &str| app.http.send(Method::GET, "/api/user/me", &[("cookie", cookie)], "").await.status.as_u16();
    let changed = app.http.form(Some(&browser), "/account/password", "oldPassword=korrekt+pferd&newPassword=neues+pferd+1").await;
    assert_eq!(changed.status, 303, "{}", changed.text());
    let rotated = changed.cookie().unwrap();
    assert_eq!((me(&first).await, me(&browser).await, me(&rotated).await), (401, 401, 200));
    assert_eq!(app.http.get_as(&program, "/api/user/me").await.status, 401);
    // A program keeps the token that it holds.
    let program = app.http.json(None, "/api/user/login", &json!({"phone": phone, "password": "neues pferd 1"})).await;
    let program = program.data().as_str().unwrap().to_owned();
    let body = json!({"oldPassword": "neues pferd 1", "newPassword": "neues pferd 2"});
    assert!(app.http.json(Some(&program), "/api/user/password", &body).await.cookie().is_none());
    assert_eq!((app.http.get_as(&program, "/api/user/me").await.status.as_u16(), me(&rotated).await), (200, 401));
    app.finish().await;
}

async fn a_login_that_races_with_a_shut_out_keeps_no_session(on: On) {
    let app = TestApp::on(on).start().await;
    let admin = app.admin().await;
    for n in 0..6 {
        let phone = format!("1360000005{n}");
        let account = json!({"phone": phone, "password": PASSWORD});
        let token = app.http.json(None, "/api/user/register", &account).await.data().as_str().unwrap().to_owned();
        let id = app.http.get_as(&token, "/api/user/me").await.data()["id"].as_i64().unwrap();
        let disable = async {
            // Somewhere inside the hash of the logins.
            tokio::time::sleep(Duration::from_millis(5 * n)).await;
            app.http.post_as(&admin.token, &format!("/api/user/{id}/disable")).await
        };
        let logins = futures_util::future::join_all((0..6).map(|_| app.http.json(None, "/api/user/login", &account)));
        let (logins, disabled) = tokio::join!(logins, disable);
        assert_eq!(disabled.status, 200);
        for answer in logins.iter().filter(|a| a.json()["success"] == true) {
            let token = answer.data().as_str().unwrap().to_owned();
            assert_eq!(app.http.get_as(&token, "/api/user/me").await.status, 401);
        }
        assert_eq!(app.http.get_as(&token, "/api/user/me").await.status, 401);
    }
    app.finish().await;
}
