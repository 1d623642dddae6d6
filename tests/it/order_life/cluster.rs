//! Every way an order can go, on a Redis Cluster: the keys of each script lie in one slot, whatever the voucher.

use std::time::Duration;

use serde_json::json;

use super::{act, pending, press, refund, until, until_order};
use crate::support::app::TestApp;
use crate::support::servers::Servers;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_an_order_of_any_lane_is_cancelled_paid_refunded_and_timed_out() {
    let servers = Servers::cluster().await;
    let app = TestApp::with("--redis-url", &servers.url).with("--lanes", "4").start().await;
    let admin = app.admin().await;
    let mut sales = Vec::new();
    for _ in 0..4 {
        sales.push(app.sale(10).await);
    }
    let buyers = app.buyers(4).await;
    let mut late = Vec::new();
    for voucher in &sales {
        let cancelled = pending(&app, &buyers[0], *voucher).await;
        assert_eq!(act(&app, &buyers[0], cancelled, "cancel").await.data()["status"], "CANCELLED");
        for (buyer, back) in [(&buyers[1], true), (&buyers[2], false)] {
            let paid = pending(&app, buyer, *voucher).await;
            press(&app, buyer, paid, "approve").await;
            until_order(&app, buyer, paid, |order| order["couponCode"].is_string()).await;
            if back {
                assert_eq!(refund(&app, &admin, paid, true).await.status, 200);
                until(&app, buyer, paid, "REFUNDED").await;
            }
        }
        late.push(pending(&app, &buyers[3], *voucher).await);
    }
    // A pause, a change of the stock and a rebuild go through the other scripts.
    for voucher in &sales {
        let sale = format!("/api/admin/sale/{voucher}");
        for step in ["pause", "resume", "rebuild"] {
            let answer = app.http.post_as(&admin.token, &format!("{sale}/{step}")).await;
            assert_eq!(answer.status, 200, "{step}: {}", answer.text());
        }
        let version = app.http.get_as(&admin.token, &sale).await.data()["version"].clone();
        let changed = app.http.json(Some(&admin.token), &format!("{sale}/stock"), &json!({"delta": 5, "version": version})).await;
        assert_eq!(changed.status, 200, "{}", changed.text());
    }
    app.clock.advance(Duration::from_mins(16));
    for order in late {
        assert_eq!(until(&app, &buyers[3], order, "CANCELLED").await["closeReason"], "TIMEOUT");
    }
    app.settled().await;
    // Of ten and five more one is kept by who paid; the others came back, and may be bought again.
    assert_eq!(app.app.services.gate.stocks(&sales).await.unwrap(), [Some(14); 4]);
    for (voucher, buyer) in sales.iter().zip([0, 1, 3, 0]) {
        app.admitted(&app.buy_for_sure(&buyers[buyer], *voucher).await);
    }
    let mut nodes = std::collections::HashSet::new();
    for voucher in &sales {
        nodes.insert(servers.primary_of(&format!("stream.orders:{{{}}}", voucher.0 % 4)).await);
    }
    assert!(nodes.len() > 1, "the lanes lie on several nodes");
    app.finish().await;
}
