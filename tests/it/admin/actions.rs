//! Pause, resume, end, stock, rebuild, texts: what each does to buyers and to the books, and what its repeat does.

use http::Method;
use seckill::domain::ids::VoucherId;
use serde_json::{Value, json};

use super::{last_line, sale};
use crate::support::app::{Buyer, On, TestApp};
use crate::support::http::Answer;

async fn act(app: &TestApp, admin: &Buyer, voucher: VoucherId, what: &str) -> Answer {
    app.http.post_as(&admin.token, &format!("/api/admin/sale/{voucher}/{what}")).await
}

async fn stock(app: &TestApp, admin: &Buyer, voucher: VoucherId, body: Value) -> Answer {
    app.http.json(Some(&admin.token), &format!("/api/admin/sale/{voucher}/stock"), &body).await
}

async fn edit(app: &TestApp, admin: &Buyer, voucher: VoucherId, body: Value) -> Answer {
    let headers = [("authorization", admin.token.as_str()), ("content-type", "application/json")];
    app.http.send(Method::PATCH, &format!("/api/admin/voucher/{voucher}"), &headers, body.to_string()).await
}

async fn pausing(on: On) {
    let app = TestApp::on(on).start().await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(3).await, app.sale(5).await);
    let first = app.admitted(&app.buy(&buyers[0], voucher).await);
    let paused = act(&app, &admin, voucher, "pause").await.data();
    assert_eq!(paused["state"], "paused");
    assert_eq!(app.buy(&buyers[1], voucher).await.code(), "PAUSED");
    assert_eq!(app.buy(&buyers[0], voucher).await.code(), "DUPLICATE", "a holder hears his order");
    let line = last_line(&app, &admin.token).await;
    assert_eq!((&line["action"], &line["who"]), (&json!("sale.pause"), &json!(admin.id.to_string())));
    assert_eq!((&line["before"], &line["after"]), (&json!({"paused": false}), &json!({"paused": true})));
    let again = act(&app, &admin, voucher, "pause").await.data();
    assert_eq!(again["version"], paused["version"], "pausing a paused sale is no edit");
    assert_eq!(last_line(&app, &admin.token).await["id"], line["id"]);
    // A rebuild does not resume it.
    let rebuilt = act(&app, &admin, voucher, "rebuild").await.data();
    assert!(rebuilt["epoch"].as_i64() > again["epoch"].as_i64() && rebuilt["state"] == "paused", "{rebuilt}");
    assert_eq!(app.buy_for_sure(&buyers[1], voucher).await.code(), "PAUSED");
    assert_eq!(act(&app, &admin, voucher, "resume").await.data()["state"], "open");
    app.admitted(&app.buy_for_sure(&buyers[2], voucher).await);
    app.settled().await;
    assert_eq!(app.order(&buyers[0], first).await["status"], "PENDING", "who was queued keeps his unit");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_admission_and_nobody_loses_his_unit_on_sqlite() {
    pausing(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_admission_and_nobody_loses_his_unit_on_postgresql() {
    pausing(On::Postgres).await;
}

async fn changing_stock(on: On) {
    let app = TestApp::on(on).start().await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(12).await, app.sale(5).await);
    for buyer in &buyers[..4] {
        app.admitted(&app.buy(buyer, voucher).await);
    }
    let version = sale(&app, &admin.token, voucher).await["version"].clone();
    let more = stock(&app, &admin, voucher, json!({"delta": 3, "version": version})).await.data();
    assert_eq!((&more["stockTotal"], &more["stockLeft"], &more["balanced"]), (&json!(8), &json!(4), &json!(true)), "{more}");
    let line = last_line(&app, &admin.token).await;
    assert_eq!(
        (&line["action"], &line["before"]["stockTotal"], &line["after"]["stockTotal"]),
        (&json!("sale.stock"), &json!(5), &json!(8))
    );

    let second = stock(&app, &admin, voucher, json!({"delta": 3, "version": version})).await;
    assert_eq!((second.status.as_u16(), second.code().as_str()), (409, "VERSION_CONFLICT"), "the second editor is told");
    assert_eq!(second.json()["data"]["stockTotal"], 8, "with how it stands");
    let version = more["version"].clone();
    let too_many = stock(&app, &admin, voucher, json!({"delta": -5, "version": version})).await;
    assert_eq!((too_many.status.as_u16(), too_many.code().as_str()), (422, "INVALID"));
    assert!(too_many.json()["data"]["fields"]["delta"].as_str().unwrap().contains("-4"), "{}", too_many.text());
    for (body, status) in [
        (json!({"delta": 1}), 422),
        (json!({"delta": "1", "version": version}), 422),
        (json!({"delta": 1, "version": version, "stock": 9}), 400),
        (json!({"delta": 1_000_000, "version": version}), 422),
    ] {
        assert_eq!(stock(&app, &admin, voucher, body.clone()).await.status, status, "{body}");
    }
    // Taken away while others buy: nobody is sold what is gone.
    let (taken, bought) = tokio::join!(stock(&app, &admin, voucher, json!({"delta": -2, "version": version})), async {
        let mut admitted = 0;
        for buyer in &buyers[4..] {
            let answer = app.buy_for_sure(buyer, voucher).await.json();
            admitted += i64::from(answer["success"] == true);
        }
        admitted
    });
    app.settled().await;
    let after = sale(&app, &admin.token, voucher).await;
    let total = if taken.status == 200 { 6 } else { 8 };
    assert!(taken.status == 200 || taken.status == 422, "{}", taken.text());
    assert_eq!((after["stockTotal"].as_i64(), after["pending"].as_i64()), (Some(total), Some(4 + bought)), "{after}");
    assert_eq!((bought, after["stockLeft"].as_i64()), (total - 4, Some(0)));
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_changes_while_it_sells_and_the_books_hold_on_sqlite() {
    changing_stock(On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_changes_while_it_sells_and_the_books_hold_on_postgresql() {
    changing_stock(On::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_is_ended_stays_ended_and_its_winners_keep_their_orders() {
    let app = TestApp::start().await;
    let (admin, buyers, voucher) = (app.admin().await, app.buyers(2).await, app.sale(5).await);
    let id = app.admitted(&app.buy(&buyers[0], voucher).await);
    assert_eq!(act(&app, &admin, voucher, "end").await.data()["state"], "ended");
    assert_eq!(app.buy(&buyers[1], voucher).await.code(), "ENDED");
    assert_eq!(app.buy(&buyers[0], voucher).await.code(), "DUPLICATE");
    let line = last_line(&app, &admin.token).await;
    assert_eq!(line["action"], "sale.end");
    assert_eq!(act(&app, &admin, voucher, "end").await.data()["state"], "ended", "a repeat");
    assert_eq!(last_line(&app, &admin.token).await["id"], line["id"]);
    for what in ["pause", "resume"] {
        let refused = act(&app, &admin, voucher, what).await;
        assert_eq!((refused.status.as_u16(), refused.code().as_str()), (409, "WRONG_STATE"), "{what}");
        assert_eq!(refused.json()["data"]["state"], "ended");
    }
    assert_eq!(stock(&app, &admin, voucher, json!({"delta": 1, "version": 2})).await.status, 409);
    app.settled().await;
    assert_eq!(app.order(&buyers[0], id).await["status"], "PENDING");
    // One that has not begun never will.
    let soon = app.sale_between(3, 600_000, 1_200_000).await;
    assert_eq!(act(&app, &admin, soon, "end").await.data()["state"], "ended");
    assert_eq!(app.buy(&buyers[1], soon).await.code(), "ENDED");
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_edited_under_one_version_and_the_stock_is_not_touched() {
    let app = TestApp::start().await;
    let (admin, voucher) = (app.admin().await, app.sale(5).await);
    let before = sale(&app, &admin.token, voucher).await;
    let body = json!({"title": "双人晚餐", "rules": "周末可用", "version": before["version"]});
    let edited = edit(&app, &admin, voucher, body.clone()).await.data();
    assert_eq!(
        (&edited["title"], &edited["subTitle"], &edited["rules"]),
        (&json!("双人晚餐"), &json!("全天"), &json!("周末可用"))
    );
    let conflict = edit(&app, &admin, voucher, body).await;
    assert_eq!((conflict.status.as_u16(), conflict.code().as_str()), (409, "VERSION_CONFLICT"));
    assert_eq!(conflict.json()["data"]["version"], edited["version"]);
    let after = sale(&app, &admin.token, voucher).await;
    assert_eq!((&after["stockLeft"], &after["epoch"]), (&before["stockLeft"], &before["epoch"]));
    assert_eq!(after["version"], edited["version"], "one number for texts and stock");
    for (body, status) in [
        (json!({"title": "x"}), 422),
        (json!({"title": "", "version": edited["version"]}), 422),
        (json!({"title": "x".repeat(101), "version": edited["version"]}), 422),
        (json!({"title": 5, "version": edited["version"]}), 400),
        (json!({"stock": 5, "version": edited["version"]}), 400),
    ] {
        assert_eq!(edit(&app, &admin, voucher, body.clone()).await.status, status, "{body}");
    }
    let line = last_line(&app, &admin.token).await;
    assert_eq!(
        (&line["action"], &line["before"]["title"], &line["after"]["title"]),
        (&json!("voucher.edit"), &json!("下午茶"), &json!("双人晚餐"))
    );
    let listed = app.http.get(&format!("/api/voucher/list/{}", app.shop)).await.data();
    assert_eq!(listed[0]["title"], "双人晚餐");
    let plain = app.app.services.sales.create_voucher(None, None, &app.voucher("普通券")).await.unwrap();
    assert_eq!(edit(&app, &admin, plain, json!({"title": "好券", "version": 1})).await.data()["version"], 2);
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_admins_do_to_users_is_written_down() {
    let app = TestApp::start().await;
    let (admin, buyer) = (app.admin().await, app.buyer().await);
    for (what, action, before) in [
        ("logout", "user.logout", json!(null)),
        ("disable", "user.disable", json!({"disabled": false})),
        ("enable", "user.enable", json!({"disabled": true})),
    ] {
        assert_eq!(app.http.post_as(&admin.token, &format!("/api/user/{}/{what}", buyer.id)).await.status, 200);
        let line = last_line(&app, &admin.token).await;
        assert_eq!((line["action"].as_str(), line["who"].as_str()), (Some(action), Some(admin.id.to_string().as_str())));
        assert_eq!((line["subject"].as_str(), &line["before"]), (Some(format!("user {}", buyer.id).as_str()), &before));
    }
    app.finish().await;
}
