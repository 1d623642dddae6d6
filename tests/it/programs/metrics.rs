//! `/metrics`: who may see it and where, what it shows, and that the documents list exactly that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use seckill::telemetry::{CATALOGUE, Kind};

use crate::support::app::TestApp;
use crate::support::http::Http;
use crate::support::shop::Shop;
use crate::support::until;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The names in the figures' table of the operator's guide.
pub fn documented() -> BTreeSet<String> {
    let guide = read("docs/OPERATIONS.md");
    let table = guide.split("| figure | kind |").nth(1).unwrap().split("\n\n").next().unwrap();
    let first_cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    first_cells.flat_map(|cell| cell.split(',').map(|name| name.trim_matches([' ', '`']).to_owned())).collect()
}

/// The names that an answer of `/metrics` shows, without what a histogram hangs on them.
fn shown(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned)).collect()
}

/// The value of one line, as it is written.
fn value<'a>(text: &'a str, line: &str) -> &'a str {
    let rest = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(' '));
    rest.unwrap_or_else(|| panic!("no line {line} in\n{text}"))
}

fn number(text: &str, line: &str) -> f64 {
    value(text, line).parse().unwrap()
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn the_figures_in_the_guide_are_those_of_the_catalogue() {
    let catalogue: BTreeSet<String> = CATALOGUE.iter().map(|m| m.name.to_owned()).collect();
    assert_eq!(documented(), catalogue);
    for meter in CATALOGUE {
        assert!(meter.help.ends_with('.') && meter.help.len() > 10, "{}", meter.name);
        assert_eq!(meter.kind == Kind::Counter, meter.name.ends_with("_total"), "{}: a counter is named so", meter.name);
    }
}

#[test]
fn every_figure_that_the_program_names_is_in_the_catalogue() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut named = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for macro_name in ["counter!(\"", "gauge!(\"", "histogram!(\""] {
            for (at, _) in text.match_indices(macro_name) {
                let name = text[at + macro_name.len()..].split('"').next().unwrap();
                assert!(CATALOGUE.iter().any(|m| m.name == name), "{}: {name} is not in the catalogue", file.display());
                named += 1;
            }
        }
    }
    assert!(named > 15, "only {named} figures were found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_through_the_shop_shows_in_the_figures_and_every_one_is_documented() {
    let mut shop = Shop::new().await;
    let mut server = shop.serve(&[]).await;
    shop.seed(3).await;
    let voucher = shop.sale(&server.http, 1).await;
    let mut created = String::new();
    for token in &shop.buyers {
        let answer = server.http.post_as(token, &format!("/api/voucher-order/seckill/{voucher}")).await.json();
        if answer["success"] == true {
            created = answer["data"].as_str().unwrap().to_owned();
        }
    }
    let buyer = shop.buyers[0].clone();
    until("the order is saved", Duration::from_secs(15), async || {
        let order = server.http.get_as(&buyer, &format!("/api/voucher-order/{created}")).await;
        order.status == 200 && order.data()["status"] == "PENDING"
    })
    .await;
    server.http.json(None, "/api/payment/callback", &serde_json::json!({})).await;
    for path in ["/made-up", "/made-up-too", "/wp-login.php"] {
        assert_eq!(server.http.get(path).await.status, 404);
    }
    server.http.send(Method::from_bytes(b"BREW").unwrap(), "/", &[], "").await;

    let answer = server.http.get("/metrics").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    assert_eq!(shown(&text), documented(), "what is shown, and what the guide lists");
    for name in shown(&text) {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} says what it is");
    }
    assert_eq!(value(&text, r#"seckill_admissions_total{outcome="admitted"}"#), "1");
    assert_eq!(value(&text, r#"seckill_admissions_total{outcome="sold_out"}"#), "2");
    assert_eq!(value(&text, "seckill_orders_saved_total"), "1");
    assert_eq!(value(&text, r#"seckill_stream_length{lane="0"}"#), "0");
    assert_eq!(value(&text, r#"seckill_outbox_open{kind="refund"}"#), "0");
    assert_eq!((value(&text, "seckill_redis_up"), value(&text, "seckill_database_up")), ("1", "1"));
    assert!(number(&text, "process_resident_memory_bytes") > 1e6 && number(&text, "process_start_time_seconds") > 1.7e9);
    let hot = r#"http_server_request_duration_seconds_count{method="POST",route="/api/voucher-order/seckill/{voucherId}",status="200"}"#;
    assert_eq!(value(&text, hot), "3");
    // Paths that nobody has are one route, methods that nobody knows are one method.
    assert!(!text.contains("made-up") && !text.contains("wp-login") && !text.contains("BREW"), "{text}");
    let scanned = r#"http_server_request_duration_seconds_count{method="GET",route="none",status="404"}"#;
    assert_eq!(value(&text, scanned), "3");

    let held = rustix::process::Pid::from_raw(redis_of(&shop)).unwrap();
    rustix::process::kill_process(held, rustix::process::Signal::STOP).unwrap();
    // One look serves every scraper for half a second.
    until("it is seen to be away", Duration::from_secs(10), async || {
        let text = server.http.get("/metrics").await.text();
        value(&text, "seckill_redis_up") == "0" && value(&text, "seckill_database_up") == "1"
    })
    .await;
    rustix::process::kill_process(held, rustix::process::Signal::CONT).unwrap();
    until("it is back", Duration::from_secs(10), async || {
        value(&server.http.get("/metrics").await.text(), "seckill_redis_up") == "1"
    })
    .await;
    assert_eq!(server.terminate().await, 0);
}

/// The id of the Redis of this shop, by its own word.
fn redis_of(shop: &Shop) -> i32 {
    use std::io::{Read, Write};
    let mut socket = std::os::unix::net::UnixStream::connect(shop.redis_url().trim_start_matches("unix://")).unwrap();
    socket.write_all(b"INFO server\r\nQUIT\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text.lines().find_map(|l| l.strip_prefix("process_id:")).unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_figures_are_for_this_machine_unless_they_have_a_listener_of_their_own() {
    let app = TestApp::with("--trusted-proxies", "127.0.0.0/8").start().await;
    let from =
        async |client: &'static str| app.http.send(Method::GET, "/metrics", &[("x-forwarded-for", client)], "").await.status;
    assert_eq!((app.http.get("/metrics").await.status.as_u16(), from("127.0.0.9").await.as_u16()), (200, 200));
    assert_eq!((from("203.0.113.9").await.as_u16(), from("10.0.0.1").await.as_u16()), (404, 404));
    app.finish().await;

    let app = TestApp::with("--metrics-listen", "127.0.0.1:0").start().await;
    assert_eq!(app.http.get("/metrics").await.status, 404, "only there");
    let own = Http::new(&format!("http://{}", app.app.metrics_address.unwrap()));
    let answer = own.send(Method::GET, "/metrics", &[("x-forwarded-for", "203.0.113.9")], "").await;
    assert!(answer.status == 200 && answer.text().contains("# TYPE seckill_orders_saved_total counter"));
    assert_eq!((own.get("/healthz").await.status.as_u16(), own.get("/readyz").await.status.as_u16()), (200, 200));
    for path in ["/", "/login", "/api/shop/1", "/admin"] {
        assert_eq!(own.get(path).await.status, 404, "{path}");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_alone_answers_for_its_health_and_figures_and_for_nothing_else() {
    let app = TestApp::with("--roles", "worker").start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(app.http.get(path).await.status, 200, "{path}");
    }
    for path in ["/", "/login", "/orders", "/admin", "/api/shop/1", "/api/user/me", "/ws", "/static/app.css", "/docs"] {
        assert_eq!(app.http.get(path).await.status, 404, "{path}");
    }
    app.finish().await;
}
