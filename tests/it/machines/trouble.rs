//! A primary that takes no writes for a while, and one that dies after its replica was cut off.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seckill::shutdown::Shutdown;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::app::{On, TestApp};
use crate::support::redis::TestRedis;
use crate::support::servers::Servers;
use crate::support::until;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_becomes_read_only_is_said_to_be_busy_and_used_again_without_a_restart() {
    let redis = TestRedis::start().await;
    let app = TestApp::with("--redis-url", &redis.url()).start().await;
    let (voucher, buyers) = (app.sale(10).await, app.buyers(4).await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    app.settled().await;

    redis.ask::<String>("REPLICAOF 127.0.0.1 1").await;
    for _ in 0..3 {
        let bought = app.buy(&buyers[1], voucher).await;
        assert!(["BUSY", "UNCERTAIN"].contains(&bought.code().as_str()) && bought.status == 503, "{}", bought.text());
        assert!(!bought.header("retry-after").is_empty());
    }
    // The books can be written: the cancel counts, its unit waits in the outbox.
    let cancelled = app.http.post_as(&buyers[0].token, &format!("/api/voucher-order/{id}/cancel")).await;
    assert_eq!(cancelled.data()["status"], "CANCELLED");
    let login = json!({"phone": "13900000001", "password": "korrekt pferd"});
    let login = app.http.json(None, "/api/user/login", &login).await;
    assert!(login.status == 503 || login.code() == "BAD_CREDENTIALS", "{}", login.text());
    assert_eq!(app.http.page(None, "/").await.status, 200, "pages stay up");
    assert_eq!(redis.ask::<String>(&format!("GET seckill:{{0}}:stock:{voucher}")).await, "9", "nothing was taken, nothing given");

    redis.ask::<String>("REPLICAOF NO ONE").await;
    until("it sells again", SOON, async || app.buy(&buyers[1], voucher).await.status == 200).await;
    app.settled().await;
    assert_eq!(redis.ask::<String>(&format!("GET seckill:{{0}}:stock:{voucher}")).await, "9", "one back, one sold");
    app.admitted(&app.buy_for_sure(&buyers[0], voucher).await);
    app.finish().await;
}

/// A way to `target` that can be cut: what is under way is lost, and nothing comes through any more.
async fn way_to(target: u16, cut: Arc<AtomicBool>, tasks: &Shutdown) -> u16 {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let inner = tasks.clone();
    tasks.spawn(async move {
        loop {
            let Ok((mut near, _)) = (tokio::select! {
                accepted = listener.accept() => accepted,
                () = inner.begun() => return,
            }) else {
                continue;
            };
            if cut.load(Ordering::SeqCst) {
                continue;
            }
            let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else { continue };
            let cut = cut.clone();
            inner.spawn(async move {
                let gone = async {
                    while !cut.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    () = gone => {}
                }
            });
        }
    });
    port
}

/// Sells before and after the replica's link is cut, lets the primary die and the replica take over; of those who heard
/// "yes" after the cut: how many there were, and how many of all who heard it lost their place.
async fn cut_off_and_dead(wait: &str) -> (usize, usize) {
    let (tasks, cut) = (Shutdown::default(), Arc::new(AtomicBool::new(false)));
    let mut primary = Servers::one("--save 3600 100000000 --repl-diskless-sync-delay 0 --repl-ping-replica-period 1");
    let port = way_to(primary.all[0].port, cut.clone(), &tasks).await;
    let replica = Servers::one(&format!("--replicaof 127.0.0.1 {port} --save 3600 100000000"));
    until("the replica follows", SOON, async || {
        let info = primary.all[0].ask::<String>("INFO replication").await;
        info.is_some_and(|info| info.contains("state=online"))
    })
    .await;
    // Nobody saves orders: what was admitted is in Redis alone.
    let app = TestApp::on(On::Postgres)
        .with("--redis-url", &primary.url)
        .with("--redis-wait-replicas", wait)
        .with("--roles", "web")
        .start()
        .await;
    let (voucher, buyers) = (app.sale(100).await, app.buyers(30).await);
    let mut told: Vec<Value> = Vec::new();
    let mut late = 0;
    for (n, buyer) in buyers.iter().enumerate() {
        if n == 20 {
            // Until the primary has noticed too: what was under way is lost.
            until("what was told is with the replica", SOON, async || {
                let holders = format!("HLEN seckill:{{0}}:order:{voucher}");
                replica.all[0].ask::<i64>(&holders).await == Some(20)
            })
            .await;
            cut.store(true, Ordering::SeqCst);
            until("the link is gone", SOON, async || {
                let info = primary.all[0].ask::<String>("INFO replication").await;
                info.is_some_and(|info| info.contains("connected_slaves:0"))
            })
            .await;
        }
        let answer = app.buy(buyer, voucher).await.json();
        if answer["success"] == true {
            late += usize::from(n >= 20);
            told.push(answer);
        } else {
            assert_eq!(answer["code"], "UNCERTAIN", "{answer}");
        }
    }
    primary.kill(0);
    replica.all[0].ask::<String>("REPLICAOF NO ONE").await.unwrap();
    let new = app.beside(&["--redis-url", &replica.url]).await;
    until("the gate fits", SOON, async || new.http.get("/readyz").await.status == 200).await;
    new.settled().await;
    let mut lost = 0;
    for answer in &told {
        let path =
            format!("/api/voucher-order/{}?ticket={}", answer["data"].as_str().unwrap(), answer["ticket"].as_str().unwrap());
        let order = new.http.get(&path).await.data();
        lost += usize::from(order["closeReason"] == "LOST");
        assert!(order["status"] == "PENDING" || order["closeReason"] == "LOST", "{order}");
    }
    app.abandon("its Redis is dead").await;
    new.finish().await;
    tasks.begin();
    (late, lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_link_and_a_dead_primary_a_yes_that_waited_for_the_replica_holds_and_one_that_did_not_is_lost() {
    assert_eq!(cut_off_and_dead("0").await, (10, 10), "the control: ten were told yes, and lost it");
    assert_eq!(cut_off_and_dead("1").await, (0, 0), "nobody was told a yes that did not hold");
}
