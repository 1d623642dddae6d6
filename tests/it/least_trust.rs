//! With as little as possible: a Redis user without the dangerous commands, a database role that is nobody special, logs
//! that know no secrets.

use std::process::Stdio;
use std::time::Duration;

use http::Method;
use serde_json::json;
use sqlx::Connection;

use crate::support::app::TestApp;
use crate::support::postgres::fresh_database;
use crate::support::process::Process;
use crate::support::redis::TestRedis;
use crate::support::shop::Shop;
use crate::support::until;

/// What docs/OPERATIONS.md gives an operator, word for word.
fn given(block_with: &str) -> String {
    let text = std::fs::read_to_string(format!("{}/docs/OPERATIONS.md", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let line = text.lines().find(|line| line.contains(block_with)).unwrap_or_else(|| panic!("no line with {block_with}"));
    line.trim().to_owned()
}

/// Everything that a shop does in a day: log in, buy, pay, cancel, refund, rebuild, listen, end sessions, end orders.
async fn a_day(app: &TestApp) {
    let admin = app.admin().await;
    let voucher = app.sale(10).await;
    let account = json!({"phone": "13500000009", "password": "korrekt pferd"});
    let token = app.http.json(None, "/api/user/register", &account).await.data().as_str().unwrap().to_owned();
    let path = format!("/api/voucher-order/seckill/{voucher}");
    let (mut socket, _) = crate::support::socket::Socket::of(&app.base, &token).await;
    let order = app.admitted(&app.http.post_as(&token, &path).await);
    assert_eq!(socket.wait_for("order.created").await["order"]["id"], order.to_string());
    let cancelled = app.http.post_as(&token, &format!("/api/voucher-order/{order}/cancel")).await;
    assert_eq!(cancelled.data()["status"], "CANCELLED");
    app.settled().await;
    let again = app.admitted(&app.http.post_as(&token, &path).await);
    app.settled().await;
    app.http.post_as(&token, &format!("/api/voucher-order/{again}/pay")).await.data();
    app.http.send(Method::POST, "/api/user/code?phone=13500000010", &[], "").await.json();
    // A gate that was lost is built again.
    let rebuilt = app.app.services.rebuilds.rebuild(voucher, 0).await.unwrap();
    assert!(matches!(rebuilt, seckill::service::rebuild::Rebuilt::Open(_)), "{rebuilt:?}");
    assert_eq!(app.http.get("/readyz").await.status, 200);
    let captcha = seckill::domain::voucher::NewSale {
        stock: 1,
        begin: app.clock.now() - Duration::from_secs(1),
        end: app.clock.now() + Duration::from_hours(1),
        captcha: true,
    };
    let sale = app.app.services.sales.create_sale(None, None, &app.voucher("x"), &captcha).await.unwrap();
    let asked = app.http.post_as(&token, &format!("/api/voucher-order/seckill/{sale}")).await;
    assert_eq!(asked.code(), "CAPTCHA_REQUIRED");
    let body = json!({"captcha": {"id": asked.json()["data"]["id"], "answer": "1"}});
    let wrong = app.http.json(Some(&token), &format!("/api/voucher-order/seckill/{sale}"), &body).await;
    assert_eq!(wrong.code(), "CAPTCHA_REQUIRED");
    let id = app.http.get_as(&token, "/api/user/me").await.data()["id"].clone();
    assert_eq!(app.http.post_as(&admin.token, &format!("/api/user/{id}/disable")).await.status, 200);
    assert_eq!(app.http.get_as(&token, "/api/user/me").await.status, 401);
    app.balanced().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_user_without_the_dangerous_commands_and_a_role_that_is_no_superuser_are_enough() {
    let redis = TestRedis::start().await;
    let rule = given("ACL SETUSER seckill").replace("PASSWORD", "geheim");
    let _: String = redis.ask(&rule).await;
    let url = format!("{}?user=seckill&pass=geheim", redis.url());
    let client = redis::Client::open(url.as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for words in ["FLUSHALL", "CONFIG GET maxmemory", "KEYS *", "SHUTDOWN", "GET other", "ACL LIST"] {
        let mut call = redis::cmd(words.split(' ').next().unwrap());
        for word in words.split(' ').skip(1) {
            call.arg(word);
        }
        let refused = call.query_async::<redis::Value>(&mut connection).await.unwrap_err();
        assert_eq!(refused.code(), Some("NOPERM"), "{words}: {refused}");
    }
    let database = fresh_database().await;
    let mut owner = sqlx::PgConnection::connect(&database).await.unwrap();
    let shop_role = format!("shop{}", std::process::id());
    let make = given("CREATE ROLE seckill").replace("seckill", &shop_role).replace("PASSWORD 'PASSWORD'", "PASSWORD 'geheim'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(make)).execute(&mut owner).await.unwrap();
    let grant = given("GRANT CREATE, USAGE ON SCHEMA public TO seckill").replace("seckill", &shop_role);
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant)).execute(&mut owner).await.unwrap();
    let as_role = with_user(&database, &shop_role);
    let mut shop = sqlx::PgConnection::connect(&as_role).await.unwrap();
    let special: bool = sqlx::query_scalar(
        "SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication FROM pg_roles WHERE rolname = current_user",
    )
    .fetch_one(&mut shop)
    .await
    .unwrap();
    assert!(!special);
    let app = TestApp::with("--redis-url", &url).with("--database-url", &as_role).start().await;
    a_day(&app).await;
    app.finish().await;
    let denied: i64 = redis.ask::<Vec<redis::Value>>("ACL LOG").await.len().try_into().unwrap();
    assert_eq!(denied, 6, "nothing but this test's own tries was refused");
}

/// The same database, as another user.
fn with_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let rest = rest.split_once('@').map_or(rest, |(_, host)| host);
    if rest.starts_with('/') || url.contains("user=") {
        let mut parts: Vec<String> = url.split(['?', '&']).map(str::to_owned).collect();
        parts.retain(|p| !p.starts_with("user="));
        let base = parts.remove(0);
        parts.push(format!("user={user}"));
        return format!("{base}?{}", parts.join("&"));
    }
    format!("{scheme}://{user}@{rest}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_a_whole_walk_knows_no_password_token_cookie_body_or_phone() {
    let mut shop = Shop::new().await;
    let log = shop.data().join("log");
    let mut command = shop.command(&[]).await;
    command.env("RUST_LOG", "debug,seckill=trace").stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
    let mut server = Process::start_quietly(command).await;
    shop.seed(1).await;
    let http = server.http.clone();
    let voucher = shop.sale(&http, 3).await;
    let (phone, password, name) = ("13512345678", "ganz geheimes pferd", "Neugierige\u{1b}[31m Leute");
    let bad = http.json(None, "/api/user/register", &json!({"phone": phone, "password": password, "nickName": name})).await;
    assert_eq!(bad.status, 422, "a name with a control character");
    let made = http.json(None, "/api/user/register", &json!({"phone": phone, "password": password})).await;
    let token = made.data().as_str().unwrap().to_owned();
    let cookie = made.cookie().unwrap();
    http.json(None, "/api/user/login", &json!({"phone": phone, "password": "falsches pferd"})).await;
    http.form(None, "/login", &format!("phone={phone}&password=falsches+pferd")).await;
    let entered = http.form(Some(&cookie), "/login", &format!("phone={phone}&password=ganz+geheimes+pferd")).await;
    let second = entered.cookie().unwrap();
    http.send(Method::POST, &format!("/api/user/code?phone={phone}"), &[], "").await.json();
    let page = http.page(Some(&second), "/sandbox-sms").await.text();
    let code = page.split(|c: char| !c.is_ascii_digit()).find(|w| w.len() == 6).unwrap().to_owned();
    http.json(None, "/api/user/login", &json!({"phone": phone, "code": "000000"})).await;
    let bought = http.send(Method::POST, &format!("/api/voucher-order/seckill/{voucher}"), &[("cookie", &second)], "").await;
    let order = bought.data().as_str().unwrap().to_owned();
    let ticket = bought.json()["ticket"].as_str().unwrap().to_owned();
    until("the order is saved", Duration::from_secs(10), async || {
        let order = http.get(&format!("/api/voucher-order/{order}?ticket={ticket}")).await;
        order.json()["data"]["status"] == "PENDING"
    })
    .await;
    http.send(Method::POST, &format!("/api/voucher-order/{order}/pay"), &[("cookie", &second)], "").await;
    let marked = "{\"eigener\":\"Koerper\"}";
    http.send(Method::POST, "/api/payment/callback", &[("webhook-signature", "v1,falsche-unterschrift")], marked).await;
    http.send(Method::POST, "/api/user/login", &[("content-type", "application/json")], marked).await;
    http.get_as("falscher-ausweis", "/api/user/me").await;
    http.get("/nowhere?zeile=a%0d%0ab%1b%5b31m").await;
    http.send(Method::POST, "/logout", &[("cookie", &second)], "").await;
    assert_eq!(server.terminate().await, 0);

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.lines().count() > 20, "something was logged: {}", text.lines().count());
    let secrets = std::fs::read_to_string(shop.data().join("secrets")).unwrap();
    let kept: Vec<&str> = secrets.split(|c: char| c.is_whitespace() || c == '=').filter(|w| w.len() > 20).collect();
    let session = |cookie: &str| cookie.split('=').nth(1).unwrap().to_owned();
    let mut never = vec![phone, password, "falsches", token.as_str(), ticket.as_str(), "Koerper", "falsche-unterschrift"];
    never.extend(["falscher-ausweis", "13900000000", "$argon2id$", "\u{1b}"]);
    never.extend(kept);
    let (first, second) = (session(&cookie), session(&second));
    never.extend([first.as_str(), second.as_str()]);
    for secret in never {
        let found = text.lines().find(|line| line.contains(secret));
        assert!(found.is_none(), "{secret:?} is in the log: {found:?}");
    }
    // Six digits are met by chance in times and ids: looked for as a word of its own.
    let told =
        text.lines().find(|line| line.split(|c: char| !c.is_ascii_digit()).any(|word| word == code) && line.contains("code"));
    assert!(told.is_none(), "the code is in the log: {told:?}");
}
