//! Stories of payments and refunds.

use seckill::domain::ids::OrderId;
use seckill::domain::money::Fen;
use seckill::domain::payment::PaymentState;
use seckill::store::{EventSeen, NewPayment, StoreError};

use super::{Database, NOW, on_both};

on_both!(
    a_notice_is_fresh_once_and_another_body_is_told,
    a_transaction_is_written_once_and_one_payment_is_applied_to_an_order,
    a_payment_that_came_early_waits_for_its_order,
    a_refund_is_owed_once_and_done_once,
);

const MS: std::time::Duration = std::time::Duration::from_millis(1);

fn payment(transaction: &str, order: OrderId, state: PaymentState) -> NewPayment<'_> {
    NewPayment { provider: "sandbox", transaction, order, amount: Fen(4900), state }
}

async fn a_notice_is_fresh_once_and_another_body_is_told(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.record_event("sandbox", "e-1", "aa", NOW).await.unwrap(), EventSeen::Fresh);
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.record_event("sandbox", "e-1", "aa", NOW).await.unwrap(), EventSeen::SameBody);
    assert_eq!(tx.record_event("sandbox", "e-1", "bb", NOW).await.unwrap(), EventSeen::OtherBody);
    assert_eq!(tx.record_event("another", "e-1", "bb", NOW).await.unwrap(), EventSeen::Fresh);
    tx.commit().await.unwrap();
}

async fn a_transaction_is_written_once_and_one_payment_is_applied_to_an_order(db: Database) {
    let order = OrderId::new(NOW, 1);
    let mut tx = db.store.begin().await.unwrap();
    let first = tx.insert_payment(&payment("t-1", order, PaymentState::Applied), NOW).await.unwrap().unwrap();
    assert_eq!(tx.insert_payment(&payment("t-1", order, PaymentState::RefundDue), NOW).await.unwrap(), None);
    let second = tx.insert_payment(&payment("t-2", order, PaymentState::RefundDue), NOW).await.unwrap().unwrap();
    assert_eq!(tx.payment_by_transaction("sandbox", "t-2").await.unwrap().map(|p| p.id), Some(second));
    assert!(tx.payment_by_transaction("another", "t-2").await.unwrap().is_none());
    tx.commit().await.unwrap();
    let read = db.store.payments_of(order).await.unwrap();
    let states: Vec<_> = read.iter().map(|p| (p.id, p.transaction.as_str(), p.state)).collect();
    assert_eq!(states, [(first, "t-1", PaymentState::Applied), (second, "t-2", PaymentState::RefundDue)]);
    assert_eq!(
        (read[0].provider.as_str(), read[0].order, read[0].amount, read[0].created_at),
        ("sandbox", order, Fen(4900), NOW)
    );
    assert!(db.store.payments_of(OrderId::new(NOW, 2)).await.unwrap().is_empty());

    let mut tx = db.store.begin().await.unwrap();
    let twice = tx.insert_payment(&payment("t-3", order, PaymentState::Applied), NOW).await;
    assert!(matches!(twice, Err(StoreError::Conflict)), "not mistaken for a known transaction");
    tx.rollback().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    let twice = tx.set_payment_state(second, PaymentState::RefundDue, PaymentState::Applied).await;
    assert!(matches!(twice, Err(StoreError::Conflict)));
}

async fn a_payment_that_came_early_waits_for_its_order(db: Database) {
    let orders = [OrderId::new(NOW, 1), OrderId::new(NOW, 2), OrderId::new(NOW, 3)];
    let mut tx = db.store.begin().await.unwrap();
    let early = tx.insert_payment(&payment("t-1", orders[0], PaymentState::Early), NOW).await.unwrap().unwrap();
    tx.insert_payment(&payment("t-2", orders[1], PaymentState::RefundDue), NOW).await.unwrap().unwrap();
    let other = tx.insert_payment(&payment("t-3", orders[2], PaymentState::Early), NOW).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let ids = |payments: Vec<seckill::store::Payment>| payments.iter().map(|p| p.id).collect::<Vec<_>>();
    assert_eq!(ids(db.store.ripe_early_payments(NOW, 10).await.unwrap()), [early, other]);
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(ids(tx.early_payments_of(&orders[..2]).await.unwrap()), [early]);
    assert!(tx.early_payments_of(&[]).await.unwrap().is_empty());
    assert!(tx.set_payment_state(early, PaymentState::Early, PaymentState::Applied).await.unwrap());
    assert!(!tx.set_payment_state(early, PaymentState::Early, PaymentState::RefundDue).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(ids(db.store.ripe_early_payments(NOW, 10).await.unwrap()), [other]);
}

async fn a_refund_is_owed_once_and_done_once(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    let due = payment("t-1", OrderId::new(NOW, 1), PaymentState::RefundDue);
    let id = tx.insert_payment(&due, NOW).await.unwrap().unwrap();
    assert!(tx.insert_refund(id, "refund-1", Fen(4900), NOW).await.unwrap());
    assert!(!tx.insert_refund(id, "refund-2", Fen(4900), NOW).await.unwrap());
    tx.commit().await.unwrap();
    let row = db.store.due_refund(id).await.unwrap().unwrap();
    assert_eq!((row.payment.id, row.idem_key.as_str(), row.amount), (id, "refund-1", Fen(4900)));
    let due = [db.store.refunds_due_since(NOW).await.unwrap(), db.store.refunds_due_since(NOW + MS).await.unwrap()];
    assert_eq!(due, [0, 1], "due before, not at that time");
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.finish_refund(id, NOW).await.unwrap());
    assert!(!tx.finish_refund(id, NOW).await.unwrap());
    assert!(matches!(tx.insert_refund(404, "refund-3", Fen(1), NOW).await, Err(StoreError::UnknownReference)));
    drop(tx);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.finish_refund(id, NOW).await.unwrap(), "the one before was dropped");
    tx.commit().await.unwrap();
    assert!(db.store.due_refund(id).await.unwrap().is_none());
    assert_eq!(db.store.refunds_due_since(NOW + MS).await.unwrap(), 0);
}
