//! Many workers together look about as often as one: the stores pay for work, not for the number of processes.

use std::time::{Duration, Instant};

use super::figure;
use crate::support::app::{On, TestApp};
use crate::support::long;
use crate::support::sql::Sql;

/// Looks a second into the tables where something may be left to do, as the server counts them: it is told about once a second.
async fn a_second(sql: &mut Sql) -> f64 {
    let count = "SELECT CAST(SUM(COALESCE(seq_scan, 0) + COALESCE(idx_scan, 0)) AS BIGINT) FROM pg_stat_user_tables \
                 WHERE relname IN ('outbox', 'payment', 'refund')";
    let before = sql.rows::<(i64,)>(count).await[0].0;
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(if long() { 10 } else { 4 })).await; // what is measured
    let after = sql.rows::<(i64,)>(count).await[0].0;
    f64::from(i32::try_from(after - before).unwrap()) / started.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_workers_that_have_nothing_to_do_do_not_look_four_times_as_often_as_one() {
    let app = TestApp::on(On::Postgres).with("--roles", "worker").start().await;
    let mut sql = app.sql().await;
    let one = a_second(&mut sql).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(app.beside(&["--roles", "worker"]).await);
    }
    // They count each other within a few seconds.
    let started = Instant::now();
    let mut four = a_second(&mut sql).await;
    while four > one * 2.0 {
        assert!(started.elapsed() < Duration::from_mins(1), "{one:.1} looks a second by one worker, {four:.1} by four");
        four = a_second(&mut sql).await;
    }
    figure(&format!("idle: {one:.1} looks a second by one worker, {four:.1} by four, ratio {:.2}", four / one));
    for other in others {
        other.finish().await;
    }
    app.finish().await;
}
