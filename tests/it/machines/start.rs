//! A start with a Redis or a database that cannot be used: waited for, or refused in one sentence.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::Method;
use seckill::redis::Redis;

use crate::support::app::short_dir;
use crate::support::http::Http;
use crate::support::process::{Process, command, run};
use crate::support::servers::{Servers, ports};
use crate::support::until;

/// Starts `serve` with one option more: exit code and what it said.
async fn start_with(option: &str, value: &str) -> (i32, String) {
    let dir = short_dir();
    let data = dir.path().join("d");
    let (code, out, err) =
        run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), option, value], "").await;
    assert_eq!(out, "", "nothing listens");
    (code, err)
}

async fn awake(server: &Servers) {
    until("a server answers", Duration::from_secs(10), async || {
        let address = format!("127.0.0.1:{}", server.all[0].port);
        tokio::net::TcpStream::connect(address).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_password_that_is_missing_or_wrong_is_one_sentence_that_does_not_repeat_it() {
    let server = Servers::one("--requirepass open-sesame");
    awake(&server).await;
    let port = server.all[0].port;
    let (code, said) = start_with("--redis-url", &server.url).await;
    assert!(code == 1 && said.contains("it wants a password"), "{code} {said}");
    let (code, said) = start_with("--redis-url", &format!("redis://:hunter2@127.0.0.1:{port}")).await;
    assert!(code == 1 && said.contains("it refuses the user or password") && !said.contains("hunter2"), "{code} {said}");
    Redis::open(&format!("redis://:open-sesame@127.0.0.1:{port}")).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_replica_and_a_server_that_is_away_are_refused_after_a_short_wait() {
    let server = Servers::one("--replicaof 127.0.0.1 1");
    awake(&server).await;
    let away = "127.0.0.1:1";
    let (single, cluster) = (format!("redis://{away}"), format!("redis+cluster://{away}"));
    let (sentinel, database) = (format!("redis+sentinel://{away}/shop"), format!("postgres://nobody@{away}/none"));
    let cases = [
        ("--redis-url", server.url.as_str(), "is a replica and takes no writes"),
        ("--redis-url", &single, "Redis does not answer"),
        ("--redis-url", &cluster, "Redis does not answer"),
        ("--redis-url", &sentinel, "Redis does not answer"),
        ("--database-url", &database, "cannot open the database"),
    ];
    let said = join_all(cases.map(|(option, value, _)| start_with(option, value))).await;
    for ((option, value, words), (code, said)) in cases.iter().zip(said) {
        let lines = said.lines().filter(|line| line.starts_with("error: ")).count();
        assert!(code == 1 && said.contains(words) && lines == 1, "{option} {value}: {code} {said}");
    }
}

#[tokio::test]
async fn a_cluster_and_a_single_server_are_not_taken_for_each_other() {
    let (node, single) = (Servers::one("--cluster-enabled yes"), Servers::one("--save 3600 1000000"));
    awake(&node).await;
    awake(&single).await;
    let (code, said) = start_with("--redis-url", &node.url).await;
    assert!(code == 2 && said.contains("redis+cluster://"), "{code} {said}");
    let (code, said) = start_with("--redis-url", &single.url.replace("redis://", "redis+cluster://")).await;
    assert!(code == 2 && said.contains("no node of a Cluster"), "{code} {said}");
}

#[tokio::test]
async fn a_server_that_reads_its_data_is_waited_for_however_long_it_takes() {
    let mut server =
        Servers::one("--save 3600 100000000 --enable-debug-command local --loading-process-events-interval-bytes 1024");
    awake(&server).await;
    server.all[0].ask::<String>("DEBUG POPULATE 8000 key 100").await.unwrap();
    server.all[0].ask::<String>("SAVE").await.unwrap();
    server.kill(0);
    // A millisecond for each key: longer than a server that says nothing is waited for.
    server.slow_start(0, "--key-load-delay 1000");
    awake(&server).await;
    let (started, dir, port) = (Instant::now(), short_dir(), ports(1)[0]);
    let (listen, data) = (format!("127.0.0.1:{port}"), dir.path().join("d").display().to_string());
    let serve = ["serve", "--listen", &listen, "--data-dir", &data, "--redis-url", &server.url];
    let starting = async { (Process::start(command(&serve).await).await, started.elapsed()) };
    let http = Http::new(&format!("http://{listen}"));
    let watching = async {
        until("the port answers", Duration::from_secs(6), async || http.try_send(Method::GET, "/healthz", &[], "").await.is_ok())
            .await;
        let (lives, ready) = (http.get("/healthz").await, http.get("/readyz").await);
        assert_eq!((lives.status.as_u16(), ready.status.as_u16()), (200, 503));
        assert_eq!(ready.json()["ready"], false, "{}", ready.text());
        let bought = http.post_as("nobody", "/api/voucher-order/seckill/1").await;
        assert_eq!((bought.status.as_u16(), bought.code().as_str(), bought.header("retry-after")), (503, "BUSY", "3"));
        let page = http.page(None, "/?lang=en").await;
        assert_eq!((page.status.as_u16(), page.text().as_str()), (503, "Very busy, please try again"));
        assert!(started.elapsed() < Duration::from_secs(7), "all this while it reads: {:?}", started.elapsed());
    };
    let ((mut process, took), ()) = tokio::join!(starting, watching);
    assert!(took > Duration::from_millis(5500), "it was still reading: {took:?}");
    // The same connection's port, the whole shop.
    assert_eq!(http.get("/readyz").await.status, 200);
    assert_eq!(http.page(None, "/").await.status, 200);
    assert_eq!(process.terminate().await, 0);
}
