//! What is told of a sale that is over, and that it is what the database says.

use std::time::Duration;

use serde_json::json;

use super::sale;
use crate::support::app::{On, TestApp};

async fn a_report(on: On) {
    let app = TestApp::on(on).start().await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(12).await, app.sale(4).await);
    let mut ids = Vec::new();
    for buyer in &buyers[..4] {
        ids.push(app.admitted(&app.buy(buyer, voucher).await));
    }
    for buyer in buyers[4..].iter().chain(&buyers[4..8]) {
        assert_eq!(app.buy(buyer, voucher).await.code(), "SOLD_OUT");
    }
    app.settled().await;
    // One unit comes back and goes to somebody who was turned away before: he is none of them any more.
    let cancelled = app.http.post_as(&buyers[0].token, &format!("/api/voucher-order/{}/cancel", ids[0])).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    app.admitted(&app.buy_for_sure(&buyers[4], voucher).await);
    app.settled().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(app.http.post_as(&admin.token, &format!("/api/admin/sale/{voucher}/end")).await.status, 200);

    let path = format!("/api/admin/report/{voucher}");
    let report = app.http.get_as(&admin.token, &path).await.data();
    assert_eq!((&report["turnedAway"], &report["refused"]["SOLD_OUT"]), (&json!(7), &json!(12)), "{report}");
    assert_eq!((&report["admitted"], &report["pending"], &report["cancelled"]), (&json!(5), &json!(4), &json!(1)), "{report}");
    assert_eq!((&report["everPaid"], &report["paidPermille"], &report["state"]), (&json!(0), &json!(0), &json!("ended")));
    let lines = app.app.services.store.order_lines(voucher, 0, 100).await.unwrap();
    let sold_out = seckill::domain::time::Millis(lines[3].admitted_at).to_string();
    assert_eq!(report["soldOutAt"], sold_out, "when the fourth unit left");

    let table = app.http.get_as(&admin.token, &format!("{path}.csv")).await;
    assert_eq!((table.status.as_u16(), table.header("content-type")), (200, "text/csv; charset=utf-8"));
    let text = table.text();
    let rows: Vec<Vec<&str>> = text.trim_start_matches('\u{feff}').lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((rows.len(), rows[0][0]), (6, "orderId"));
    for (row, line) in rows[1..].iter().zip(&lines) {
        assert_eq!((row[0], row[2]), (line.id.to_string().as_str(), line.status.as_str()));
    }

    // Kept in SQL: the same when Redis has forgotten the sale.
    app.clock.advance(Duration::from_secs(20));
    while app.app.services.store.kept_counts(voucher).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for key in ["sale", "stock", "order", "away"] {
        app.ask::<i64>(&format!("DEL seckill:{{0}}:{key}:{voucher}")).await;
    }
    let again = app.http.get_as(&admin.token, &path).await.data();
    for name in ["turnedAway", "refused", "admitted", "soldOutAt", "pending", "cancelled"] {
        assert_eq!(again[name], report[name], "{name}");
    }
    assert_eq!(sale(&app, &admin.token, voucher).await["refused"], report["refused"]);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_what_the_database_says_on_sqlite() {
    a_report(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_what_the_database_says_on_postgresql() {
    a_report(On::Postgres).await;
}
