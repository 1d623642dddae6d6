//! Stories of what follows money: links, codes, times on the order, the sandbox provider's books.

use std::time::Duration;

use seckill::domain::ids::OrderId;
use seckill::domain::money::Fen;
use seckill::domain::order::{CloseReason, Status};
use seckill::domain::payment::PaymentState;
use seckill::store::{NewPayment, SandboxEntry, SandboxPayment, Stamps, StoreError, Way};

use super::{Database, MINUTE, NOW, on_both, order};

on_both!(
    an_order_has_one_place_to_pay,
    a_paid_order_gets_one_code_and_a_refund_voids_it,
    late_money_leaves_its_times_and_not_its_state,
    a_row_of_the_outbox_is_taken_once,
    early_payments_are_ripe_with_their_order_or_with_age,
    the_sandbox_keeps_one_line_for_each_key,
    a_notice_of_the_sandbox_waits_until_it_is_answered,
);

async fn an_order_has_one_place_to_pay(db: Database) {
    let id = OrderId::new(NOW, 1);
    assert_eq!(db.store.payment_link(id).await.unwrap(), None);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.put_payment_link(id, "pay_1", "http://pay/1", NOW).await.unwrap());
    assert!(!tx.put_payment_link(id, "pay_2", "http://pay/2", NOW).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.store.payment_link(id).await.unwrap().as_deref(), Some("http://pay/1"));
}

async fn a_paid_order_gets_one_code_and_a_refund_voids_it(db: Database) {
    let (voucher, users) = db.sale(2, 2).await;
    let orders = [order(1, users[0], voucher), order(2, users[1], voucher)];
    db.place(&orders).await;
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.give_coupon(orders[0].id, "AAAA").await.unwrap().is_none(), "not paid");
    let stamps = Stamps { paid_at: Some(NOW), ..Stamps::default() };
    for order in &orders {
        tx.transition(order.id, Status::Pending, Status::Paid, &stamps).await.unwrap().unwrap();
    }
    let given = tx.give_coupon(orders[0].id, "AAAA").await.unwrap().unwrap();
    assert_eq!((given.coupon_code.as_deref(), given.version), (Some("AAAA"), 3));
    assert!(tx.give_coupon(orders[0].id, "BBBB").await.unwrap().is_none(), "it has one");
    tx.commit().await.unwrap();
    let mut tx = db.store.begin().await.unwrap();
    assert!(matches!(tx.give_coupon(orders[1].id, "AAAA").await, Err(StoreError::Conflict)));
    drop(tx);
    let mut tx = db.store.begin().await.unwrap();
    let refunding = tx.transition(orders[0].id, Status::Paid, Status::Refunding, &Stamps::default()).await.unwrap().unwrap();
    assert_eq!(refunding.coupon_code, None);
    assert!(tx.give_coupon(orders[0].id, "CCCC").await.unwrap().is_none());
    tx.commit().await.unwrap();
}

async fn late_money_leaves_its_times_and_not_its_state(db: Database) {
    let (voucher, users) = db.sale(2, 2).await;
    let orders = [order(1, users[0], voucher), order(2, users[1], voucher)];
    db.place(&orders).await;
    let (came, went) = (NOW + MINUTE, NOW + 2 * MINUTE);
    let mut tx = db.store.begin().await.unwrap();
    let closed = Stamps { closed_at: Some(NOW), close_reason: Some(CloseReason::Timeout), ..Stamps::default() };
    tx.transition(orders[0].id, Status::Pending, Status::Cancelled, &closed).await.unwrap().unwrap();
    tx.transition(orders[1].id, Status::Pending, Status::Paid, &Stamps { paid_at: Some(NOW), ..Stamps::default() })
        .await
        .unwrap()
        .unwrap();
    assert!(tx.return_units(voucher, 1).await.unwrap());
    assert!(!tx.return_units(seckill::domain::ids::VoucherId(404), 1).await.unwrap());
    tx.note_money(orders[0].id, Some(came), None).await.unwrap().unwrap();
    let late = tx.note_money(orders[0].id, None, Some(went)).await.unwrap().unwrap();
    assert_eq!((late.status, late.version, late.paid_at, late.refunded_at), (Status::Cancelled, 4, Some(came), Some(went)));
    let twice = tx.note_money(orders[1].id, Some(came), Some(went)).await.unwrap().unwrap();
    assert_eq!((twice.status, twice.version, twice.paid_at, twice.refunded_at), (Status::Paid, 3, Some(NOW), None));
    assert!(tx.note_money(OrderId(404), Some(came), None).await.unwrap().is_none());
    tx.commit().await.unwrap();
    assert!(db.store.figures(voucher).await.unwrap().unwrap().books_balance());
}

async fn a_row_of_the_outbox_is_taken_once(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.put_outbox("coupon", "coupon:1", "{}", NOW).await.unwrap());
    tx.commit().await.unwrap();
    let row = db.store.outbox_row("coupon:1").await.unwrap().unwrap();
    assert_eq!((row.kind.as_str(), row.payload.as_str()), ("coupon", "{}"));
    assert!(db.store.outbox_row("coupon:2").await.unwrap().is_none());
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.take_outbox(row.id, NOW).await.unwrap());
    drop(tx);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.take_outbox(row.id, NOW).await.unwrap(), "the one before was dropped");
    assert!(!tx.take_outbox(row.id, NOW).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.store.open_outbox_count("coupon").await.unwrap(), 0);
}

async fn early_payments_are_ripe_with_their_order_or_with_age(db: Database) {
    let (voucher, users) = db.sale(2, 1).await;
    let there = order(1, users[0], voucher);
    db.place(&[there]).await;
    let mut tx = db.store.begin().await.unwrap();
    let mut ids = Vec::new();
    for (transaction, order, at) in
        [("t-1", there.id, NOW), ("t-2", OrderId::new(NOW, 9), NOW), ("t-3", OrderId::new(NOW, 8), NOW - MINUTE)]
    {
        let state = PaymentState::Early;
        let payment = NewPayment { provider: "sandbox", transaction, order, amount: Fen(4900), state };
        ids.push(tx.insert_payment(&payment, at).await.unwrap().unwrap());
    }
    tx.commit().await.unwrap();
    let ripe = |since, limit| {
        let store = db.store.clone();
        async move { store.ripe_early_payments(since, limit).await.unwrap().iter().map(|p| p.id).collect::<Vec<_>>() }
    };
    assert_eq!(ripe(NOW - 2 * MINUTE, 9).await, [ids[0]]);
    assert_eq!(ripe(NOW - MINUTE, 9).await, [ids[0], ids[2]]);
    assert_eq!(ripe(NOW, 2).await, [ids[0], ids[1]]);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.applied_payment_of(there.id).await.unwrap().is_none());
    assert!(tx.set_payment_state(ids[0], PaymentState::Early, PaymentState::Applied).await.unwrap());
    assert_eq!(tx.applied_payment_of(there.id).await.unwrap().unwrap().id, ids[0]);
    assert!(tx.insert_refund(ids[1], "refund-t-2", Fen(4900), NOW).await.unwrap());
    tx.commit().await.unwrap();
    let due = db.store.due_refund(ids[1]).await.unwrap().unwrap();
    assert_eq!((due.idem_key.as_str(), due.amount, due.payment.transaction.as_str()), ("refund-t-2", Fen(4900), "t-2"));
    assert!(db.store.due_refund(ids[0]).await.unwrap().is_none());
}

fn paid(transaction: &str, amount: i64) -> SandboxEntry {
    let (key, transaction) = (transaction.to_owned(), transaction.to_owned());
    SandboxEntry { way: Way::Paid, key, transaction, order: OrderId(5), amount: Fen(amount), at: NOW }
}

async fn the_sandbox_keeps_one_line_for_each_key(db: Database) {
    let payment = |id: &str| SandboxPayment {
        id: id.to_owned(),
        order: OrderId(5),
        amount: Fen(1200),
        callback_url: "/callback".to_owned(),
        return_url: "/orders/5".to_owned(),
    };
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.put_sandbox_payment(&payment("a"), NOW).await.unwrap(), payment("a"));
    assert_eq!(tx.put_sandbox_payment(&payment("b"), NOW).await.unwrap(), payment("a"), "one payment an order");
    let back = |key: &str, amount| SandboxEntry { way: Way::Refunded, key: key.to_owned(), ..paid("t-1", amount) };
    assert_eq!(tx.put_sandbox_entry(&paid("t-1", 1200)).await.unwrap(), None);
    assert_eq!(tx.put_sandbox_entry(&back("k", 1200)).await.unwrap(), None);
    assert_eq!(tx.put_sandbox_entry(&back("k", 700)).await.unwrap(), Some(back("k", 1200)));
    tx.commit().await.unwrap();
    assert_eq!(db.store.sandbox_payment("a").await.unwrap(), Some(payment("a")));
    assert_eq!(db.store.sandbox_payment("b").await.unwrap(), None);
    assert_eq!(db.store.sandbox_entries().await.unwrap(), [paid("t-1", 1200), back("k", 1200)]);
    assert_eq!(db.store.sandbox_taken("t-1").await.unwrap(), Some((Fen(1200), OrderId(5))));
    assert_eq!(db.store.sandbox_taken("t-2").await.unwrap(), None);
}

async fn a_notice_of_the_sandbox_waits_until_it_is_answered(db: Database) {
    let mut tx = db.store.begin().await.unwrap();
    tx.put_sandbox_letter("m-1", "/callback", "{}", NOW).await.unwrap();
    tx.put_sandbox_letter("m-2", "/callback", "{}", NOW + MINUTE).await.unwrap();
    tx.commit().await.unwrap();
    let due = db.store.sandbox_letters_due(NOW, 9).await.unwrap();
    assert_eq!((due.len(), due[0].id.as_str(), due[0].attempts), (1, "m-1", 0));
    let mut tx = db.store.begin().await.unwrap();
    tx.retry_sandbox_letter("m-1", NOW + Duration::from_secs(1)).await.unwrap();
    tx.finish_sandbox_letter("m-2", NOW).await.unwrap();
    tx.commit().await.unwrap();
    assert!(db.store.sandbox_letters_due(NOW, 9).await.unwrap().is_empty());
    let due = db.store.sandbox_letters_due(NOW + MINUTE, 9).await.unwrap();
    assert_eq!((due.len(), due[0].id.as_str(), due[0].attempts), (1, "m-1", 1));
}
