//! Stories of the control room: counts in one snapshot, lists, when a sale was sold out, what is kept of it.

use std::time::Duration;

use seckill::domain::ids::{OrderId, UserId, VoucherId};
use seckill::domain::money::Fen;
use seckill::domain::order::{CloseReason, Status};
use seckill::domain::payment::PaymentState;
use seckill::domain::time::Millis;
use seckill::store::{KeptCounts, NewOrder, NewPayment, OrderFilter, Release, Stamps};

use super::{Database, MINUTE, NOW, on_both, order};

on_both!(
    one_statement_counts_what_became_of_every_order,
    a_list_shows_one_state_page_by_page,
    a_sale_was_sold_out_when_the_last_unit_left,
    counts_of_a_sale_that_is_over_are_kept_once,
    the_outbox_is_listed_and_what_waits_alone_too,
);

/// Five orders: pending, paid, cancelled, timed out, failed; the second voucher has one of its own.
async fn five(db: &Database) -> (VoucherId, Vec<NewOrder>) {
    let (voucher, users) = db.sale(10, 6).await;
    let orders: Vec<NewOrder> = (1..).zip(&users).map(|(n, user)| order(n, *user, voucher)).collect();
    db.place(&orders[..4]).await;
    let mut tx = db.store.begin().await.unwrap();
    tx.insert_failed(&orders[4..5], CloseReason::Discarded, NOW).await.unwrap();
    tx.put_releases(&[Release { voucher, user: users[4], order: orders[4].id }], NOW).await.unwrap();
    let paid = Stamps { paid_at: Some(NOW), ..Stamps::default() };
    tx.transition(orders[1].id, Status::Pending, Status::Paid, &paid).await.unwrap().unwrap();
    for (i, why) in [(2, CloseReason::User), (3, CloseReason::Timeout)] {
        let closed = Stamps { closed_at: Some(NOW + MINUTE), close_reason: Some(why), ..Stamps::default() };
        tx.transition(orders[i].id, Status::Pending, Status::Cancelled, &closed).await.unwrap().unwrap();
        tx.return_unit(voucher).await.unwrap();
    }
    tx.commit().await.unwrap();
    (voucher, orders)
}

async fn one_statement_counts_what_became_of_every_order(db: Database) {
    let (voucher, _) = five(&db).await;
    let tally = db.store.tally(voucher).await.unwrap().unwrap();
    assert_eq!((tally.total, tally.left, tally.live, tally.unapplied, tally.rows), (10, 8, 2, 1, 5));
    assert_eq!((tally.pending, tally.paid, tally.cancelled, tally.timed_out, tally.failed), (1, 1, 1, 1, 1));
    assert_eq!((tally.refunding, tally.refunded, tally.version, tally.paused, tally.end), (0, 0, 1, false, NOW + 60 * MINUTE));
    assert!(tally.books_balance());
    assert!(db.store.tally(VoucherId(404)).await.unwrap().is_none());
}

async fn a_list_shows_one_state_page_by_page(db: Database) {
    let (voucher, orders) = five(&db).await;
    let list = async |filter, before, limit| {
        let found = db.store.orders_of_voucher(voucher, filter, before, limit).await.unwrap();
        found.iter().map(|order| order.id).collect::<Vec<_>>()
    };
    let ids: Vec<OrderId> = orders[..5].iter().rev().map(|order| order.id).collect();
    let all = OrderFilter::default();
    assert_eq!(list(all, None, 10).await, ids);
    assert_eq!(list(all, Some(ids[1]), 2).await, ids[2..4]);
    assert_eq!(list(OrderFilter { status: Some(Status::Paid), ..all }, None, 10).await, [orders[1].id]);
    let timed_out = OrderFilter { status: Some(Status::Cancelled), reason: Some(CloseReason::Timeout), live: None };
    assert_eq!(list(timed_out, None, 10).await, [orders[3].id]);
    assert_eq!(list(OrderFilter { live: Some(true), ..all }, None, 10).await, [orders[1].id, orders[0].id]);
    let lines = db.store.order_lines(voucher, 0, 3).await.unwrap();
    assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), orders[..3].iter().map(|o| o.id.0).collect::<Vec<_>>());
    assert_eq!((lines[2].status.as_str(), lines[2].close_reason.as_deref()), ("CANCELLED", Some("USER")));
    assert_eq!(db.store.order_lines(voucher, lines[2].id, 10).await.unwrap().len(), 2);
    let buyers: Vec<UserId> = orders[..4].iter().map(|order| order.user).collect();
    assert_eq!(db.store.buyers_of(voucher, UserId(0), 10).await.unwrap(), buyers, "who failed never held a unit");
    assert_eq!(db.store.buyers_of(voucher, buyers[1], 1).await.unwrap(), buyers[2..3]);
}

async fn a_sale_was_sold_out_when_the_last_unit_left(db: Database) {
    let at = |seconds: u64| NOW + Duration::from_secs(seconds);
    let (voucher, users) = db.sale(2, 4).await;
    assert_eq!(db.store.sold_out_at(voucher).await.unwrap(), None);
    assert_eq!(db.store.tally(voucher).await.unwrap().unwrap().rows, 0);
    let orders: Vec<NewOrder> =
        (1..).zip(&users).map(|(n, user)| NewOrder { admitted_at: at(u64::from(n) * 10), ..order(n, *user, voucher) }).collect();
    db.place(&orders[..1]).await;
    assert_eq!(db.store.sold_out_at(voucher).await.unwrap(), None, "one is left");
    // The first one comes back before the second and third leave.
    let mut tx = db.store.begin().await.unwrap();
    let closed = Stamps { closed_at: Some(at(15)), close_reason: Some(CloseReason::User), ..Stamps::default() };
    tx.transition(orders[0].id, Status::Pending, Status::Cancelled, &closed).await.unwrap().unwrap();
    tx.return_unit(voucher).await.unwrap();
    tx.commit().await.unwrap();
    db.place(&orders[1..2]).await;
    assert_eq!(db.store.sold_out_at(voucher).await.unwrap(), None);
    db.place(&orders[2..3]).await;
    assert_eq!(db.store.sold_out_at(voucher).await.unwrap(), Some(at(30)));
    // Units that come later do not change when it was sold out first.
    let mut tx = db.store.begin().await.unwrap();
    tx.sale_locked(voucher).await.unwrap();
    tx.change_stock(voucher, 5, at(40)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.store.sold_out_at(voucher).await.unwrap(), Some(at(30)));
    let sale = db.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.stock_total, sale.stock_left, sale.version), (7, 5, 2));
    let mut tx = db.store.begin().await.unwrap();
    assert!(tx.change_stock(voucher, -6, at(50)).await.is_err(), "less than nothing");
    drop(tx);
    let mut tx = db.store.begin().await.unwrap();
    tx.set_window(voucher, NOW - MINUTE, at(60)).await.unwrap();
    tx.raise_sale_version(voucher).await.unwrap();
    tx.commit().await.unwrap();
    let sale = db.store.sale(voucher).await.unwrap().unwrap();
    assert_eq!((sale.begin, sale.end, sale.version), (NOW - MINUTE, at(60), 4));
}

async fn counts_of_a_sale_that_is_over_are_kept_once(db: Database) {
    let (voucher, orders) = five(&db).await;
    assert_eq!(db.store.kept_counts(voucher).await.unwrap(), None);
    let end = NOW + 60 * MINUTE;
    let to_keep = async |from: Millis, to: Millis| db.store.sales_to_keep(from, to, 10).await.unwrap();
    assert_eq!(to_keep(NOW, end - MINUTE).await, []);
    assert_eq!(to_keep(end + MINUTE, end + 2 * MINUTE).await, []);
    assert_eq!(to_keep(NOW, end).await, [voucher]);
    let kept = KeptCounts { refused: String::from(r#"{"SOLD_OUT":7}"#), turned_away: 5 };
    for kept in [kept.clone(), KeptCounts { refused: String::from("{}"), turned_away: 9 }] {
        let mut tx = db.store.begin().await.unwrap();
        tx.keep_counts(voucher, &kept, NOW).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(db.store.kept_counts(voucher).await.unwrap(), Some(kept));
    assert_eq!(to_keep(NOW, end).await, []);
    assert_eq!(db.store.money_of(voucher).await.unwrap(), (0, 0));
    let mut tx = db.store.begin().await.unwrap();
    for (i, state) in [(0, PaymentState::Applied), (1, PaymentState::Refunded), (2, PaymentState::RefundDue)] {
        let transaction = &format!("t{i}");
        let payment = NewPayment { provider: "sandbox", transaction, order: orders[i].id, amount: Fen(4900), state };
        tx.insert_payment(&payment, NOW).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    assert_eq!(db.store.money_of(voucher).await.unwrap(), (4900, 4900));
}

async fn the_outbox_is_listed_and_what_waits_alone_too(db: Database) {
    let (voucher, _) = five(&db).await;
    let mut tx = db.store.begin().await.unwrap();
    tx.put_outbox("coupon", "coupon:1", "{}", NOW).await.unwrap();
    tx.put_outbox("coupon", "coupon:2", "{}", NOW).await.unwrap();
    tx.commit().await.unwrap();
    let all = db.store.outbox_lines(None, 10).await.unwrap();
    assert_eq!(all.iter().map(|line| line.kind.as_str()).collect::<Vec<_>>(), ["coupon", "coupon", "release"]);
    assert_eq!((all[2].voucher_id, all[2].attempts, all[2].done_at), (Some(voucher.0), 0, None));
    assert_eq!(db.store.outbox_lines(Some(all[0].id), 1).await.unwrap(), all[1..2]);
    db.store.finish_outbox(&[all[1].id], NOW).await.unwrap();
    let open = db.store.open_outbox_lines(None, None, 10).await.unwrap();
    assert_eq!(open, [all[0].clone(), all[2].clone()]);
    assert_eq!(db.store.open_outbox_lines(Some(voucher), None, 10).await.unwrap(), all[2..]);
    assert_eq!(db.store.open_outbox_lines(None, Some(all[0].id), 10).await.unwrap(), all[2..]);
}
