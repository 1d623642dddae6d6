//! The numbers of the control room are the database's, while it sells and after a restart; one unit of drift is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::sale;
use crate::support::app::{On, TestApp};
use crate::support::socket::Socket;

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
    let app = TestApp::on(On::Sqlite).with("--roles", "web").start().await;
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
async fn an_admin_follows_a_sale_on_the_socket_and_nobody_else_does() {
    let app = TestApp::start().await;
    let (admin, buyer, voucher) = (app.admin().await, app.buyer().await, app.sale(5).await);
    let ask = json!({"type": "figures", "voucherId": voucher}).to_string();
    let (mut room, _) = Socket::of(&app.base, &admin.token).await;
    room.send(&ask).await;
    let first = room.wait_for("sale.figures").await;
    assert_eq!((&first["figures"]["voucherId"], &first["figures"]["admitted"]), (&json!(voucher), &json!(0)));
    app.admitted(&app.buy(&buyer, voucher).await);
    while room.wait_for("sale.figures").await["figures"]["pending"] != 1 {}
    let (mut other, _) = Socket::of(&app.base, &buyer.token).await;
    other.send(&ask).await;
    assert_eq!(other.wait_for("error").await["code"], "MALFORMED");
    let samples = app.http.get_as(&admin.token, &format!("/api/admin/sale/{voucher}/samples")).await.data();
    assert!(!samples.as_array().unwrap().is_empty());
    app.finish().await;
}
