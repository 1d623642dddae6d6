//! `--max-orders-per-second`: over all workers, within five in a hundred, and nothing is lost by it.

use std::time::Duration;

use seckill::domain::ids::Lane;
use seckill::queue::Queue;
use tokio::time::Instant;

use crate::support::app::TestApp;
use crate::support::redis::TestRedis;
use crate::support::until;

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_together_save_no_more_than_the_limit_and_nothing_is_lost() {
    const PER_SECOND: u32 = 100;
    const ORDERS: usize = 600;
    let redis = TestRedis::start().await;
    let limit = PER_SECOND.to_string();
    let app = TestApp::with("--redis-url", &redis.url()).with("--max-orders-per-second", &limit).start().await;
    let other = app.beside(&["--roles", "worker", "--max-orders-per-second", &limit]).await;
    let voucher = app.sale(i64::try_from(ORDERS).unwrap()).await;
    let buyers = app.buyers(ORDERS).await;
    let mut clicks = tokio::task::JoinSet::new();
    for buyer in buyers {
        let http = app.http.clone();
        clicks.spawn(async move { http.post_as(&buyer.token, &format!("/api/voucher-order/seckill/{voucher}")).await.data() });
    }
    clicks.join_all().await;
    let saved = async || app.app.services.store.figures(voucher).await.unwrap().unwrap().a;
    // From one figure to another, both taken while both workers work.
    let (began, first) = (Instant::now(), saved().await);
    assert!(app.app.services.queue.depth(Lane(0)).await.unwrap().len > 100, "the backlog grows instead");
    let wanted = first + 400;
    until("the queue is worked off", Duration::from_secs(30), async || saved().await >= wanted).await;
    let (last, took) = (saved().await, began.elapsed());
    let rate = f64::from(i32::try_from(last - first).unwrap()) / took.as_secs_f64();
    let ratio = rate / f64::from(PER_SECOND);
    // Above it would be a fault of the shop. Below it may be a busy machine, so far less is asked there.
    assert!((0.5..=1.05).contains(&ratio), "{rate:.1} a second, {ratio:.3} of the limit");
    app.settled().await;
    assert_eq!(saved().await, i64::try_from(ORDERS).unwrap());
    other.finish().await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_is_shared_saves_up_little_and_survives_a_clock_set_back() {
    let redis = TestRedis::start().await;
    let queue = Queue::new(redis.open().await);
    // A twentieth of a second was saved up: five of a hundred may go at once, the next wait for their turn.
    assert!(queue.pace(100, 5).await.unwrap().is_zero());
    queue.pace(100, 100).await.unwrap();
    let wait = queue.pace(100, 0).await.unwrap();
    assert!((900..=1000).contains(&wait.as_millis()), "a hundred orders are a second: {wait:?}");
    assert!(queue.pace(100, 0).await.unwrap() <= wait, "asking costs nothing");
    let (ttl, far) = (redis.ask::<i64>("PTTL limit:orders").await, "99999999999999999");
    assert!((1..=62_000).contains(&ttl), "it does not stay for ever: {ttl}");
    redis.ask::<String>(&format!("SET limit:orders {far}")).await;
    assert!(queue.pace(100, 1).await.unwrap() <= Duration::from_millis(1), "nobody waits for a time that lies years ahead");
    redis.ask::<String>("SET limit:orders nonsense").await;
    assert!(queue.pace(100, 1).await.unwrap().is_zero());
}
