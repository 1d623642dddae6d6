//! Stories of orders: coming to be, being read, moving on.

use std::time::Duration;

use seckill::domain::ids::{OrderId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::order::{CloseReason, Refund, Status};
use seckill::domain::payment::PaymentState;
use seckill::store::{KnownOrder, NewOrder, NewPayment, Stamps, StoreError};

use super::{Database, MINUTE, NOW, on_both, order};

on_both!(
    a_repeat_and_a_second_live_order_are_not_returned_and_told_apart,
    a_large_batch_is_saved_whole,
    an_entry_of_an_unknown_user_is_refused_and_nothing_of_its_batch_stays,
    a_failed_row_never_takes_the_place_of_another,
    an_order_moves_once_from_each_state,
    a_restocked_refund_frees_its_buyer_and_a_plain_one_does_not,
    orders_are_listed_newest_first_and_in_pages,
    row_and_epoch_are_read_together,
    the_due_ones_are_found_by_their_deadline,
);

async fn a_repeat_and_a_second_live_order_are_not_returned_and_told_apart(db: Database) {
    let (v, users) = db.sale(10, 3).await;
    let first = order(1, users[0], v);
    assert_eq!(db.place(&[first]).await, [first.id]);

    // A repeat, a second order of the same buyer, two of one buyer in one batch, and a new one.
    let batch = [first, order(2, users[0], v), order(3, users[1], v), order(4, users[1], v), order(5, users[2], v)];
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.insert_pending(&batch).await.unwrap(), [batch[2].id, batch[4].id]);
    let known = tx.identify(&[batch[0].id, batch[1].id, batch[3].id]).await.unwrap();
    assert_eq!(known, [KnownOrder { id: first.id, user: users[0], voucher: v, status: Status::Pending }]);
    assert!(tx.identify(&[]).await.unwrap().is_empty());
    assert!(tx.insert_pending(&[]).await.unwrap().is_empty());
    tx.commit().await.unwrap();
}

async fn a_large_batch_is_saved_whole(db: Database) {
    let (v, users) = db.sale(2000, 1300).await;
    let batch: Vec<NewOrder> = (1..).zip(&users).map(|(n, user)| order(n, *user, v)).collect();
    let ids: Vec<OrderId> = batch.iter().map(|order| order.id).collect();
    assert_eq!(db.place(&batch).await, ids);
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.insert_pending(&batch).await.unwrap().is_empty());
    assert_eq!(tx.identify(&ids).await.unwrap().len(), 1300);
    tx.commit().await.unwrap();
    assert_eq!(db.store.figures(v).await.unwrap().unwrap().a, 1300);
}

async fn an_entry_of_an_unknown_user_is_refused_and_nothing_of_its_batch_stays(db: Database) {
    let (v, users) = db.sale(10, 1).await;
    let batch = [order(1, users[0], v), order(2, UserId(404), v)];
    let mut tx = db.store.begin().await.unwrap();
    let refused = tx.insert_pending(&batch).await.unwrap_err();
    assert!(matches!(refused, StoreError::UnknownReference) && !refused.is_transient());
    let refused = tx.insert_failed(&batch, CloseReason::Duplicate, NOW).await.unwrap_err();
    assert!(matches!(refused, StoreError::UnknownReference));
    tx.commit().await.unwrap();
    assert!(db.store.order(batch[0].id).await.unwrap().is_none());
}

async fn a_failed_row_never_takes_the_place_of_another(db: Database) {
    let (v, users) = db.sale(10, 2).await;
    let (pending, late) = (order(1, users[0], v), order(2, users[0], v));
    db.place(&[pending]).await;
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.insert_failed(&[pending, late], CloseReason::Duplicate, NOW).await.unwrap(), [late.id]);
    assert!(tx.insert_failed(&[late], CloseReason::Lost, NOW).await.unwrap().is_empty());
    assert!(tx.insert_failed(&[], CloseReason::Lost, NOW).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    let failed = db.store.order(late.id).await.unwrap().unwrap();
    assert_eq!((failed.status, failed.close_reason, failed.closed_at), (Status::Failed, Some(CloseReason::Duplicate), Some(NOW)));
    assert_eq!(failed.pay_before, None);
    assert_eq!(db.store.order(pending.id).await.unwrap().unwrap().status, Status::Pending);
    // Nor does a pending one take a failed one's.
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.insert_pending(&[NewOrder { user: users[1], ..late }]).await.unwrap().is_empty());
}

async fn an_order_moves_once_from_each_state(db: Database) {
    let (v, users) = db.sale(10, 1).await;
    let new = order(1, users[0], v);
    db.place(&[new]).await;
    let read = db.store.order(new.id).await.unwrap().unwrap();
    assert_eq!((read.user, read.voucher, read.voucher_title.as_str()), (users[0], v, "双人下午茶"));
    assert_eq!((read.status, read.version, read.pay_amount, read.epoch), (Status::Pending, 1, Fen(4900), 0));
    assert_eq!((read.created_at, read.pay_before), (new.created_at, Some(new.pay_before)));
    assert_eq!((read.ahead, read.coupon_code.as_deref(), read.refund), (None, None, None));

    let mut tx = db.store.begin().await.unwrap();
    let at = NOW + MINUTE;
    let stamps = Stamps { paid_at: Some(at), coupon_code: Some(String::from("K7Q2")), ..Stamps::default() };
    let paid = tx.transition(new.id, Status::Pending, Status::Paid, &stamps).await.unwrap().unwrap();
    assert_eq!((paid.status, paid.version, paid.paid_at), (Status::Paid, 2, Some(at)));
    assert_eq!(paid.coupon_code.as_deref(), Some("K7Q2"));
    let stamps = Stamps { closed_at: Some(at), close_reason: Some(CloseReason::Timeout), ..Stamps::default() };
    assert!(tx.transition(new.id, Status::Pending, Status::Cancelled, &stamps).await.unwrap().is_none());
    let refunding = tx.transition(new.id, Status::Paid, Status::Refunding, &Stamps::default()).await.unwrap().unwrap();
    assert_eq!((refunding.refund, refunding.paid_at, refunding.version), (Some(Refund::Due), Some(at), 3));
    assert_eq!(tx.order(new.id).await.unwrap(), Some(refunding));
    tx.commit().await.unwrap();

    // A cancelled order that was paid late says that its money is on the way back.
    let mut tx = db.store.begin().await.unwrap();
    let late =
        NewPayment { provider: "sandbox", transaction: "t-1", order: new.id, amount: Fen(4900), state: PaymentState::RefundDue };
    let payment = tx.insert_payment(&late, NOW).await.unwrap().unwrap();
    let stamps = Stamps { refunded_at: Some(at), ..Stamps::default() };
    let done = tx.transition(new.id, Status::Refunding, Status::Refunded, &stamps).await.unwrap().unwrap();
    assert_eq!(done.refund, Some(Refund::Due), "one payment still has to go back");
    assert!(tx.set_payment_state(payment, PaymentState::RefundDue, PaymentState::Refunded).await.unwrap());
    assert_eq!(tx.order(new.id).await.unwrap().unwrap().refund, Some(Refund::Done));
}

async fn a_restocked_refund_frees_its_buyer_and_a_plain_one_does_not(db: Database) {
    let (v, users) = db.sale(10, 2).await;
    let orders = [order(1, users[0], v), order(2, users[1], v)];
    db.place(&orders).await;
    let mut tx = db.store.begin().await.unwrap();
    for (order, restock) in [(orders[0], false), (orders[1], true)] {
        let paid = Stamps { paid_at: Some(NOW), ..Stamps::default() };
        tx.transition(order.id, Status::Pending, Status::Paid, &paid).await.unwrap().unwrap();
        tx.transition(order.id, Status::Paid, Status::Refunding, &Stamps::default()).await.unwrap().unwrap();
        let back = Stamps { refunded_at: Some(NOW), restock, ..Stamps::default() };
        tx.transition(order.id, Status::Refunding, Status::Refunded, &back).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(db.store.live_orders_of(v).await.unwrap(), [(users[0], orders[0].id)]);
    let again = [order(3, users[0], v), order(4, users[1], v)];
    assert_eq!(db.place(&again).await, [again[1].id]);
}

async fn orders_are_listed_newest_first_and_in_pages(db: Database) {
    let (v, users) = db.sale(10, 2).await;
    let user = users[0];
    let old = NewOrder { created_at: NOW - 60 * MINUTE, ..order(1, user, v) };
    let mut tx = db.store.begin().await.unwrap();
    tx.insert_failed(&[old, order(2, user, v)], CloseReason::SoldOut, NOW - 60 * MINUTE).await.unwrap();
    tx.insert_failed(&[order(3, user, v)], CloseReason::Discarded, NOW).await.unwrap();
    tx.commit().await.unwrap();
    let live = NewOrder { created_at: NOW - 60 * MINUTE, ..order(4, user, v) };
    db.place(&[live, order(5, users[1], v)]).await;

    let ids = |orders: Vec<seckill::domain::order::Order>| orders.iter().map(|o| o.id.sequence()).collect::<Vec<_>>();
    assert_eq!(ids(db.store.orders_of(user, None, 3).await.unwrap()), [4, 3, 2]);
    assert_eq!(ids(db.store.orders_of(user, Some(OrderId::new(NOW, 2)), 3).await.unwrap()), [1]);
    assert_eq!(ids(db.store.live_and_recent(user, NOW, 50).await.unwrap()), [4, 3, 2]);
    assert_eq!(ids(db.store.live_and_recent(user, NOW + MINUTE, 50).await.unwrap()), [4]);
    assert_eq!(ids(db.store.live_and_recent(user, NOW, 1).await.unwrap()), [4]);
    assert_eq!(db.store.live_order_of(user, v).await.unwrap().unwrap().id, live.id);
    assert!(db.store.live_order_of(user, VoucherId(404)).await.unwrap().is_none());
    assert_eq!(ids(db.store.held_by(user, &[v, VoucherId(404)]).await.unwrap()), [4]);
    assert!(db.store.held_by(user, &[]).await.unwrap().is_empty());
}

async fn row_and_epoch_are_read_together(db: Database) {
    let (v, users) = db.sale(10, 1).await;
    let (new, absent) = (order(1, users[0], v), OrderId::new(NOW, 9));
    db.place(&[new]).await;
    let (claim, seen) = db.store.burn_claim(v).await.unwrap().unwrap();
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.move_epoch(v, seen, claim, 0).await.unwrap());
    tx.commit().await.unwrap();
    let (order, epoch) = db.store.order_and_epoch(new.id, v).await.unwrap();
    assert_eq!((order.map(|o| (o.id, o.status)), epoch), (Some((new.id, Status::Pending)), Some(1)));
    assert_eq!(db.store.order_and_epoch(absent, v).await.unwrap(), (None, Some(1)));
    assert_eq!(db.store.order_and_epoch(absent, VoucherId(404)).await.unwrap(), (None, None));
    let (order, epoch) = db.store.order_and_epoch(new.id, VoucherId(404)).await.unwrap();
    assert_eq!((order.map(|o| o.id), epoch), (Some(new.id), None));
}

async fn the_due_ones_are_found_by_their_deadline(db: Database) {
    let (v, users) = db.sale(10, 3).await;
    assert_eq!(db.store.next_deadline().await.unwrap(), None);
    let mut orders = [order(1, users[0], v), order(2, users[1], v), order(3, users[2], v)];
    orders[0].pay_before = NOW + 3 * MINUTE;
    orders[1].pay_before = NOW + MINUTE;
    orders[2].pay_before = NOW + 2 * MINUTE;
    db.place(&orders).await;
    assert_eq!(db.store.next_deadline().await.unwrap(), Some(NOW + MINUTE));
    assert!(db.store.due_orders(NOW + MINUTE - Duration::from_millis(1), 9).await.unwrap().is_empty());
    assert_eq!(db.store.due_orders(NOW + 3 * MINUTE, 9).await.unwrap(), [orders[1].id, orders[2].id, orders[0].id]);
    assert_eq!(db.store.due_orders(NOW + 3 * MINUTE, 1).await.unwrap(), [orders[1].id]);
    let mut tx = db.store.begin().await.unwrap();
    assert_eq!(tx.take_due_orders(NOW + 2 * MINUTE, 9).await.unwrap(), [orders[1].id, orders[2].id]);
    if db.url.starts_with("postgres") {
        // Another worker gets the others, and does not wait.
        let mut other = db.store.begin().await.unwrap();
        assert_eq!(other.take_due_orders(NOW + 3 * MINUTE, 9).await.unwrap(), [orders[0].id]);
    }
    let stamps = Stamps { closed_at: Some(NOW), close_reason: Some(CloseReason::Timeout), ..Stamps::default() };
    tx.transition(orders[1].id, Status::Pending, Status::Cancelled, &stamps).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.store.next_deadline().await.unwrap(), Some(NOW + 2 * MINUTE));
}
