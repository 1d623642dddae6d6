//! Signs of SQL, keys of Redis, files, answers while a store is away, and what the program is built from.

use std::time::Duration;

use http::Method;

use crate::support::app::{On, TestApp};
use crate::support::redis::TestRedis;
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn signs_of_sql_in_a_parameter_make_no_difference() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).start().await;
        let (admin, _) = (app.admin().await, app.buyers(3).await);
        let signs = ["'", "''", "\"", "';--", "' or '1'='1", "1;select 1", "\\", "/*", "$1", "?", "a%00b", "x' union select 1--"];
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let control = app.http.get("/api/shop/of/name?name=nowhere").await;
        assert_eq!(control.data(), serde_json::json!([]));
        for sign in signs {
            let found = app.http.get(&format!("/api/shop/of/name?name={}", encoded(sign))).await;
            assert_eq!((found.status, found.text()), (control.status, control.text()), "{sign} on {on:?}");
            for (path, status) in [
                (format!("/api/shop/of/type?typeId=1&sortBy={}", encoded(sign)), None),
                (format!("/api/voucher-order?cursor={}", encoded(sign)), Some(400)),
                (format!("/api/shop/{}", encoded(sign).replace('+', "%20")), Some(400)),
                (format!("/api/voucher-order/1?ticket={}", encoded(sign)), Some(404)),
            ] {
                let answer = app.http.get_as(&admin.token, &path).await;
                assert!(answer.status.as_u16() < 500 && status.is_none_or(|s| answer.status == s), "{path}: {}", answer.status);
            }
        }
        // A percent sign and a line are letters like others, not "anything".
        let all = app.http.get("/api/shop/of/name?name=").await.data();
        assert_eq!(all.as_array().map(Vec::len), Some(1), "the control: the one shop is found by an empty name");
        for wild in ["%25", "_", "%25%25", "____", "[a-z]", "*"] {
            let found = app.http.get(&format!("/api/shop/of/name?name={wild}")).await;
            assert_eq!(found.data(), serde_json::json!([]), "{wild} on {on:?}");
        }
        app.finish().await;
    }
}

/// A zero byte ends a text for some programs, and is none for Postgres.
#[tokio::test(flavor = "multi_thread")]
async fn a_zero_byte_is_refused_wherever_it_stands() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).start().await;
        let (admin, shop) = (app.admin().await, app.shop);
        for (path, status) in [
            ("/api/shop/of/name?name=a%00b", 400),
            ("/api/shop/%00", 400),
            ("/sandbox-pay/books%00", 404),
            ("/admin/users?q=%00", 400),
            ("/orders/1%00", 404),
            ("/login?next=%00", 400),
        ] {
            assert_eq!(app.http.get_as(&admin.token, path).await.status, status, "{path} on {on:?}");
        }
        let json = [
            ("/api/user/login", serde_json::json!({"phone": "1380000000\0", "password": "korrekt pferd"})),
            ("/api/user/login", serde_json::json!({"phone": "13800000000", "code": "\0"})),
            ("/api/user/register", serde_json::json!({"phone": "13512340000", "password": "korrekt\0pferd", "nickName": "a\0b"})),
            ("/api/user/password", serde_json::json!({"oldPassword": "\0", "newPassword": "korrekt\0pferd"})),
            ("/api/shop", serde_json::json!({"name": "a\0b"})),
            ("/api/shop", serde_json::json!({"name": "a", "address": "a\0b", "area": "\0"})),
            ("/api/voucher", serde_json::json!({"shopId": shop, "title": "a\0b", "payValue": 1, "actualValue": 2})),
            ("/api/voucher", serde_json::json!({"shopId": shop, "title": "a", "rules": "a\0b", "payValue": 1, "actualValue": 2})),
        ];
        for (path, body) in json {
            let answer = app.http.json(Some(&admin.token), path, &body).await;
            let status = answer.status.as_u16();
            assert!((400..500).contains(&status) || answer.json()["success"] == false, "{path} {body}: {}", answer.text());
            assert!(status < 500, "{path} {body} on {on:?}: {}", answer.text());
        }
        let cookie = format!("seckill_session={}", admin.token);
        for (path, form) in [
            ("/login", "phone=%00&password=%00"),
            ("/register", "phone=13512340001&password=korrekt+pferd&nickName=%00"),
            ("/admin/vouchers/new", "formId=%00&title=%00&shopId=1"),
            ("/admin/vouchers/new", "formId=%00&title=a&shopId=1&payValue=1&actualValue=2"),
        ] {
            let answer = app.http.form(Some(&cookie), path, form).await;
            assert!((400..500).contains(&answer.status.as_u16()), "{path} {form} on {on:?}: {}", answer.status);
        }
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_user_is_part_of_a_key() {
    let app = TestApp::with("--rate-limit", "100/100").start().await;
    let (buyer, voucher) = (app.buyer().await, app.sale(2).await);
    for text in ["zqkey", "zqkey*", "zqkey%0d%0aFLUSHALL", "1%20zqkey", "%7b0%7dzqkey"] {
        app.http.get_as(text, "/api/user/me").await;
        app.http.send(Method::POST, &format!("/api/user/code?phone={text}"), &[], "").await;
        app.http.get_as(&buyer.token, &format!("/api/captcha/{text}")).await;
        app.http.post_as(&buyer.token, &format!("/api/voucher-order/seckill/{text}")).await;
        app.http.json(None, "/api/user/login", &serde_json::json!({"phone": text, "password": "zqkeyzqkey"})).await;
        app.http.json(None, "/api/user/login", &serde_json::json!({"phone": text, "code": text})).await;
        app.http.send(Method::GET, "/api/user/me", &[("cookie", &format!("seckill_session={text}"))], "").await;
        let captcha = serde_json::json!({"captcha": {"id": text, "answer": text}});
        app.http.json(Some(&buyer.token), &format!("/api/voucher-order/seckill/{voucher}"), &captcha).await;
    }
    let keys: Vec<String> = app.ask("KEYS *").await;
    assert!(keys.len() > 3 && keys.iter().all(|key| !key.contains("zqkey")), "{keys:?}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_to_a_file_that_is_not_ours_to_show() {
    let app = TestApp::start().await;
    let page = app.http.page(None, "/login").await.text();
    let set = page.split("/static/").nth(1).unwrap().split('/').next().unwrap().to_owned();
    assert_eq!(app.http.get(&format!("/static/{set}/app.css")).await.status, 200, "the control");
    for path in [
        "/static/SET/../../Cargo.toml",
        "/static/SET/..%2f..%2fCargo.toml",
        "/static/SET/%2e%2e/%2e%2e/Cargo.toml",
        "/static/SET//etc/passwd",
        "/static/SET/%2fetc%2fpasswd",
        "/static/SET/..\\..\\Cargo.toml",
        "/static/SET/app.css%00.html",
        "/static/SET/.git/config",
        "/static/SET/",
        "/static/SET",
        "/static/",
        "/.git/config",
        "/.env",
        "/seckill.db",
        "/data/seckill.db",
        "/data/secrets",
        "/secrets",
        "/redis.sock",
        "/..%2f..%2fetc%2fpasswd",
        "/../../etc/passwd",
        "/Cargo.toml",
        "/backup.sql",
        "/.well-known/../.env",
        "/static/SET/....//app.css",
    ] {
        let path = path.replace("SET", &set);
        let answer = app.http.get(&path).await;
        assert_eq!(answer.status, 404, "{path}");
        let text = answer.text();
        assert!(!text.contains("[package]") && !text.contains("root:") && !text.contains("SQLite format"), "{path}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_or_the_database_is_away_an_answer_says_nothing_of_the_inside() {
    let mut redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyer) = (app.sale(2).await, app.buyer().await);
    let quiet = async |what: &str| {
        for (method, path) in [
            (Method::POST, format!("/api/voucher-order/seckill/{voucher}")),
            (Method::GET, String::from("/api/voucher-order")),
            (Method::GET, String::from("/api/user/me")),
            (Method::GET, String::from("/")),
            (Method::GET, String::from("/orders")),
            (Method::GET, format!("/shop/{}", app.shop)),
        ] {
            let answer = app.http.send(method.clone(), &path, &[("authorization", &buyer.token)], "").await;
            let text = answer.text().to_lowercase();
            for word in [
                "sqlx",
                "sqlite",
                "redis",
                "connection refused",
                "os error",
                "/tmp",
                ".rs",
                "timed out",
                "select ",
                "0.1.0",
                "locked",
            ] {
                assert!(!text.contains(word), "{what}: {word:?} in {method} {path}: {text}");
            }
            assert!(
                answer.status != 500 && !answer.header("x-request-id").is_empty(),
                "{what}: {method} {path} {}",
                answer.status
            );
        }
    };
    quiet("all is well").await;
    app.execute("ALTER TABLE orders RENAME TO orders_away").await;
    let broken = app.http.get_as(&buyer.token, "/api/voucher-order").await;
    assert!(broken.status.as_u16() >= 500, "the control: the table is away: {}", broken.status);
    for answer in [
        broken,
        app.http
            .send(Method::GET, "/orders", &[("cookie", &format!("seckill_session={}", buyer.token)), ("accept", "text/html")], "")
            .await,
    ] {
        let text = answer.text().to_lowercase();
        assert!(!text.contains("no such table") && !text.contains("orders_away") && !text.contains("sqlx"), "{text}");
    }
    app.execute("ALTER TABLE orders_away RENAME TO orders").await;
    redis.kill();
    quiet("Redis is away").await;
    redis.start_again().await;
    until("Redis is back", Duration::from_secs(20), async || app.http.get("/readyz").await.status == 200).await;
    app.abandon("the Redis that came back knows nothing of what it held").await;
}

#[test]
fn dependencies_are_locked_and_looked_through_by_make_check() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (makefile, deny, lock) = (read("Makefile"), read("deny.toml"), read("Cargo.lock"));
    assert!(makefile.contains("cargo deny --offline check bans licenses sources") && makefile.contains("--locked"));
    assert!(deny.contains("unknown-registry = \"deny\"") && deny.contains("unknown-git = \"deny\""));
    let packages: Vec<&str> = lock.split("[[package]]").skip(1).collect();
    let unsure = packages.iter().filter(|p| p.contains("source = ") && !p.contains("checksum = "));
    assert!(packages.len() > 100 && unsure.count() == 0, "a package without a checksum");
}
