//! Request ids and lines of the log: whose each line is, and what never stands in one.

use std::process::Stdio;

use http::Method;
use serde_json::{Value, json};

use crate::support::app::short_dir;
use crate::support::process::{Process, command};

#[tokio::test(flavor = "multi_thread")]
async fn a_line_names_its_request_and_no_secret_is_ever_written() {
    let dir = short_dir();
    let log = dir.path().join("log");
    let data = dir.path().join("d");
    let mut command =
        command(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--data-dir", data.to_str().unwrap()]).await;
    command.env("RUST_LOG", "debug").stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
    let mut server = Process::start_quietly(command).await;
    let (phone, password) = ("13987654321", "korrekt pferd batterie");
    let body = json!({"phone": phone, "password": password, "nickName": "geheimer Name"}).to_string();
    let headers = [("content-type", "application/json"), ("x-request-id", "from-a-proxy-7")];
    let made = server.http.send(Method::POST, "/api/user/register", &headers, body).await;
    assert_eq!(made.header("x-request-id"), "from-a-proxy-7", "a sane one is kept");
    let (token, cookie) = (made.data().as_str().unwrap().to_owned(), made.cookie().unwrap());
    let too_long = "x".repeat(65);
    for bad in ["two words", "a<b>", too_long.as_str(), "\"q\""] {
        let answer = server.http.send(Method::GET, "/", &[("x-request-id", bad), ("cookie", &cookie)], "").await;
        let made = answer.header("x-request-id").to_owned();
        assert!(made != bad && made.len() == 16, "{bad}: {made}");
    }
    server.http.send(Method::POST, &format!("/api/user/code?phone={phone}"), &[], "").await;
    server.http.get("/api/voucher-order/700000000000?ticket=secret-ticket-words").await;
    let notice = [("x-request-id", "notice-1"), ("webhook-signature", "v1,c2VjcmV0LXNpZ25hdHVyZQ==")];
    server.http.send(Method::POST, "/api/payment/callback", &notice, "{\"body\":\"secret-body\"}").await;
    assert_eq!(server.http.get_as(&token, "/api/user/me").await.status, 200);
    assert_eq!(server.terminate().await, 0);

    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
    let of = |id: &str| lines.iter().filter(|l| l["span"]["id"] == id).collect::<Vec<_>>();
    assert!(of("from-a-proxy-7").iter().any(|l| l["message"] == "answered" && l["status"] == 200), "{text}");
    let warned = of("notice-1");
    assert!(warned.iter().any(|l| l["level"] == "WARN"), "what goes wrong names its request too: {warned:?}");
    let cookie_value = cookie.split_once('=').unwrap().1;
    for secret in [phone, password, token.as_str(), cookie_value, "geheimer", "secret-ticket", "secret-body", "c2VjcmV0"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_for_people_when_asked_so() {
    let dir = short_dir();
    let log = dir.path().join("log");
    let data = dir.path().join("d");
    let mut command =
        command(&["serve", "--listen", "127.0.0.1:0", "--log-format", "human", "--data-dir", data.to_str().unwrap()]).await;
    command.stderr(Stdio::from(std::fs::File::create(&log).unwrap()));
    let mut server = Process::start_quietly(command).await;
    assert_eq!(server.terminate().await, 0);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("INFO") && !text.contains('{') && !text.contains('\u{1b}'), "{text}");
}
