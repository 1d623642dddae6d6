//! Faults of other shops, tried out on this one, try by try: a callback believed without a check, a socket that outlived its login,
//! a login limit that a header walks around, an order that anybody could touch by its number.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::time::Duration;

use data_encoding::BASE64;
use http::Method;
use seckill::clock::Clock;
use seckill::payment_provider::signature::SigningKeys;
use serde_json::{Value, json};

use super::may::admin_paths;
use crate::support::app::{Buyer, TestApp};
use crate::support::http::{Answer, Http};
use crate::support::process::Process;
use crate::support::shop::Shop;
use crate::support::socket::Socket;
use crate::support::until;

const SECRET: &str = "whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=";

/// A notice as its sender signed it, to be changed before it is sent.
#[derive(Clone)]
struct Signed {
    event: String,
    at: String,
    signature: String,
    body: String,
}

fn paid(order: &str, transaction: &str, amount: i64) -> Value {
    json!({"type": "payment.succeeded", "data": {"orderId": order, "transactionId": transaction, "amount": amount}})
}

fn sign(event: &str, at: i64, body: &str) -> Signed {
    let keys: SigningKeys = SECRET.parse().unwrap();
    let signature = keys.sign(event, at, body.as_bytes());
    Signed { event: event.to_owned(), at: at.to_string(), signature, body: body.to_owned() }
}

async fn tell(http: &Http, notice: &Signed) -> u16 {
    let headers = [
        ("content-type", "application/json"),
        ("webhook-id", notice.event.as_str()),
        ("webhook-timestamp", notice.at.as_str()),
        ("webhook-signature", notice.signature.as_str()),
    ];
    let answer = http.send(Method::POST, "/api/payment/callback", &headers, notice.body.clone()).await;
    assert!(!answer.text().contains(&notice.signature) || notice.signature.is_empty());
    answer.status.as_u16()
}

/// A callback believed without checking amount or signature.
#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_does_not_fit_changes_nothing_and_leaves_one_line_without_secrets() {
    let mut shop = Shop::new().await;
    let log = shop.data().join("log");
    let mut command = shop.command(&["--payment-secret", SECRET, "--log-format", "json"]).await;
    command.stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
    let mut server = Process::start_quietly(command).await;
    shop.seed(2).await;
    let http = server.http.clone();
    let voucher = shop.sale(&http, 3).await;
    let mut orders = Vec::new();
    for token in &shop.buyers {
        let bought = http.post_as(token, &format!("/api/voucher-order/seckill/{voucher}")).await;
        orders.push(bought.data().as_str().unwrap().to_owned());
    }
    let order = async |n: usize| http.get_as(&shop.buyers[n], &format!("/api/voucher-order/{}", orders[n])).await.json();
    for n in [0, 1] {
        until("the orders are saved", Duration::from_secs(10), async || order(n).await["data"]["status"] == "PENDING").await;
    }
    let now = Clock::default().now().0 / 1000;
    // The other buyer's order is paid, rightly: its money must not pay for this one too.
    assert_eq!(tell(&http, &sign("e-theirs", now, &paid(&orders[1], "t-theirs", 4900).to_string())).await, 200);

    let good = sign("e-1", now, &paid(&orders[0], "t-1", 4900).to_string());
    let with_amount = |event: &str, amount: i64| sign(event, now, &paid(&orders[0], "t-1", amount).to_string());
    let mut dollars = paid(&orders[0], "t-1", 4900);
    dollars["data"]["currency"] = json!("USD");
    let mut fraction = paid(&orders[0], "t-1", 4900);
    fraction["data"]["amount"] = json!(4900.5);
    // One bit of the signature's bytes, not of their spelling.
    let mut bytes = BASE64.decode(good.signature.trim_start_matches("v1,").as_bytes()).unwrap();
    bytes[17] ^= 1;
    let tries: Vec<(&str, Signed, &[u16])> = vec![
        ("an amount of one cent", with_amount("e-2", 1), &[422]),
        ("one cent too much", with_amount("e-3", 4901), &[422]),
        ("one cent too little", with_amount("e-4", 4899), &[422]),
        ("a negative amount", with_amount("e-5", -4900), &[422]),
        ("an amount that is no whole number", sign("e-6", now, &fraction.to_string()), &[400]),
        ("another currency", sign("e-7", now, &dollars.to_string()), &[422]),
        ("the money of another user's order", sign("e-8", now, &paid(&orders[0], "t-theirs", 4900).to_string()), &[409]),
        ("an order that cannot be", sign("e-9", now, &paid("7", "t-1", 4900).to_string()), &[404]),
        ("no signature", Signed { signature: String::new(), ..good.clone() }, &[401]),
        ("the signature of another body", Signed { signature: sign("e-1", now, "{}").signature, ..good.clone() }, &[401]),
        (
            "one byte of the signature changed",
            Signed { signature: format!("v1,{}", BASE64.encode(&bytes)), ..good.clone() },
            &[401],
        ),
        ("one byte of the body changed", Signed { body: good.body.replace("4900", "4901"), ..good.clone() }, &[401]),
        ("an old timestamp, signed", sign("e-1", now - 360, &good.body), &[401]),
        ("a new timestamp on an old signature", Signed { at: (now + 1).to_string(), ..good.clone() }, &[401]),
        ("signed with nothing", Signed { signature: empty_secret(&good), ..good.clone() }, &[401]),
    ];
    let lines = |from: usize| -> Vec<String> {
        let all = std::fs::read_to_string(&log).unwrap();
        all.lines().skip(from).filter(|line| line.contains("notice")).map(str::to_owned).collect()
    };
    let before = order(0).await;
    for (what, notice, expected) in &tries {
        let from = std::fs::read_to_string(&log).unwrap().lines().count();
        let status = tell(&http, notice).await;
        assert!(expected.contains(&status), "{what}: {status}");
        until(&format!("{what}: a line in the log"), Duration::from_secs(5), async || !lines(from).is_empty()).await;
        let told = lines(from);
        assert_eq!(told.len(), 1, "{what}: {told:?}");
        let secrets = [notice.signature.as_str(), &SECRET[6..], &notice.body, "transactionId"];
        assert!(!secrets.into_iter().any(|secret| !secret.is_empty() && told[0].contains(secret)), "{what}: {}", told[0]);
        assert_eq!(order(0).await, before, "{what}: the order is untouched");
    }
    assert_eq!(shop.count("SELECT COUNT(*) FROM payment").await, 1, "the other's money alone");
    // The control: the very same notice, unchanged.
    assert_eq!(tell(&http, &good).await, 200);
    assert_eq!(order(0).await["data"]["status"], "PAID");
    assert_eq!(server.terminate().await, 0);
}

/// What a shop without a secret would have accepted.
fn empty_secret(notice: &Signed) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"").unwrap();
    mac.update(format!("{}.{}.{}", notice.event, notice.at, notice.body).as_bytes());
    format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes()))
}

/// A flood of notices that nobody signed: bounded, and not at the expense of whoever can sign.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_sign_is_told_to_wait_and_who_can_is_heard_all_the_same() {
    let app = TestApp::with("--rate-limit", "1/2").with("--payment-secret", SECRET).start().await;
    let now = app.clock.now().0 / 1000;
    let forged = Signed { signature: String::from("v1,AAAA"), ..sign("e-1", now, "{}") };
    let mut told = Vec::new();
    for _ in 0..80 {
        told.push(tell(&app.http, &forged).await);
    }
    assert!(told[..60].iter().all(|status| *status == 401), "thirty bursts of two: {told:?}");
    assert!(told.iter().filter(|status| **status == 429).count() >= 10, "{told:?}");
    // The same client: signed, and understood or not.
    for (body, status) in [("{\"type\":\"payment.failed\",\"data\":{}}", 200), ("{", 400)] {
        assert_eq!(tell(&app.http, &sign("e-2", now, body)).await, status);
    }
    let answer = app.http.send(Method::POST, "/api/payment/callback", &[], "{}").await;
    assert!(answer.status == 429 && answer.header("retry-after").parse::<u64>().is_ok_and(|s| s > 0), "{:?}", answer.headers);
    app.finish().await;
}

/// A socket kept working after its login: here because somebody else logs in, in the same browser.
#[tokio::test(flavor = "multi_thread")]
async fn who_logs_in_after_another_in_the_same_browser_inherits_nothing_and_ends_what_was_open() {
    let app = TestApp::start().await;
    let voucher = app.sale(3).await;
    let body = |phone: &str| format!("phone={phone}&password=korrekt+pferd");
    let first = app.http.form(None, "/register", &body("13500000701")).await.cookie().unwrap();
    app.http.form(None, "/register", &body("13500000702")).await.cookie().unwrap();
    let open = async |cookie: &str| {
        let mut socket = Socket::open(&app.base, &[("cookie", cookie), ("origin", &app.base)]).await.ok().unwrap();
        let snapshot = socket.next().await.unwrap();
        (socket, snapshot)
    };
    let ((mut one, _), (mut two, _)) = (open(&first).await, open(&first).await);
    // A session of his that belongs to another browser goes on, and what it does must not reach this one.
    let elsewhere = app.http.form(None, "/login", &body("13500000701")).await.cookie().unwrap();
    let second = app.http.form(Some(&first), "/login", &body("13500000702")).await.cookie().unwrap();
    assert_eq!((one.next().await.err(), two.next().await.err()), (Some(4401), Some(4401)));
    let (mut new, snapshot) = open(&second).await;
    assert_eq!(snapshot["orders"], json!([]));
    let (mut other, _) = open(&elsewhere).await;
    let buy = format!("/api/voucher-order/seckill/{voucher}");
    let order = app.http.send(Method::POST, &buy, &[("cookie", &elsewhere)], "").await.data();
    assert_eq!(other.wait_for("order.created").await["order"]["id"], order);
    assert!(new.hears_no("order.created", Duration::from_millis(300)).await);
    assert_eq!(Socket::open(&app.base, &[("cookie", &first)]).await.ok().unwrap().next().await.err(), Some(4401));

    // A change of password: the browser goes on with a new cookie; what was open under the old one, here and elsewhere, ends.
    let changed = app.http.form(Some(&second), "/account/password", "oldPassword=korrekt+pferd&newPassword=neues+pferd+1").await;
    let rotated = changed.cookie().unwrap();
    let end = loop {
        if let Err(code) = new.next().await {
            break code;
        }
    };
    assert_eq!(end, 4401);
    let (mut again, _) = open(&rotated).await;
    let order = app.http.send(Method::POST, &buy, &[("cookie", &rotated)], "").await.data();
    assert_eq!(again.wait_for("order.created").await["order"]["id"], order);
    app.finish().await;
}

/// 200 guesses, each with an address of its own in every header that a proxy might write. How many were checked.
async fn checked(http: &Http, phone: impl Fn(u32) -> String) -> usize {
    let mut checked = 0;
    for n in 0..200 {
        let from = format!("198.51.{}.{}", n / 100, n % 100 + 1);
        let forwarded = format!("for={from};proto=https");
        let headers = [
            ("content-type", "application/json"),
            ("x-forwarded-for", from.as_str()),
            ("x-real-ip", from.as_str()),
            ("forwarded", forwarded.as_str()),
            ("cf-connecting-ip", from.as_str()),
        ];
        let body = json!({"phone": phone(n), "password": "falsches pferd"}).to_string();
        let answer = http.send(Method::POST, "/api/user/login", &headers, body).await;
        match answer.status.as_u16() {
            200 => checked += 1,
            429 => assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| (1..=60).contains(&seconds))),
            503 => {}
            other => panic!("{other}: {}", answer.text()),
        }
    }
    checked
}

/// A login limit bypassed with `X-Forwarded-For`: directly, and from a proxy that is trusted.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_guesses_are_limited_whatever_address_they_claim_and_the_owner_gets_in() {
    for proxy in ["192.0.2.1/32", "127.0.0.1/32"] {
        let app = TestApp::with("--rate-limit", "1/20").with("--trusted-proxies", proxy).start().await;
        let owner = json!({"phone": "13500000801", "password": "korrekt pferd"});
        app.http.json(None, "/api/user/register", &owner).await.data();
        let one_account = checked(&app.http, |_| String::from("13500000801")).await;
        assert!((15..=30).contains(&one_account), "one account, {proxy}: {one_account} of 200 were checked");
        // What all logins together may do has filled up again.
        app.clock.advance(Duration::from_secs(30));
        // Another peer, so with buckets of its own where the peer counts; with the true address as its proxy wrote it.
        let other = Http::from_address(&app.base, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)));
        let many = checked(&other, |n| format!("1351000{n:04}")).await;
        assert!((15..=30).contains(&many), "200 accounts from one address, {proxy}: {many} were checked");
        // He is not locked out for good: at another address, after a minute at most.
        app.clock.advance(Duration::from_mins(1));
        let elsewhere = Http::from_address(&app.base, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 17)));
        elsewhere.json(None, "/api/user/login", &owner).await.data();
        app.finish().await;
    }
}

/// An order as its owner, a stranger or a visitor asks for it.
async fn ask(app: &TestApp, method: &str, path: &str, who: Option<&Buyer>, body: &str) -> Answer {
    let cookie = who.map(|buyer| format!("seckill_session={}", buyer.token));
    let mut headers = vec![("sec-fetch-site", "same-origin")];
    if let Some(cookie) = &cookie {
        headers.push(("cookie", cookie));
    }
    if !path.starts_with("/api/") {
        headers.push(("accept", "text/html"));
        headers.push(("content-type", "application/x-www-form-urlencoded"));
    } else if !body.is_empty() {
        headers.push(("content-type", "application/json"));
    }
    app.http.send(method.parse().unwrap(), path, &headers, body.to_owned()).await
}

/// Any user could read or cancel any order by its number.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_of_another_reads_like_a_missing_one_by_every_way_that_leads_to_it() {
    let app = TestApp::with("--payment-secret", SECRET).start().await;
    let (voucher, buyers) = (app.sale(9).await, app.buyers(3).await);
    let (owner, stranger) = (&buyers[0], &buyers[1]);
    let own = app.buy(stranger, voucher).await;
    let ticket = own.json()["ticket"].as_str().unwrap().to_owned();
    let id = app.admitted(&app.buy(owner, voucher).await);
    app.settled().await;
    let ways = [
        ("GET", "/api/voucher-order/ID", ""),
        ("GET", "/api/voucher-order/ID?ticket=TICKET", ""),
        ("POST", "/api/voucher-order/ID/cancel", ""),
        ("POST", "/api/voucher-order/ID/pay", ""),
        ("POST", "/api/voucher-order/ID/refund", "{\"restock\":true}"),
        ("POST", "/api/voucher-order/ID/timeout", ""),
        ("GET", "/orders/ID", ""),
        ("GET", "/orders/ID?ticket=TICKET", ""),
        ("POST", "/orders/ID/cancel", ""),
        ("POST", "/orders/ID/pay", ""),
    ];
    let missing = (id.0 + 1_000_000).to_string();
    // Waiting for payment, and paid: what a stranger hears tells nothing of it.
    for state in ["PENDING", "PAID"] {
        let before = app.order(owner, id).await;
        assert_eq!(before["status"], state);
        for (method, way, body) in ways {
            for who in [Some(stranger), None] {
                let path = |id: &str| way.replace("ID", id).replace("TICKET", &ticket);
                let foreign = ask(&app, method, &path(&id.to_string()), who, body).await;
                let none = ask(&app, method, &path(&missing), who, body).await;
                let at = format!("{method} {way} by {}", if who.is_some() { "a stranger" } else { "nobody" });
                assert_eq!(foreign.status, none.status, "{at}");
                // But for its own number, and the time of day that a page tells its script.
                let told = |answer: &Answer, id: &str| {
                    let text = answer.text().replace(id, "ID").replace(answer.header("x-request-id"), "N");
                    text.split("<script type=\"application/json\"").next().unwrap().to_owned()
                };
                assert_eq!(told(&foreign, &id.to_string()), told(&none, &missing), "{at}");
                let refused = matches!(foreign.status.as_u16(), 401 | 403 | 404);
                assert!(refused || foreign.header("location").starts_with("/login"), "{at}: {}", foreign.status);
            }
        }
        assert_eq!(app.order(owner, id).await, before, "nothing changed");
        if state == "PENDING" {
            let notice = sign("e-1", app.clock.now().0 / 1000, &paid(&id.to_string(), "t-1", 4900).to_string());
            assert_eq!(tell(&app.http, &notice).await, 200);
            // What follows a payment is done a moment later.
            until("the code is there", Duration::from_secs(10), async || app.order(owner, id).await["couponCode"].is_string())
                .await;
        }
    }
    // The owner's user id in what another one sends to buy: refused, or not looked at; the unit is never the owner's.
    let third = &buyers[2];
    let buy = format!("/api/voucher-order/seckill/{voucher}");
    for body in [json!({"userId": owner.id}), json!({"user_id": owner.id, "type": 1}), json!({"user": {"id": owner.id}})] {
        let answer = ask(&app, "POST", &buy, Some(third), &body.to_string()).await;
        assert_eq!(answer.code(), "MALFORMED", "{body}");
    }
    let form = format!("userId={0}&user={0}", owner.id);
    let bought = ask(&app, "POST", &format!("/vouchers/{voucher}/buy"), Some(third), &form).await;
    let order = bought.header("location").trim_start_matches("/orders/").split('?').next().unwrap().parse().unwrap();
    app.settled().await;
    assert_eq!(app.order(third, order).await["status"], "PENDING", "his own, whatever the form says");
    assert_eq!(app.app.services.store.orders_of(owner.id, None, 10).await.unwrap().len(), 1);

    // Every address of the control room, by the two methods that links and forms have.
    let mut tried = 0;
    for path in admin_paths(voucher) {
        for method in ["GET", "POST"] {
            let answer = ask(&app, method, &path, Some(stranger), "").await;
            assert!([403, 404, 405].contains(&answer.status.as_u16()), "{method} {path}: {}", answer.status);
            tried += 1;
        }
    }
    assert!(tried > 70, "{tried}");
    app.finish().await;
}
