//! The captcha: off it costs nothing; on, nobody reaches the gate without an answer of his own, used once, in time.

use std::time::Duration;

use http::Method;
use seckill::domain::captcha::solve;
use seckill::domain::ids::VoucherId;
use seckill::domain::time::Millis;
use seckill::domain::voucher::NewSale;
use seckill::web::session::Captchas;
use serde_json::{Value, json};

use crate::support::app::{Buyer, On, TestApp, on_both_databases};
use crate::support::browser::{Browser, Script};
use crate::support::http::Answer;

on_both_databases!(a_wrong_foreign_used_or_late_answer_never_reaches_the_script,);

/// A sale with a captcha, its window in milliseconds from now.
async fn sale(app: &TestApp, stock: i64, begin: i64, end: i64) -> VoucherId {
    let now = app.clock.now().0;
    let sale = NewSale { stock, begin: Millis(now + begin), end: Millis(now + end), captcha: true };
    app.app.services.sales.create_sale(None, None, &app.voucher("下午茶"), &sale).await.unwrap()
}

async fn open_sale(app: &TestApp, stock: i64) -> VoucherId {
    sale(app, stock, -1_000, 3_600_000).await
}

/// Runs of any script of the gate so far.
async fn scripts_run(app: &TestApp) -> u64 {
    let stats: String = app.ask("INFO commandstats").await;
    let calls = |word: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{word}:calls=")));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    };
    calls("evalsha") + calls("eval")
}

async fn challenge(app: &TestApp, buyer: &Buyer, voucher: VoucherId) -> Value {
    app.http.get_as(&buyer.token, &format!("/api/captcha/{voucher}")).await.data()
}

async fn buy_with(app: &TestApp, buyer: &Buyer, voucher: VoucherId, id: &Value, answer: &Value) -> Answer {
    let body = json!({"captcha": {"id": id, "answer": answer}});
    app.http.json(Some(&buyer.token), &format!("/api/voucher-order/seckill/{voucher}"), &body).await
}

/// The answer to `37 + 48 = ?`.
fn sum_of(challenge: &Value) -> String {
    let question = challenge["question"].as_str().unwrap();
    let (a, b) = question.strip_suffix(" = ?").unwrap().split_once(" + ").unwrap();
    (a.parse::<u32>().unwrap() + b.parse::<u32>().unwrap()).to_string()
}

fn nonce_of(challenge: &Value) -> String {
    let bits = u8::try_from(challenge["difficulty"].as_u64().unwrap()).unwrap();
    solve(challenge["challenge"].as_str().unwrap(), bits).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_is_asked_answered_either_way_and_used_up() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).start().await;
        let (voucher, plain, buyers) = (open_sale(&app, 10).await, app.sale(1).await, app.buyers(3).await);
        let path = |v: &dyn std::fmt::Display| format!("/api/captcha/{v}");
        assert_eq!(app.http.get(&path(&voucher)).await.status, 401);
        assert_eq!(app.http.get_as(&buyers[0].token, &path(&plain)).await.status, 404, "a sale without one");
        assert_eq!(app.http.get_as(&buyers[0].token, &path(&999_999)).await.status, 404);
        assert_eq!(app.http.get_as(&buyers[0].token, &path(&"x")).await.status, 400);

        let refused = app.buy(&buyers[0], voucher).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (200, "CAPTCHA_REQUIRED"));
        let asked = refused.json()["data"].clone();
        assert_eq!(asked["kind"], "pow");
        assert_eq!(asked["difficulty"], 12, "nothing presses");
        assert!(asked["expiresAt"].as_str().unwrap().ends_with('Z'), "{asked}");
        assert!(!asked.to_string().contains(&format!("\"{}\"", sum_of(&asked))), "the answer is not in it");
        let won = buy_with(&app, &buyers[0], voucher, &asked["id"], &json!(nonce_of(&asked))).await;
        let order = app.admitted(&won);
        let asked = challenge(&app, &buyers[1], voucher).await;
        // A number instead of a text is the same answer.
        let number: u64 = sum_of(&asked).parse().unwrap();
        app.admitted(&buy_with(&app, &buyers[1], voucher, &asked["id"], &json!(number)).await);
        // Whoever holds a unit solves nothing to hear of it, neither without an answer nor with a stale one.
        let held = app.buy(&buyers[0], voucher).await;
        assert_eq!((held.code().as_str(), &held.json()["data"]), ("DUPLICATE", &json!(order)));
        assert!(held.json()["ticket"].is_string());
        let held = buy_with(&app, &buyers[1], voucher, &asked["id"], &json!(number)).await;
        assert_eq!(held.code(), "DUPLICATE");
        app.finish().await;
    }
}

async fn a_wrong_foreign_used_or_late_answer_never_reaches_the_script(on: On) {
    let app = TestApp::on(on).start().await;
    let (voucher, other, buyers) = (open_sale(&app, 10).await, open_sale(&app, 10).await, app.buyers(2).await);
    app.settled().await;
    let me = &buyers[0];
    let before = scripts_run(&app).await;
    let refused = async |id: &Value, answer: Value, what: &str| {
        let answer = buy_with(&app, me, voucher, id, &answer).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (200, "CAPTCHA_REQUIRED"), "{what}");
        assert!(answer.json()["data"]["id"].is_string(), "{what}: a new one is asked");
    };
    let asked = challenge(&app, me, voucher).await;
    refused(&asked["id"], json!("1"), "a wrong answer").await;
    refused(&asked["id"], json!(sum_of(&asked)), "the right one after a wrong one: it is used up").await;
    let theirs = challenge(&app, &buyers[1], voucher).await;
    refused(&theirs["id"], json!(sum_of(&theirs)), "another user's").await;
    let elsewhere = challenge(&app, me, other).await;
    refused(&elsewhere["id"], json!(sum_of(&elsewhere)), "another sale's").await;
    for id in ["", "x", "../../etc", "login:token:1", &"f".repeat(32), &"F".repeat(32), &"a".repeat(10_000)] {
        refused(&json!(id), json!("85"), "a made-up one").await;
    }
    for body in [json!({"captcha": 1}), json!({"captcha": {"id": 1, "answer": "1"}}), json!({"captcha": {"id": "x"}})] {
        let bad = app.http.json(Some(&me.token), &format!("/api/voucher-order/seckill/{voucher}"), &body).await;
        assert_eq!((bad.status.as_u16(), bad.code().as_str()), (400, "MALFORMED"), "{body}");
    }
    let late = challenge(&app, me, voucher).await;
    app.clock.advance(Duration::from_mins(2));
    refused(&late["id"], json!(nonce_of(&late)), "a late one").await;
    assert_eq!(scripts_run(&app).await, before, "the gate was asked");

    // And a good one reaches it once, however often and however fast it is sent.
    let good = challenge(&app, me, voucher).await;
    let answer = json!(sum_of(&good));
    let sends = (0..8).map(|_| buy_with(&app, me, voucher, &good["id"], &answer));
    let answers = futures_util::future::join_all(sends).await;
    let won = answers.iter().filter(|a| a.json()["success"] == true).count();
    assert_eq!(won, 1);
    assert_eq!(app.app.services.store.sale(other).await.unwrap().unwrap().stock_left, 10);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_guard_a_challenge_is_good_twice() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (open_sale(&app, 1).await, app.buyer().await);
    let captchas = Captchas::new(app.app.services.redis.clone());
    let asked = challenge(&app, &buyer, voucher).await;
    let id = asked["id"].as_str().unwrap();
    assert!(seckill::fault::without("captcha-kept", captchas.take(id)).await.unwrap().is_some());
    assert!(captchas.take(id).await.unwrap().is_some(), "the mutant left it there");
    assert!(captchas.take(id).await.unwrap().is_none());
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_solved_before_the_begin_is_good_after_it() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (sale(&app, 5, 1_500, 3_600_000).await, app.buyer().await);
    let early = challenge(&app, &buyer, voucher).await;
    let tried = buy_with(&app, &buyer, voucher, &early["id"], &json!(sum_of(&early))).await;
    assert_eq!(tried.code(), "NOT_BEGUN", "a good answer reaches the gate, which says so");
    let early = challenge(&app, &buyer, voucher).await;
    tokio::time::sleep(Duration::from_millis(1_600)).await;
    let again = buy_with(&app, &buyer, voucher, &early["id"], &json!(nonce_of(&early))).await;
    assert_eq!(again.code(), "CAPTCHA_REQUIRED");
    let asked = again.json()["data"].clone();
    app.admitted(&buy_with(&app, &buyer, voucher, &asked["id"], &json!(nonce_of(&asked))).await);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_without_a_captcha_asks_redis_nothing_more() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(5).await, app.buyer().await);
    app.admitted(&app.buy(&buyer, voucher).await);
    app.settled().await;
    let stats: String = app.ask("INFO commandstats").await;
    assert!(!stats.contains("cmdstat_getdel"), "{stats}");
    // An answer that nobody asked for does no harm.
    let body = json!({"captcha": {"id": "x", "answer": "1"}});
    let answer = app.http.json(Some(&buyer.token), &format!("/api/voucher-order/seckill/{voucher}"), &body).await;
    assert_eq!(answer.code(), "DUPLICATE");
    assert!(!app.ask::<String>("INFO commandstats").await.contains("cmdstat_getdel"));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_switches_it_by_api_and_by_form() {
    let app = TestApp::start().await;
    let admin = app.admin().await;
    let mut body = json!({"shopId": app.shop, "title": "x", "payValue": 1, "actualValue": 2, "stock": 1,
        "beginTime": "2020-01-01T00:00:00Z", "endTime": "2020-12-31T00:00:00Z", "captcha": true});
    let far = Millis(app.clock.now().0 + 3_600_000).rfc3339();
    body["beginTime"] = json!(Millis(app.clock.now().0 - 1_000).rfc3339());
    body["endTime"] = json!(far);
    let id = app.http.json(Some(&admin.token), "/api/voucher/seckill", &body).await.data().as_i64().unwrap();
    assert!(app.app.services.store.sale(VoucherId(id)).await.unwrap().unwrap().captcha);
    body["captcha"] = json!("yes");
    let bad = app.http.json(Some(&admin.token), "/api/voucher/seckill", &body).await;
    assert_eq!(bad.status, 400, "{}", bad.text());
    let cookie = format!("seckill_session={}", admin.token);
    let form = |more: &str| {
        format!(
            "shopId={}&title=x&payValue=1&actualValue=2&stock=1&beginTime=2026-01-01T00:00&endTime={}&formId={}{more}",
            app.shop,
            &Millis(app.clock.now().0 + 86_400_000).rfc3339()[..16],
            more.len()
        )
    };
    for (more, on) in [("&captcha=true", true), ("&captcha=on", true), ("", false)] {
        let made = app.http.form(Some(&cookie), "/admin/vouchers/new", &form(more)).await;
        assert_eq!(made.status, 303, "{}", made.text());
        let id: i64 = made.header("location").rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(app.app.services.store.sale(VoucherId(id)).await.unwrap().unwrap().captcha, on, "{more}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_the_answer_is_busy() {
    let redis = crate::support::redis::TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    let asked = challenge(&app, &buyer, voucher).await;
    redis.freeze();
    let bare = app.buy(&buyer, voucher).await;
    let with = buy_with(&app, &buyer, voucher, &asked["id"], &json!(sum_of(&asked))).await;
    let ahead = app.http.get_as(&buyer.token, &format!("/api/captcha/{voucher}")).await;
    for answer in [bare, with, ahead] {
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (503, "BUSY"));
    }
    redis.thaw();
    let asked = crate::support::until("redis is back", Duration::from_secs(10), async || {
        app.http.get_as(&buyer.token, &format!("/api/captcha/{voucher}")).await.status == 200
    });
    asked.await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_without_script_asks_the_sum_in_both_languages() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    for (lang, label) in [("zh-CN", "算一算"), ("en", "Work it out")] {
        let cookie = format!("seckill_session={}; lang={lang}", buyer.token);
        let page = app.http.form(Some(&cookie), &format!("/vouchers/{voucher}/buy"), "").await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains(label) && page.text().contains("role=\"alert\""), "{}", page.text());
        let wrong = app.http.form(Some(&cookie), &format!("/vouchers/{voucher}/buy"), "captchaId=x&captchaAnswer=1").await;
        assert!(wrong.status == 200 && wrong.text().contains(label), "{}", wrong.text());
    }
    app.finish().await;
}

async fn a_buyer_gets_through_it(script: Script) {
    let app = TestApp::start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    let browser = Browser::open(&app.base, script).await;
    browser.become_user(&buyer).await;
    if script == Script::On {
        browser.before_each_page("window.workers = 0; const W = Worker; window.Worker = class extends W { constructor(...a) { window.workers++; sessionStorage.workers = window.workers; super(...a); } }").await;
    }
    browser.go(&format!("/shop/{}", app.shop)).await;
    let button = format!("[data-voucher='{voucher}'] button[data-action='buy']");
    browser.click(&button).await;
    if script == Script::Off {
        let label = browser.text(&format!("label[for='captcha{voucher}']")).await;
        let question = label.split('：').nth(1).unwrap().trim().to_owned();
        let sum = sum_of(&json!({ "question": question }));
        browser.fill("input[name='captchaAnswer']", &sum).await;
        browser.click(&button).await;
    }
    browser.find("div[data-order][data-status='PENDING']").await;
    if script == Script::On {
        assert_eq!(browser.js("sessionStorage.workers").await, json!("1"), "a worker solved it");
    }
    browser.quiet().await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_gets_through_it_with_script() {
    a_buyer_gets_through_it(Script::On).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buyer_gets_through_it_without_script() {
    a_buyer_gets_through_it(Script::Off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_page_has_no_crypto_the_script_asks_the_sum() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    let browser = Browser::open(&app.base, Script::On).await;
    browser.become_user(&buyer).await;
    // What a plain-HTTP address that is not this machine looks like to a page.
    browser.before_each_page("Object.defineProperty(crypto, 'subtle', { value: undefined })").await;
    browser.go(&format!("/shop/{}", app.shop)).await;
    let button = format!("[data-voucher='{voucher}'] button[data-action='buy']");
    browser.click(&button).await;
    browser.says("[role='alert']", "真人").await;
    let first = browser.text(&format!("label[for='captcha{voucher}']")).await;
    browser.fill("input[name='captchaAnswer']", "1").await;
    browser.click(&button).await;
    let label = browser
        .wait("another sum is asked", async || {
            Some(browser.text(&format!("label[for='captcha{voucher}']")).await).filter(|l| l.contains('=') && *l != first)
        })
        .await;
    let sum = sum_of(&json!({ "question": label.split('：').nth(1).unwrap().trim() }));
    browser.fill("input[name='captchaAnswer']", &sum).await;
    browser.click(&button).await;
    browser.find("div[data-order][data-status='PENDING']").await;
    browser.close().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_of_such_a_sale_says_that_it_cannot() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    let file = app.data_dir().join("tokens");
    std::fs::write(&file, format!("{} 19700000000 {}\n", buyer.id, buyer.token)).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_seckill"));
    command.args(["load", "--voucher", &voucher.to_string(), "--url", &app.base, "--buyers", "1"]);
    command.args(["--tokens", file.to_str().unwrap()]).args(app.data_options());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("asks for a captcha"), "{said}");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_for_challenges_has_a_bucket_of_its_own() {
    let app = TestApp::with("--rate-limit", "1/5").start().await;
    let (voucher, buyer) = (open_sale(&app, 5).await, app.buyer().await);
    let mut last = Value::Null;
    for _ in 0..5 {
        last = challenge(&app, &buyer, voucher).await;
    }
    let refused = app.http.send(Method::GET, &format!("/api/captcha/{voucher}"), &[("authorization", &buyer.token)], "").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, "1"));
    app.admitted(&buy_with(&app, &buyer, voucher, &last["id"], &json!(sum_of(&last))).await);
    app.finish().await;
}
