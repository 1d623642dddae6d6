//! Each guard taken out: the checks of these tests must notice. The same story passes with the guard in.

use seckill::fault::without;
use seckill::payment_provider::signature::SignedHeaders;
use seckill::service::notice::Heard;

use super::races::{Overdue, hear};
use super::{PRICE, paid};
use crate::support::app::On;

/// Pay and timeout at once on each of twenty orders.
async fn pay_against_timeout(overdue: &Overdue) -> Result<usize, String> {
    let money = &overdue.app.app.services.money;
    for (_, id) in &overdue.orders {
        let (event, body) = (format!("e-{id}"), paid(*id, &format!("t-{id}"), PRICE));
        let pay = hear(&money.notices, &event, &body);
        let (pay, timeout) = tokio::join!(pay, Box::pin(money.cancels.time_out(*id)));
        if matches!(pay, Ok(Heard::Applied)) == timeout.is_ok() {
            return Err(format!("{pay:?} and {timeout:?}"));
        }
    }
    overdue.reckon().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_its_condition_is_noticed() {
    for on in [On::Sqlite, On::Postgres] {
        let overdue = Overdue::of(on, 20).await;
        pay_against_timeout(&overdue).await.unwrap();
        overdue.finish().await;
        let overdue = Overdue::of(on, 20).await;
        let found = without("unguarded-update", pay_against_timeout(&overdue)).await;
        super::figure(&format!("{on:?}: an update without its condition: {found:?}"));
        assert!(found.is_err());
        overdue.abandon().await;
    }
}

/// Closes all orders; each release is applied again, as by a process that died before it could note the first time.
async fn releases_twice(overdue: &Overdue) -> Result<usize, String> {
    let services = &overdue.app.app.services;
    for (user, id) in &overdue.orders {
        let order = services.money.cancels.time_out(*id).await.map_err(|e| e.to_string())?;
        services.gate.release(overdue.voucher, order.epoch, *user, *id).await.map_err(|e| e.to_string())?;
    }
    overdue.reckon().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_increment_is_noticed() {
    let overdue = Overdue::of(On::chosen(), 5).await;
    releases_twice(&overdue).await.unwrap();
    overdue.finish().await;
    let overdue = Overdue::of(On::chosen(), 5).await;
    let found = without("bare-incr", releases_twice(&overdue)).await;
    super::figure(&format!("a bare increment: {found:?}"));
    assert!(found.is_err());
    overdue.abandon().await;
}

/// Refunds everything, by four processes at once.
async fn refunds_at_once(overdue: &Overdue) -> Result<usize, String> {
    let money = &overdue.app.app.services.money;
    for (user, id) in &overdue.orders {
        let (event, body) = (format!("e-{id}"), paid(*id, &format!("t-{id}"), PRICE));
        hear(&money.notices, &event, &body).await.map_err(|e| e.to_string())?;
        money.refunds.start(*id, false, *user).await.map_err(|e| e.to_string())?;
    }
    let rounds = (0..4).map(|_| money.refunds.round());
    for round in futures_util::future::join_all(rounds).await {
        round.map_err(|e| e.to_string())?;
    }
    overdue.reckon().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_without_its_key_is_noticed() {
    let overdue = Overdue::of(On::chosen(), 5).await;
    refunds_at_once(&overdue).await.unwrap();
    overdue.finish().await;
    let overdue = Overdue::of(On::chosen(), 5).await;
    let found = without("refund-without-its-key", refunds_at_once(&overdue)).await;
    super::figure(&format!("a refund without its key: {found:?}"));
    assert!(found.is_err());
    overdue.abandon().await;
}

/// Somebody without the secret says that every order is paid.
async fn forged_notices(overdue: &Overdue) -> Result<usize, String> {
    let notices = &overdue.app.app.services.money.notices;
    for (_, id) in &overdue.orders {
        let body = paid(*id, "t-forged", PRICE);
        let timestamp = (notices.clock.now().0 / 1000).to_string();
        let signature = "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let headers = SignedHeaders { id: "e-forged", timestamp: &timestamp, signature };
        if let Ok(heard) = notices.hear(headers, body.as_bytes()).await {
            return Err(format!("a forged notice was heard: {heard:?}"));
        }
    }
    Ok(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_is_not_checked_is_noticed() {
    let overdue = Overdue::of(On::chosen(), 1).await;
    forged_notices(&overdue).await.unwrap();
    let found = without("signature-not-checked", forged_notices(&overdue)).await;
    super::figure(&format!("a signature that is not checked: {found:?}"));
    assert!(found.is_err());
    overdue.abandon().await;
}
