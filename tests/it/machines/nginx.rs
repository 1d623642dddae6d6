//! Behind a real nginx with `deploy/nginx.conf`: limits by address, sockets, the client's own address, and an instance that dies.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;

use crate::support::app::TestApp;
use crate::support::http::Http;
use crate::support::nginx::Nginx;
use crate::support::postgres::fresh_database;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::socket::Socket;
use crate::support::{long, until};

/// Another address of this machine.
fn from(nginx: &Nginx, last: u8) -> Http {
    Http::from_address(&nginx.base, IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_buying_and_logging_in_are_limited_by_address_and_the_refusal_is_polite() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(5).await, app.buyer().await);
    let nginx = Nginx::before([&app.base, &app.base]).await;
    let (one, two) = (from(&nginx, 2), from(&nginx, 3));

    let path = format!("/api/voucher-order/seckill/{voucher}");
    let answers = join_all((0..60).map(|_| one.post_as(&buyer.token, &path))).await;
    let refused: Vec<_> = answers.iter().filter(|a| a.status == 429).collect();
    assert!((30..40).contains(&refused.len()), "twenty at once, ten a second: {} of 60 are refused", refused.len());
    assert_eq!(refused[0].code(), "TOO_MANY_REQUESTS");
    assert_eq!((refused[0].json()["errorMsg"].as_str(), refused[0].header("retry-after")), (Some("点得太快了，请稍后再试"), "1"));
    assert_eq!(two.post_as(&buyer.token, &path).await.code(), "DUPLICATE", "another address has its own twenty");
    let headers = [("authorization", buyer.token.as_str()), ("accept-language", "en-GB")];
    let english = join_all((0..30).map(|_| one.send(Method::POST, &path, &headers, ""))).await;
    assert!(english.iter().any(|a| a.status == 429 && a.text().contains("Too fast")));

    // Who is logging in has a bucket of his own; a form gets a page.
    let forms = join_all((0..40).map(|_| one.form(None, "/login", "phone=13900000001&password=wrong-wrong"))).await;
    let page = forms.iter().find(|a| a.status == 429).expect("forty at once are too many");
    assert!(page.header("content-type").starts_with("text/html") && page.header("retry-after") == "1");
    let html = page.text();
    let sheet = html.split("href=\"").find_map(|rest| rest.split('"').next().filter(|href| href.contains(".css"))).unwrap();
    assert_eq!(one.get(sheet).await.header("content-type"), "text/css; charset=utf-8", "in our style");
    assert!(html.contains("点得太快了") && html.contains("Too fast") && !html.contains("style="), "{html}");
    assert!(page.header("content-security-policy").contains("default-src 'none'"));

    // Everything else is not held up: pages, questions, notices of payment.
    let mut others = Vec::new();
    for _ in 0..40 {
        others.push(one.get("/").await.status.as_u16());
        others.push(one.get_as(&buyer.token, "/api/voucher-order").await.status.as_u16());
        others.push(one.send(Method::POST, "/api/payment/callback", &[], "{}").await.status.as_u16());
    }
    let seen: HashSet<u16> = others.into_iter().collect();
    assert_eq!(seen, HashSet::from([200, 401]));
    assert_eq!(one.get("/metrics").await.status, 404);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_address_is_believed_only_from_a_trusted_proxy() {
    let trusting = TestApp::with("--trusted-proxies", "127.0.0.1/32").start().await;
    let careful = TestApp::with("--trusted-proxies", "127.0.0.9/32").start().await;
    let claim = [("x-forwarded-for", "203.0.113.7")];
    // Figures are for this machine alone: they tell what address the app believes.
    let believed = async |app: &TestApp| app.http.send(Method::GET, "/metrics", &claim, "").await.status == 404;
    assert!(believed(&trusting).await && !believed(&careful).await);
    // Through the gateway a client's own claim is gone: it replaces it with the address that it sees.
    let nginx = Nginx::before([&trusting.base, &trusting.base]).await;
    let lied = from(&nginx, 1).send(Method::GET, "/sandbox-sms", &claim, "").await;
    assert_eq!(lied.status, 200, "codes are shown to this machine, which is what the gateway saw");
    assert_eq!(trusting.http.send(Method::GET, "/sandbox-sms", &claim, "").await.status, 404);
    trusting.finish().await;
    careful.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_instances_dies_and_nobody_buys_twice_pages_stay_up_and_sockets_live() {
    let (redis, database) = (TestRedis::start().await, fresh_database().await);
    let mut shop = Shop::with(&["--redis-url", &redis.url(), "--database-url", &database]).await;
    let mut one = shop.serve(&["--trusted-proxies", "127.0.0.1/32"]).await;
    let two = shop
        .serve_beside(None, &["--redis-url", &redis.url(), "--database-url", &database, "--trusted-proxies", "127.0.0.1/32"])
        .await;
    let nginx = Nginx::before([&one.base, &two.base]).await;
    shop.seed(160).await;
    let voucher = shop.sale(&one.http, 100).await;
    let path = format!("/api/voucher-order/seckill/{voucher}");

    // A socket that says nothing outlives every time limit on its way; one is on each instance.
    let mut sockets = Vec::new();
    for buyer in &shop.buyers[150..156] {
        sockets.push(Socket::of(&nginx.base, buyer).await.0);
    }
    // As a browser does: it says nothing, and answers pings.
    let silence = tokio::time::Instant::now() + Duration::from_secs(if long() { 90 } else { 2 });
    join_all(sockets.iter_mut().map(async |socket| {
        while let Ok(heard) = tokio::time::timeout_at(silence, socket.next_ever()).await {
            assert!(heard.is_some(), "a socket that says nothing was closed");
        }
    }))
    .await;

    // Eight addresses, twenty clicks each, and in the middle one instance is gone.
    let clients: Vec<Http> = (2..10).map(|last| from(&nginx, last)).collect();
    let clicks = async |buyers: std::ops::Range<usize>| {
        let sent = buyers.map(|b| {
            let (http, token, path) = (clients[b % 8].clone(), shop.buyers[b].clone(), path.clone());
            async move { (b, http.try_send(Method::POST, &path, &[("authorization", &token)], "").await) }
        });
        join_all(sent).await
    };
    let (heard, ()) = tokio::join!(clicks(0..80), async {
        tokio::time::sleep(Duration::from_millis(3)).await;
        one.kill().await;
    });
    for (buyer, answer) in heard {
        let answer = answer.unwrap_or_else(|e| panic!("the gateway answers buyer {buyer}: {e}"));
        let json = answer.json();
        let known = json["success"] == true || ["UNCERTAIN", "BUSY", "SOLD_OUT"].contains(&json["code"].as_str().unwrap_or(""));
        assert!(known, "{} {}", answer.status, answer.text());
    }
    for _ in 0..20 {
        let page = clients[0].page(None, "/").await;
        assert_eq!(page.status, 200, "pages stay up");
    }
    // Everybody presses again, as he was told to.
    for buyer in 0..160 {
        until("a click has a definite answer", Duration::from_secs(20), async || {
            let http = from(&nginx, u8::try_from(10 + buyer).unwrap());
            let answer = http.post_as(&shop.buyers[buyer], &path).await;
            assert!([200, 503].contains(&answer.status.as_u16()), "{} {}", answer.status, answer.text());
            answer.status == 200
        })
        .await;
    }
    // What the dead one had read and not saved is taken over by the other.
    until("every unit has its order", Duration::from_secs(40), async || {
        shop.count("SELECT COUNT(*) FROM orders WHERE live").await == 100
    })
    .await;
    shop.audited().await;
    assert_eq!(shop.count("SELECT COUNT(DISTINCT user_id) FROM orders WHERE live").await, 100);
    // Whose instance died was cut off and comes back; whose did not still hears what happens.
    let mut alive = 0;
    for socket in &mut sockets {
        socket.send("{\"type\":\"sync\"}").await;
        alive += usize::from(socket.next().await.is_ok());
    }
    assert!((1..6).contains(&alive), "{alive} of 6 sockets were on the instance that lives");
    let (_back, snapshot) = Socket::of(&nginx.base, &shop.buyers[0]).await;
    assert!(snapshot["orders"].is_array());
}
