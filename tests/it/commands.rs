//! The verbs of the one binary, as an operator types them: what they print and how they end.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::app::{TestApp, short_dir};
use crate::support::process::{BINARY, Process, run};
use crate::support::shop::Shop;

async fn login(server: &Process, line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let body = json!({"phone": words[2], "password": words[3]});
    let answer = server.http.json(None, "/api/user/login", &body).await.json();
    answer["data"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_gives_new_passwords_at_every_start_and_ends_the_sessions_of_the_last() {
    let dir = short_dir();
    let mut first = Process::serve(dir.path(), &["--demo"]).await;
    let roles: Vec<&str> = first.printed.iter().map(|l| l.split(' ').nth(1).unwrap()).collect();
    assert_eq!(roles, ["buyer", "admin"], "{:?}", first.printed);
    let token = login(&first, &first.printed[0]).await.unwrap();
    let admin = login(&first, &first.printed[1]).await.unwrap();
    assert_eq!(first.http.get_as(&admin, "/api/user/me").await.data()["admin"], true);
    let listed = first.http.get("/api/voucher/list/1").await.data();
    let kinds: Vec<i64> = listed.as_array().unwrap().iter().map(|v| v["type"].as_i64().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|t| **t == 1).count(), 3, "three sales");
    assert_eq!(kinds.iter().filter(|t| **t == 0).count(), 1, "and a plain voucher");
    let on = listed.as_array().unwrap().iter().find(|v| v["stock"] == 100).unwrap()["id"].clone();
    let bought = first.http.post_as(&token, &format!("/api/voucher-order/seckill/{on}")).await;
    assert_eq!(bought.json()["success"], true, "{}", bought.text());
    let old = first.printed.clone();
    assert_eq!(first.terminate().await, 0);

    let mut second = Process::serve(dir.path(), &["--demo"]).await;
    assert!(old.iter().all(|line| !second.printed.contains(line)), "new passwords");
    assert_eq!(login(&second, &old[0]).await, None, "the old one is worth nothing");
    assert_eq!(second.http.get_as(&token, "/api/user/me").await.status, 401, "the old session is over");
    let again = second.http.get("/api/voucher/list/1").await.data();
    assert_eq!(again.as_array().unwrap().len(), 4, "a sale is on: no new ones");
    assert_eq!(second.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_in_one_sentence() {
    let dir = short_dir();
    let data = dir.path().to_str().unwrap();
    for (arguments, code, word) in [
        (vec!["serve", "--demo", "--listen", "0.0.0.0:0", "--data-dir", data], 2, "loopback"),
        (vec!["serve", "--lanes", "0"], 2, "lanes"),
        (vec!["serve", "--pay-window", "15"], 2, "15m"),
        (vec!["serve", "--nonsense"], 2, "--nonsense"),
        (vec!["serve", "--backlog", "x"], 2, "whole number"),
        (vec!["serve", "--backlog", "0"], 2, "from 1 to"),
        (vec!["serve", "--listen", "x"], 2, "127.0.0.1:8080"),
        (vec!["serve", "--trusted-proxies", "x"], 2, "10.0.0.0/8"),
        (vec!["user", "add", "--phone", "12", "--data-dir", data], 1, "11 digits"),
        (vec!["load", "--voucher", "1", "--url", "http://127.0.0.1:1"], 2, "tokens"),
        (vec!["audit", "--data-dir", data], 2, "could not look"),
    ] {
        let (got, out, err) = run(&arguments, "korrekt pferd\n").await;
        assert_eq!(got, code, "{arguments:?}: {out}{err}");
        assert!(err.contains(word) && err.trim().lines().count() == 1, "{arguments:?}: {err}");
        assert_eq!(out, "", "{arguments:?}");
    }
    let add = ["user", "add", "--phone", "13900000001", "--data-dir", data];
    let (code, out, _) = run(&add, "korrekt pferd\n").await;
    assert_eq!((code, out.as_str()), (0, "user 1\n"));
    let (code, _, err) = run(&add, "korrekt pferd\n").await;
    assert_eq!(code, 1, "a phone is taken once");
    assert!(err.contains("taken"), "{err}");
    let (code, _, err) = run(&["user", "add", "--phone", "13900000002", "--data-dir", data], "password\n").await;
    assert_eq!(code, 1, "{err}");
    let (code, _, err) = run(&["migrate", "--lanes", "2", "--data-dir", data], "").await;
    assert_eq!(code, 1);
    assert!(err.contains("--lanes 1"), "{err}");
    let (code, _, err) = run(&["serve", "--demo", "--listen", "127.0.0.1:0", "--data-dir", data], "").await;
    assert_eq!(code, 2, "the demo is for an empty shop: {err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_test_of_the_real_thing_ends_with_figures_and_a_passed_audit() {
    let mut shop = Shop::new().await;
    let mut server = shop.serve(&[]).await;
    shop.seed(300).await;
    let voucher = shop.sale(&server.http, 200).await.to_string();
    let tokens = shop.tokens_file();
    let arguments = [
        "load",
        "--voucher",
        &voucher,
        "--url",
        &server.base,
        "--tokens",
        tokens.to_str().unwrap(),
        "--connections",
        "16",
        "--push",
        "50",
        "--json",
    ];
    let (code, out, err) = shop.run(&arguments, "").await;
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&report["decisions"], &report["accepted"], &report["saved"]),
        (&300.into(), &200.into(), &200.into()),
        "{report}"
    );
    assert_eq!(report["auditOk"], true);
    for figure in ["decisionsPerSecond", "savedPerSecond", "p50Ms", "p99Ms", "pushP99Ms"] {
        assert!(report[figure].as_f64().is_some_and(|n| n > 0.0), "{figure} in {report}");
    }
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_every_message_as_one_line_of_json() {
    let app = TestApp::start().await;
    let (voucher, buyer) = (app.sale(1).await, app.buyer().await);
    let mut child = Command::new(BINARY)
        .args(["watch", "--token", &buyer.token, "--url", &app.base])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(15), lines.next_line()).await.unwrap().unwrap().unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(next().await["type"], "snapshot");
    let id = app.admitted(&app.buy(&buyer, voucher).await);
    loop {
        let message = next().await;
        if message["type"] == "order.created" {
            assert_eq!(message["order"]["id"], id.to_string());
            break;
        }
    }
    child.kill().await.unwrap();
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_finds_its_gates_again_and_a_winner_his_order() {
    let app = TestApp::start().await;
    let (voucher, buyers) = (app.sale(2).await, app.buyers(3).await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;
    let app = app.restart().await;
    let again = app.buy(&buyers[0], voucher).await;
    assert_eq!((again.code().as_str(), &again.json()["data"]), ("DUPLICATE", &Value::from(id.to_string())));
    app.admitted(&app.buy(&buyers[1], voucher).await);
    assert_eq!(app.buy(&buyers[2], voucher).await.code(), "SOLD_OUT");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_comes_within_ten_seconds_and_answers_who_was_already_in() {
    let mut shop = Shop::new().await;
    let mut server = shop.serve(&[]).await;
    shop.seed(400).await;
    let voucher = shop.sale(&server.http, 400).await;
    let told = Arc::default();
    let http = server.http.clone();
    let clicks = shop.click(&http, voucher, 0, 400, 16, Arc::clone(&told));
    let ending = async {
        while told.load(std::sync::atomic::Ordering::Relaxed) < 100 {
            tokio::task::yield_now().await;
        }
        let begun = std::time::Instant::now();
        (server.terminate().await, begun.elapsed())
    };
    let ((heard, _), (code, took)) = tokio::join!(clicks, ending);
    assert_eq!(code, 0);
    assert!(took < Duration::from_secs(10), "{took:?}");
    let mut server = shop.serve(&[]).await;
    assert!(shop.verdicts(&server.http, &heard).await.iter().all(|v| v == "PENDING"));
    shop.audited().await;
    assert_eq!(server.terminate().await, 0);
}

#[tokio::test]
async fn an_address_that_cannot_work_is_a_wrong_option_and_the_books_are_private_in_an_open_folder() {
    use std::os::unix::fs::PermissionsExt;
    let dir = short_dir();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let data = dir.path().to_str().unwrap();
    for (option, address) in
        [("--redis-url", "http://127.0.0.1"), ("--redis-url", "nonsense"), ("--database-url", "mysql://127.0.0.1/shop")]
    {
        let (code, _, err) = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data, option, address], "").await;
        assert_eq!((code, err.trim().lines().count()), (2, 1), "{option} {address}: {err}");
    }
    let (code, _, err) = run(&["user", "add", "--phone", "13900000001", "--data-dir", data], "korrekt pferd").await;
    assert_eq!(code, 0, "{err}");
    for file in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap).filter(|f| f.file_type().unwrap().is_file()) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}
