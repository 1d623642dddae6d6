//! What comes in over the wire before anybody knows who it is: slow clients, large heads and bodies, odd methods, odd hosts.

use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::app::TestApp;
use crate::support::socket::Socket;

async fn connect(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.base.trim_start_matches("http://")).await.unwrap()
}

/// Sends bytes as they are; the whole answer until the server closes.
async fn raw(app: &TestApp, bytes: &[u8]) -> String {
    let mut stream = connect(app).await;
    // The server may answer and close before all is sent.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "no end within 20 s: {}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_slow_and_trickling_clients_are_dropped_and_others_are_served_meanwhile() {
    let app = TestApp::start().await;
    let started = Instant::now();
    let dropped = async |kind: usize| {
        let mut stream = connect(&app).await;
        let head: &[u8] = match kind {
            0 => b"",
            1 => b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
            _ => b"POST /api/user/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
        };
        stream.write_all(head).await.unwrap();
        let mut byte = [0; 1];
        loop {
            let told = tokio::time::timeout(Duration::from_secs(3), stream.read(&mut byte)).await;
            match told {
                Ok(Ok(0) | Err(_)) => return,
                // One more byte of a header, or of the body, every three seconds.
                Err(_) if kind > 0 => drop(stream.write_all(b"a").await),
                Ok(Ok(_)) | Err(_) => {}
            }
            assert!(started.elapsed() < Duration::from_secs(16), "kind {kind} is still there");
        }
    };
    let many = futures_util::future::join_all((0..90).map(|n| dropped(n % 3)));
    let served = async {
        for _ in 0..10 {
            assert_eq!(app.http.get("/healthz").await.status, 200);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::join!(many, served);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_without_a_host_or_with_two_or_too_large_is_refused() {
    let app = TestApp::start().await;
    let get = |rest: &str| format!("GET /healthz HTTP/1.1\r\n{rest}Connection: close\r\n\r\n");
    let long = "a".repeat(100_000);
    for (what, request, expected) in [
        ("good", get("Host: x\r\n"), &[200][..]),
        ("1.0 needs none", String::from("GET /healthz HTTP/1.0\r\n\r\n"), &[200]),
        ("none", get(""), &[400]),
        ("two", get("Host: x\r\nHost: x\r\n"), &[400]),
        ("a fold", get("Host: x\r\nX-A: a\r\n b\r\n"), &[400]),
        ("a space before the colon", get("Host : x\r\n"), &[400]),
        ("a NUL", get("Host: x\r\nX-A: a\0b\r\n"), &[400]),
        ("an unknown coding", get("Host: x\r\nTransfer-Encoding: xchunked\r\n"), &[400, 501]),
        ("a sign in the length", get("Host: x\r\nContent-Length: +5\r\n"), &[400]),
        ("a coding before the last one", get("Host: x\r\nTransfer-Encoding: gzip, chunked\r\n"), &[400]),
        ("one coding twice", get("Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), &[400]),
        (
            "an address with its own host",
            String::from("GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            &[200],
        ),
        (
            "an address with another host",
            String::from("GET http://y/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            &[400],
        ),
        ("two lengths", get("Host: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n"), &[400]),
        ("a large header", get(&format!("Host: x\r\nX-A: {long}\r\n")), &[431]),
        ("20 KB of headers", get(&format!("Host: x\r\nX-A: {}\r\n", &long[..20_000])), &[431]),
        ("a thousand headers", get(&format!("Host: x\r\n{}", "X-A: 1\r\n".repeat(1000))), &[431]),
        ("a long address", format!("GET /{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", &long[..9_000]), &[414]),
        ("a longer one", format!("GET /{long} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"), &[414, 431]),
    ] {
        let answer = raw(&app, request.as_bytes()).await;
        assert!(expected.contains(&status(&answer)), "{what}: {}", answer.chars().take(300).collect::<String>());
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_size_a_kind_and_methods_a_list() {
    let app = TestApp::start().await;
    let big = vec![b'a'; 17 * 1024];
    for (path, kind) in [
        ("/api/user/login", "application/json"),
        ("/login", "application/x-www-form-urlencoded"),
        ("/api/voucher-order/seckill/1", "application/json"),
    ] {
        let user = app.buyer().await;
        let headers = [("content-type", kind), ("authorization", user.token.as_str())];
        let answer = app.http.send(Method::POST, path, &headers, big.clone()).await;
        assert_eq!(answer.status, 413, "{path}");
        let chunked = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4400\r\n{}\r\n0\r\n\r\n",
            user.token,
            "a".repeat(0x4400)
        );
        assert_eq!(status(&raw(&app, chunked.as_bytes()).await), 413, "{path} without a length");
        let wrong = app.http.send(Method::POST, path, &[("content-type", "text/plain"), headers[1]], "x").await;
        assert_eq!(wrong.status, 415, "{path}");
    }
    let notice = |bytes: usize| app.http.send(Method::POST, "/api/payment/callback", &[], vec![b' '; bytes]);
    assert_eq!((notice(64 * 1024 + 1).await.status.as_u16(), notice(60 * 1024).await.status.as_u16()), (413, 401));
    for path in ["/api/user/login", "/", "/login", "/healthz", "/api/voucher-order/1/cancel", "/api/payment/callback"] {
        for method in ["TRACE", "OPTIONS", "DELETE", "PROPFIND"] {
            let answer = app.http.send(method.parse().unwrap(), path, &[], "").await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert!(!answer.header("allow").is_empty(), "{method} {path}");
        }
    }
    app.finish().await;
}

/// A refusal does not wait for the body. What is left of it is thrown away, or the connection ends; it is never the next request.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_read_of_a_body_never_becomes_a_request() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let inner = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (length, filled) = (inner.len(), format!("{}{inner}", "a".repeat(17 * 1024)));
    let chunked = |text: &str| format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
    let (buy, evil) = ("/api/voucher-order/seckill/1", "Origin: https://evil.example\r\n");
    let (form, json) = ("Content-Type: application/x-www-form-urlencoded\r\n", "Content-Type: application/json\r\n");
    let token = format!("Authorization: {}\r\n{json}", buyer.token);
    // The path, its headers, how the body is sent, what is sent of it; the answer, and whether another one may follow.
    let cases = [
        ("/login", format!("{evil}{form}Content-Length: {length}"), inner.to_owned(), 403, true),
        ("/login", format!("{evil}{form}Transfer-Encoding: chunked"), chunked(inner), 403, true),
        (buy, format!("{evil}Content-Length: {length}"), inner.to_owned(), 403, true),
        (buy, format!("Content-Length: {length}"), inner.to_owned(), 401, true),
        ("/nowhere", format!("Content-Length: {length}"), inner.to_owned(), 404, true),
        // Announced and not sent: whatever comes next on the line would be read as the rest of it.
        ("/login", format!("{evil}{form}Content-Length: 9000"), inner.to_owned(), 403, false),
        (buy, String::from("Content-Length: 9000"), inner.to_owned(), 401, false),
        // More than is read: the answer says that the connection ends, and it does.
        ("/login", format!("{form}Content-Length: {}", filled.len()), filled.clone(), 413, false),
        ("/api/user/login", format!("{json}Transfer-Encoding: chunked"), chunked(&filled), 413, false),
        (buy, format!("{token}Content-Length: {}", filled.len()), filled.clone(), 413, false),
        (buy, format!("{token}Transfer-Encoding: chunked"), chunked(&filled), 413, false),
        ("/api/payment/callback", String::from("Content-Length: 70000"), inner.to_owned(), 413, false),
    ];
    for (path, headers, body, expected, may_go_on) in cases {
        let request = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{body}{next}");
        let answer = raw(&app, request.as_bytes()).await;
        let statuses: Vec<u16> = answer.split("HTTP/1.1 ").skip(1).map(|a| a[..3].parse().unwrap()).collect();
        let fits = if may_go_on { statuses == [expected, 200] } else { statuses == [expected] };
        assert!(fits, "{path} {headers}: {statuses:?}");
        let says_so = answer.to_ascii_lowercase().contains("connection: close");
        assert!(expected != 413 || says_so, "{path} {headers}: {answer}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_its_guards_and_a_shop_behind_tls_more_of_them() {
    for (url, tls) in [("http://127.0.0.1:8080", false), ("https://shop.example", true)] {
        let app = TestApp::with("--public-url", url).start().await;
        for path in [
            "/",
            "/login",
            "/nowhere",
            "/api/nowhere",
            "/healthz",
            "/static/x/app.css",
            "/static/../x",
            "/api/user/me",
            "/api/voucher-order/seckill/1",
            "/ws",
        ] {
            let answer = app.http.get(path).await;
            let policy = answer.header("content-security-policy");
            for part in
                ["default-src 'self'", "object-src 'none'", "base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"]
            {
                assert!(policy.contains(part), "{path}: {policy}");
            }
            assert!(!policy.contains("unsafe"), "{path}: {policy}");
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            assert_ne!(answer.header("referrer-policy"), "", "{path}");
            let hsts = answer.header("strict-transport-security");
            assert_eq!(hsts.contains("max-age=31536000"), tls, "{path}: {hsts}");
            if !path.starts_with("/static/") {
                assert_eq!(answer.header("cache-control"), "no-store", "{path}");
            }
        }
        let body = serde_json::json!({"phone": "13500000001", "password": "korrekt pferd"});
        let made = app.http.json(None, "/api/user/register", &body).await;
        let cookie = made.header("set-cookie");
        assert_eq!(cookie.starts_with("__Host-") && cookie.contains("; Secure"), tls, "{cookie}");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && !cookie.contains("Domain"), "{cookie}");
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_floods_or_breaks_the_rules_is_closed_with_its_reason() {
    let app = TestApp::start().await;
    let buyer = app.buyer().await;
    let (mut socket, _) = Socket::of(&app.base, &buyer.token).await;
    socket.send(&"a".repeat(5_000)).await;
    assert_eq!(socket.next().await.err(), Some(1009));
    let (mut socket, _) = Socket::of(&app.base, &buyer.token).await;
    for _ in 0..61 {
        socket.send("{\"type\":\"sync\"}").await;
    }
    let end = loop {
        if let Err(code) = socket.next().await {
            break code;
        }
    };
    assert_eq!(end, 1008);
    app.finish().await;
}
