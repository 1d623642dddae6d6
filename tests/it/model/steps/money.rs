//! Notices and the sweep (`service/notice.rs`, `service/settle.rs`), and money sent back (`service/refund.rs`).

use seckill::domain::order::{Action, Status, next};
use seckill::domain::payment::PaymentState;

use super::super::mutants::Guard;
use super::super::sql::{Halt, Payment, Row};
use super::super::world::{At, Task, Used, Way, World, u};

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let p = u(k.pay);
    match k.at {
        At::NoticeInsert => {
            if !k.in_tx {
                k.fail = At::Idle;
                w.begin(t, k, way)?;
            }
            w.db.payments[p].lock(t)?;
            k.then = At::Idle;
            match w.db.payments[p].get(t) {
                None => {
                    let new = Payment { state: PaymentState::Early, key: k.key, ends: false, restock: false };
                    w.db.payments[p].put(t, Some(new));
                    (k.at, k.tries) = (At::PaymentOrder, 1);
                }
                Some(known) if known.state == PaymentState::Applied && w.without(Guard::KnownPaymentIsLeftAlone) => {
                    w.db.payments[p].put(t, Some(Payment { state: PaymentState::RefundDue, ..known }));
                    k.at = At::Commit;
                }
                // Known: whatever the first notice led to stands.
                Some(_) => k.at = At::Commit,
            }
        }
        At::PaymentLock => {
            if !k.in_tx {
                k.fail = At::Idle;
                w.begin(t, k, way)?;
            }
            w.db.payments[p].lock(t)?;
            let payment = w.db.payments[p].get(t);
            let Some(early) = payment.filter(|p| p.state == PaymentState::Early) else { return Err(Halt::Error) };
            w.db.payments[p].put(t, payment);
            (k.key, k.tries, k.then, k.at) = (early.key, 0, At::Idle, At::PaymentOrder);
        }
        At::PaymentOrder => {
            w.statement(k, way)?;
            match w.db.orders[u(k.key)].get(t) {
                Some(row) if next(row.status, Action::Pay).is_some() => k.at = At::PaymentApply,
                Some(_) => {
                    if !w.without(Guard::LateMoneyGoesBack) {
                        owe(w, t, p);
                    }
                    k.at = At::Commit;
                }
                None => {
                    // No row: kept; after the pay window it goes back.
                    if k.flag && !w.without(Guard::EarlyRefundedInTheEnd) {
                        owe(w, t, p);
                    } else if k.tries == 1 && !w.without(Guard::EarlySweep) {
                        // Its row may be committed by a transaction that could not see this payment: looked for again.
                        k.then = At::PaymentLock;
                    }
                    k.at = At::Commit;
                }
            }
        }
        At::PaymentApply => {
            let cell = &w.db.orders[u(k.key)];
            cell.lock(t)?;
            let row = cell.get(t);
            w.statement(k, way)?;
            match row.and_then(|r| next(r.status, Action::Pay).map(|status| Row { status, ..r })) {
                Some(paid) => {
                    w.db.orders[u(k.key)].put(t, Some(paid));
                    set_state(w, t, p, PaymentState::Applied);
                    k.at = At::Commit;
                }
                // Somebody changed it between the look and the update: look again.
                None => k.at = At::PaymentOrder,
            }
        }
        At::ProviderRefund => {
            w.used = Used::Provider;
            k.at = At::Idle;
            if matches!(way, Way::Fine | Way::Void | Way::Late) {
                // The provider knows a refund by its key: the same key is the same refund.
                w.refunds[p] = if w.without(Guard::RefundKey) { w.refunds[p] + 1 } else { 1 };
                if w.refunds[p] > 1 {
                    w.break_with("a payment was refunded more than once");
                }
                if way == Way::Fine {
                    k.at = At::RefundTake;
                }
            }
        }
        At::RefundTake => {
            if !k.in_tx {
                k.fail = At::Idle;
                w.begin(t, k, way)?;
            }
            w.db.payments[p].lock(t)?;
            let Some(payment) = w.db.payments[p].get(t) else { return Err(Halt::Error) };
            let blind = w.without(Guard::RefundEndCondition);
            if payment.state != PaymentState::RefundDue && !blind {
                return Err(Halt::Error); // another instance asked too, with the same key
            }
            w.db.payments[p].put(t, Some(Payment { state: PaymentState::Refunded, ..payment }));
            (k.key, k.flag, k.then) = (payment.key, payment.restock, At::Idle);
            k.at = if payment.ends { At::RefundEnd } else { At::Commit };
        }
        At::RefundEnd => {
            let cell = &w.db.orders[u(k.key)];
            cell.lock(t)?;
            let row = cell.get(t);
            w.statement(k, way)?;
            let blind = w.without(Guard::RefundEndCondition);
            let ended = |r: &Row| next(r.status, Action::CompleteRefund).is_some() || blind;
            match row.filter(ended) {
                Some(row) => {
                    let live = !k.flag && !w.without(Guard::RefundedIsLive);
                    w.db.orders[u(k.key)].put(t, Some(Row { status: Status::Refunded, live, ..row }));
                    k.sale = row.sale;
                    k.at = if k.flag { At::RefundRelease } else { At::Commit };
                }
                None => k.at = At::Commit,
            }
        }
        // With restock: the unit goes back as after a cancel.
        _ => {
            w.db.releases[u(k.key)].lock(t)?;
            w.statement(k, way)?;
            w.put_release(t, k.key);
            (k.at, k.then) = (At::ReturnUnit, At::Idle);
        }
    }
    Ok(())
}

/// The payment found no order that it could pay: it goes back, and the order is never resurrected.
fn owe(w: &mut World, t: u8, p: usize) {
    set_state(w, t, p, PaymentState::RefundDue);
}

fn set_state(w: &mut World, t: u8, p: usize, state: PaymentState) {
    if let Some(payment) = w.db.payments[p].get(t) {
        w.db.payments[p].put(t, Some(Payment { state, ..payment }));
    }
}
