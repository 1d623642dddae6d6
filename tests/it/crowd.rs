//! Many sockets: cut at random and back again, idle by the thousand, told all at once.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a crowd is tasks of its own, and its figures are for whoever reads the run"
)]

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::support::long;
use crate::support::shop::Shop;
use crate::support::socket::Socket;
use crate::support::tab::Tab;

#[tokio::test(flavor = "multi_thread")]
async fn clients_whose_connections_are_cut_at_random_all_end_in_the_right_state() {
    let (clients, away_ms) = if long() { (2_000, 1_000..60_000) } else { (200, 100..3_000) };
    let mut shop = Shop::new().await;
    let server = shop.serve(&[]).await;
    shop.seed(clients).await;
    let mut vouchers = Vec::new();
    for _ in 0..3 {
        vouchers.push(shop.sale(&server.http, i64::try_from(clients).unwrap()).await);
    }
    let longest = Duration::from_millis(away_ms.end);
    let tabs: Vec<[Tab; 2]> = shop
        .buyers
        .iter()
        .map(|token| {
            let tab = || {
                let (lives, away) = (away_ms.clone(), away_ms.clone());
                Tab::open(
                    &server.base,
                    token,
                    move || Duration::from_millis(rand::random_range(lives.clone())),
                    move || Duration::from_millis(rand::random_range(away.clone())),
                )
            };
            [tab(), tab()]
        })
        .collect();

    let last = clients * 5 / 2; // two and a half orders each
    let path = |order: usize| format!("/api/voucher-order/seckill/{}", vouchers[order / clients]);
    let all: Vec<usize> = (0..last).collect();
    let mut orders = Vec::new();
    for part in all.chunks(25) {
        let clicks = part
            .iter()
            .map(|n| async { (*n % clients, server.http.post_as(&shop.buyers[*n % clients], &path(*n)).await.data()) });
        orders.extend(join_all(clicks).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Everybody has been back once, or is connected.
    tokio::time::sleep(longest + Duration::from_secs(5)).await;

    let (mut wrong, mut delays, mut connections) = (Vec::new(), Vec::new(), 0);
    for (client, order) in &orders {
        let order = order.as_str().unwrap();
        for tab in &tabs[*client] {
            if tab.status(order).as_deref() != Some("PENDING") {
                wrong.push((order, tab.status(order)));
            }
        }
    }
    for tab in tabs.iter().flatten() {
        let mut shown = tab.shown.lock().unwrap();
        assert_eq!(shown.contradictions, Vec::<String>::new());
        delays.append(&mut shown.delays);
        connections += shown.connections;
    }
    delays.sort_unstable();
    let p99 = delays[(delays.len() - 1) * 99 / 100];
    eprintln!(
        "{clients} clients with two sockets, {} orders, {connections} connections: {} pushes heard, commit to receipt p99 {p99} ms",
        orders.len(),
        delays.len(),
    );
    assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), orders.len() * 2, &wrong[..wrong.len().min(5)]);
    assert!(p99 < 1_000, "{p99} ms");
    drop(tabs);
    shop.audited().await;
}

/// Resident bytes and CPU time of a process.
fn usage(pid: u32) -> (u64, Duration) {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let resident = statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    (resident, Duration::from_millis(ticks * 10))
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sockets_cost_little_and_hear_one_word_together() {
    let (count, idle) = if long() { (10_000, Duration::from_mins(1)) } else { (1_000, Duration::from_secs(5)) };
    let mut shop = Shop::new().await;
    let server = shop.serve(&[]).await;
    shop.seed(count + 1).await;
    let voucher = shop.sale(&server.http, 1).await;
    let pid = server.child.id().unwrap();
    let (empty, _) = usage(pid);
    let mut sockets = Vec::with_capacity(count);
    for part in shop.buyers[..count].chunks(100) {
        let opened = join_all(part.iter().map(|token| async {
            let (mut socket, _) = Socket::of(&server.base, token).await;
            socket.send(&format!(r#"{{"type":"watch","voucherId":{voucher}}}"#)).await;
            socket.wait_for("voucher.stock").await;
            socket
        }));
        sockets.extend(opened.await);
    }
    // They answer pings while they wait.
    let (go, heard) = tokio::sync::watch::channel(None::<Instant>);
    let readers: Vec<_> = sockets
        .into_iter()
        .map(|mut socket| {
            let begun = heard.clone();
            tokio::task::spawn(async move {
                while let Some(message) = socket.next_ever().await {
                    if message["type"] == "voucher.sale" && message["state"] == "soldOut" {
                        return begun.borrow().map(|at| at.elapsed());
                    }
                }
                None
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, before) = usage(pid);
    tokio::time::sleep(idle).await;
    let (resident, after) = usage(pid);
    let core = after.saturating_sub(before).as_secs_f64() / idle.as_secs_f64() * 100.0;
    go.send_replace(Some(Instant::now()));
    server.http.post_as(&shop.buyers[count], &format!("/api/voucher-order/seckill/{voucher}")).await.data();
    let told: Vec<Duration> = join_all(readers).await.into_iter().map(|r| r.unwrap().expect("cut off")).collect();
    let slowest = told.iter().max().unwrap();
    eprintln!(
        "{count} idle sockets: {} MB resident ({} MB without them), {core:.1} % of a core, sold out heard by all within {slowest:?}",
        resident >> 20,
        empty >> 20
    );
    assert_eq!(told.len(), count);
    assert!(resident < 250 << 20, "{} MB", resident >> 20);
    assert!(*slowest < Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 }), "{slowest:?}");
}
