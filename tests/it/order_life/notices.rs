//! Notices of payment: whom the shop believes, and what it answers, status by status.

use std::time::Duration;

use seckill::domain::ids::OrderId;
use serde_json::json;

use super::{PRICE, SECRET, act, keys, notify, paid, payments, pending, send_notice, until, until_order};
use crate::support::app::{On, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_notice_gets_its_status_and_only_the_right_one_pays() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).with("--payment-secret", SECRET).start().await;
        let voucher = app.sale(1).await;
        let buyer = app.buyer().await;
        let id = pending(&app, &buyer, voucher).await;
        let good = paid(id, "t-1", PRICE);
        let now = app.clock.now().0 / 1000;
        let signed = |id: &str, at: i64, body: &str| (at.to_string(), keys().sign(id, at, body.as_bytes()));

        // Not believed: nothing of the body counts.
        let (at, signature) = signed("e-1", now, &good);
        let (old, old_signature) = signed("e-1", now - 360, &good);
        let (ahead, ahead_signature) = signed("e-1", now + 360, &good);
        let forged = [
            ("e-1", at.as_str(), "", good.as_str()),
            ("", at.as_str(), signature.as_str(), good.as_str()),
            ("e-1", "", signature.as_str(), good.as_str()),
            ("e-2", at.as_str(), signature.as_str(), good.as_str()),
            ("e-1", at.as_str(), signature.as_str(), "{}"),
            ("e-1", at.as_str(), signature.trim_start_matches("v1,"), good.as_str()),
            ("e-1", old.as_str(), old_signature.as_str(), good.as_str()),
            ("e-1", ahead.as_str(), ahead_signature.as_str(), good.as_str()),
        ];
        for (event, at, signature, body) in forged {
            assert_eq!(send_notice(&app.http, event, at, signature, body).await.status, 401, "{event} {at} {signature}");
        }

        let tell = async |event: &str, body: &str| notify(&app.http, &app.clock, event, body).await.status.as_u16();
        assert_eq!(tell("e-0", "{").await, 400);
        assert_eq!(tell("e-0", r#"{"type":"payment.failed","data":{}}"#).await, 200);
        assert_eq!(
            tell("e-n", &good.replace("t-1", "t\\u0000")).await,
            400,
            "no text of ours holds a zero, and Postgres takes none"
        );
        for (i, amount) in [1, PRICE - 1, PRICE + 1, 0, -PRICE, i64::MAX].into_iter().enumerate() {
            assert_eq!(tell(&format!("m-{i}"), &paid(id, "t-m", amount)).await, 422, "{amount}");
        }
        let dollars = good.replace("\"amount\":4900", "\"amount\":4900,\"currency\":\"USD\"");
        assert!(dollars.contains("USD"));
        assert_eq!(tell("m-c", &dollars).await, 422);
        for strange in [
            OrderId(7),
            OrderId::new(app.clock.now() - Duration::from_hours(25), 1),
            OrderId::new(app.clock.now() + Duration::from_mins(3), 1),
        ] {
            assert_eq!(tell("u-1", &paid(strange, "t-u", PRICE)).await, 404, "{strange}");
        }
        let untouched = app.order(&buyer, id).await;
        assert_eq!((&untouched["status"], &untouched["version"], payments(&untouched).len()), (&json!("PENDING"), &json!(1), 0));
        let lines = app.app.services.store.audit_lines(None, 100).await.unwrap();
        assert_eq!(lines.iter().filter(|l| l.action == "payment.wrong_amount").count(), 7, "a line for each wrong amount");

        assert_eq!(tell("e-1", &good).await, 200);
        assert_eq!(tell("e-1", &good).await, 200, "the same again");
        assert_eq!(tell("e-1", &paid(id, "t-2", PRICE)).await, 409, "the same id, another body");
        assert_eq!(tell("e-2", &good).await, 200, "another id for the same transaction");
        let order = app.order(&buyer, id).await;
        assert_eq!((&order["status"], payments(&order)), (&json!("PAID"), vec![format!("t-1 {PRICE} APPLIED")]));
        assert_eq!(tell("e-3", &paid(id, "t-3", PRICE)).await, 200, "paid twice");
        let order = app.order(&buyer, id).await;
        assert_eq!((&order["status"], &order["payments"][1]["state"]), (&json!("PAID"), &json!("REFUND_DUE")));

        let big = paid(id, &"t".repeat(70_000), PRICE);
        assert_eq!(notify(&app.http, &app.clock, "e-4", &big).await.status, 413);
        app.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn during_a_rotation_both_secrets_are_believed() {
    let app = TestApp::with(
        "--payment-secret",
        "whsec_bmV3ZXIgdGhhbiB0aGUgb3RoZXIgc2VjcmV0LCBieSBmYXI=,whsec_c2Vja2lsbCB0ZXN0cyBzaWduIHdpdGggdGhpcyE=",
    )
    .start()
    .await;
    let voucher = app.sale(1).await;
    let buyer = app.buyer().await;
    let id = pending(&app, &buyer, voucher).await;
    assert_eq!(notify(&app.http, &app.clock, "e-1", &paid(id, "t-1", PRICE)).await.status, 200, "signed with the old one");
    until(&app, &buyer, id, "PAID").await;
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn money_before_the_order_is_kept_and_applied_and_money_for_nothing_goes_back() {
    for on in [On::Sqlite, On::Postgres] {
        let app = TestApp::on(on).with("--payment-secret", SECRET).with("--roles", "web").start().await;
        let voucher = app.sale(2).await;
        let buyers = app.buyers(2).await;
        let services = &app.app.services;
        let first = app.admitted(&app.buy(&buyers[0], voucher).await);
        let wrong = app.admitted(&app.buy(&buyers[1], voucher).await);
        let never = OrderId::new(app.clock.now(), 4_000_000_000);
        for (event, order, amount) in [("e-1", first, PRICE), ("e-2", wrong, PRICE + 1), ("e-3", never, PRICE)] {
            assert_eq!(notify(&app.http, &app.clock, event, &paid(order, event, amount)).await.status, 202);
            assert_eq!(notify(&app.http, &app.clock, event, &paid(order, event, amount)).await.status, 200, "again");
        }
        let shutdown = seckill::shutdown::Shutdown::default();
        super::consume(&app, &shutdown);
        let order = until(&app, &buyers[0], first, "PAID").await;
        assert_eq!(payments(&order), [format!("e-1 {PRICE} APPLIED")]);
        let order = until(&app, &buyers[1], wrong, "PENDING").await;
        assert_eq!(payments(&order), [format!("e-2 {} REFUND_DUE", PRICE + 1)], "another amount than the order's goes back");
        // Nobody ever gets this id: the pay window over, the money goes back.
        assert_eq!(services.money.notices.sweep().await.unwrap(), 0);
        app.clock.advance(Duration::from_mins(16));
        assert_eq!(services.money.notices.sweep().await.unwrap(), 1);
        assert_eq!(services.store.payments_of(never).await.unwrap()[0].state.as_str(), "REFUND_DUE");
        shutdown.begin();
        app.abandon("two payments that no provider knows are owed for ever").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn late_money_goes_back_however_often_it_is_told() {
    let app = TestApp::with("--payment-secret", SECRET).start().await;
    let voucher = app.sale(1).await;
    let (buyer, admin) = (app.buyer().await, app.admin().await);
    let id = pending(&app, &buyer, voucher).await;
    super::take_money(&app, id, "t-late").await;
    assert_eq!(act(&app, &admin, id, "timeout").await.status, 409, "not due");
    act(&app, &buyer, id, "cancel").await.data();
    let body = paid(id, "t-late", PRICE);
    let calls = (0..20).map(|i| {
        let (http, clock, body) = (app.http.clone(), app.clock.clone(), body.clone());
        async move { notify(&http, &clock, &format!("e-{}", i / 2), &body).await.status.as_u16() }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    let order = until_order(&app, &buyer, id, |o| o["refund"] == "DONE").await;
    assert_eq!((&order["status"], payments(&order)), (&json!("CANCELLED"), vec![format!("t-late {PRICE} REFUNDED")]));
    assert_eq!(notify(&app.http, &app.clock, "e-9999", &body).await.status, 200, "and once more");
    let books = super::books(&app, &admin).await;
    assert_eq!((&books["paid"], &books["refunded"]), (&json!(PRICE), &json!(PRICE)));
    app.finish().await;
}
