//! The numbers of the control room are the database's, while it sells and after a restart; one unit of drift is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::sale;
use crate::support::app::{On, TestApp};

async fn a_run(on: On, orders: usize) {
    let app = TestApp::on(on).start().await;
    let (admin, buyers) = (app.admin().await, app.buyers(orders + 50).await);
    let voucher = app.sale(i64::try_from(orders).unwrap()).await;
    let (services, done) = (app.app.services.clone(), Arc::new(AtomicBool::new(false)));
    let clicks = async {
        for crowd in buyers.chunks(250) {
            futures_util::future::join_all(crowd.iter().map(|buyer| services.purchase.buy(buyer.id, voucher))).await;
        }
        done.store(true, Ordering::Release);
    };
    let looks = async {
        let mut looks = 0;
        while !done.load(Ordering::Acquire) || looks < 3 {
            let before = services.store.tally(voucher).await.unwrap().unwrap();
            let told = sale(&app, &admin.token, voucher).await;
            let after = services.store.tally(voucher).await.unwrap().unwrap();
            let pending = told["pending"].as_i64().unwrap();
            // Tighter than a second of traffic: between the two counts taken around it.
            assert!((before.pending..=after.pending).contains(&pending), "{} {pending} {}", before.pending, after.pending);
            assert_eq!(told["balanced"], true, "no false alarm: {told}");
            let sum = ["redisStock", "inFlight", "unapplied"].iter().map(|n| told[*n].as_i64().unwrap()).sum::<i64>();
            assert_eq!(
                (Some(sum), told["stockLeft"].as_i64().unwrap() + told["liveOrders"].as_i64().unwrap()),
                (told["stockLeft"].as_i64(), told["stockTotal"].as_i64().unwrap()),
                "{told}"
            );
            looks += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        looks
    };
    let ((), looks) = tokio::join!(clicks, looks);
    app.settled().await;
    services.gate.write_refusals().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let told = sale(&app, &admin.token, voucher).await;
    assert_eq!(
        (&told["admitted"], &told["pending"], &told["refused"]),
        (&json!(orders), &json!(orders), &json!({"SOLD_OUT": 50})),
        "{looks} looks: {told}"
    );
    drop(services);
    let app = app.restart().await;
    let again = sale(&app, &app.session_of(admin.id).await.token, voucher).await;
    for name in [
        "version",
        "stockTotal",
        "stockLeft",
        "liveOrders",
        "redisStock",
        "inFlight",
        "unapplied",
        "balanced",
        "admitted",
        "pending",
        "paid",
        "cancelled",
        "timedOut",
        "failed",
        "refused",
        "state",
    ] {
        assert_eq!(again[name], told[name], "{name} after a restart");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_the_databases_through_five_thousand_orders_on_sqlite() {
    a_run(On::Sqlite, 5000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_the_databases_through_a_run_on_postgresql() {
    a_run(On::Postgres, 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unit_of_drift_is_red_and_a_rebuild_puts_it_right() {
    let app = TestApp::with("--roles", "web").start().await;
    let (admin, voucher) = (app.admin().await, app.sale(5).await);
    for command in ["INCR seckill:{0}:stock:V", "DECR seckill:{0}:stock:V", "HSET seckill:{0}:order:V 999999 5"] {
        app.ask::<i64>(&command.replace('V', &voucher.to_string())).await;
        assert_eq!(sale(&app, &admin.token, voucher).await["balanced"], false, "{command}");
        let repaired = app.http.post_as(&admin.token, &format!("/api/admin/sale/{voucher}/rebuild")).await.data();
        assert_eq!((&repaired["balanced"], &repaired["redisStock"]), (&json!(true), &json!(5)), "{command}");
        assert_eq!(super::last_line(&app, &admin.token).await["action"], "sale.rebuild");
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_minutes_of_a_sale_are_sampled() {
    let app = TestApp::start().await;
    let (admin, buyer, voucher) = (app.admin().await, app.buyer().await, app.sale(5).await);
    app.admitted(&app.buy(&buyer, voucher).await);
    let path = format!("/api/admin/sale/{voucher}/samples");
    let give_up = tokio::time::Instant::now() + Duration::from_secs(15);
    loop {
        let samples = app.http.get_as(&admin.token, &path).await.data();
        let items = samples["items"].as_array().unwrap();
        if items.last().is_some_and(|last| last["saved"] == 1 && last["admitted"] == 1) {
            break;
        }
        assert!(tokio::time::Instant::now() < give_up, "{samples}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    app.finish().await;
}
