//! Two web and two worker processes on Postgres and a Cluster: one of each is killed, a primary fails over, and the books hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::postgres::fresh_database;
use crate::support::servers::Servers;
use crate::support::shop::Shop;
use crate::support::{long, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_lose_a_web_a_worker_and_a_primary_and_every_order_has_its_verdict() {
    let units: usize = if long() { 20_000 } else { 2_000 };
    let buyers = units + units / 10;
    let (mut servers, database) = (Servers::cluster().await, fresh_database().await);
    let options = ["--redis-url", &servers.url, "--database-url", &database, "--lanes", "4"];
    let mut shop = Shop::with(&options).await;
    shop.seed(buyers).await;
    let beside = |role: &'static str| {
        let mut all = options.to_vec();
        all.extend(["--roles", role]);
        all
    };
    let web_options = beside("web");
    let worker_options = beside("worker");
    let mut worker_one = shop.serve_at("w1", &worker_options).await;
    let mut worker_two = shop.serve_at("w2", &worker_options).await;
    let mut web_one = shop.serve_at("p1", &web_options).await;
    let mut web_two = shop.serve_at("p2", &web_options).await;
    let voucher = shop.sale(&web_one.http, i64::try_from(units).unwrap()).await;
    let stream = format!("stream.orders:{{{}}}", voucher % 4);

    let told = Arc::new(AtomicUsize::new(0));
    let (one, two) = (web_one.http.clone(), web_two.http.clone());
    let left = shop.click(&one, voucher, 0, buyers / 2, 16, told.clone());
    let right = shop.click(&two, voucher, buyers / 2, buyers, 16, told.clone());
    let trouble = async {
        let sold = async |part: usize| {
            until("clicks are answered", Duration::from_mins(2), async || told.load(Ordering::Relaxed) >= units * part / 10)
                .await;
        };
        sold(1).await;
        worker_one.kill().await;
        sold(2).await;
        web_one.kill().await;
        sold(3).await;
        let primary = servers.primary_of(&stream).await;
        servers.kill(primary);
    };
    let ((mut heard, _), (more, _), ()) = tokio::join!(left, right, trouble);
    heard.extend(more);

    // Everybody presses again at the instance that lives, until he hears something definite.
    until("the gate sells again", Duration::from_mins(1), async || {
        let (again, unsure) = shop.click(&two, voucher, 0, 1, 1, Arc::default()).await;
        unsure == 0 && !again.is_empty()
    })
    .await;
    let mut last = (Vec::new(), 1);
    for _ in 0..20 {
        last = shop.click(&two, voucher, 0, buyers, 32, Arc::default()).await;
        if last.1 == 0 {
            break;
        }
    }
    assert_eq!(last.1, 0, "everybody hears something definite");
    heard.extend(last.0);
    until("everything is saved", Duration::from_mins(2), async || {
        shop.count("SELECT COUNT(*) FROM orders WHERE live").await == i64::try_from(units).unwrap()
    })
    .await;
    let verdicts = shop.verdicts(&two, &heard).await;
    assert!(verdicts.iter().all(|v| v == "PENDING" || v == "FAILED"), "every id has its verdict");
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE status = 'FAILED' AND close_reason <> 'LOST'").await, 0);
    assert_eq!(shop.count("SELECT stock_left FROM flash_sale").await, 0);
    shop.audited().await;
    assert_eq!(shop.count("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await, 0);
    assert_eq!((web_two.terminate().await, worker_two.terminate().await), (0, 0));
}
