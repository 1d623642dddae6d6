//! The end of an unpaid order (`service/cancel.rs`), units given back (`service/release.rs`), a refund's beginning
//! (`service/refund.rs`).

use seckill::domain::order::{Action, Status, next};
use seckill::domain::payment::PaymentState;

use super::super::mutants::Guard;
use super::super::server::{Call, Heard, Reply};
use super::super::sql::{Halt, Payment, Release, Row};
use super::super::world::{At, PAYS, Task, Way, World, u};

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let key = u(k.key);
    match k.at {
        // Row and epoch in one statement: an epoch read later could belong to a gate that absorbed this row.
        At::ReleaseLook => {
            k.fail = At::Idle;
            w.statement(k, way)?;
            k.at = At::Idle;
            if w.db.releases[key].now == Release::Open
                && let Some(row) = w.db.orders[key].now
            {
                (k.sale, k.user, k.epoch) = (row.sale, row.user, w.db.sales[u(row.sale)].now.epoch);
                k.at = At::ReleaseApply;
            }
        }
        At::ReleaseApply | At::ReleaseTooEarly => {
            let early = k.at == At::ReleaseTooEarly;
            if early {
                let Some(row) = w.db.orders[key].now else { return Ok(()) };
                (k.sale, k.user, k.epoch) = (row.sale, row.user, w.db.sales[u(row.sale)].now.epoch);
            }
            let call = Call::Release { sale: k.sale, epoch: k.epoch, user: k.user, key: k.key };
            let done = w.redis(k, call, way) == Heard::Reply(Reply::Done);
            k.at = match (early, done) {
                (true, _) => At::CancelUpdate,
                (false, true) => At::ReleaseDone,
                (false, false) => At::Idle,
            };
        }
        At::ReleaseDone => {
            w.writer_free(t)?;
            w.db.releases[key].lock(t)?;
            k.fail = At::Idle;
            if matches!(way, Way::Fine | Way::Void | Way::Late) && w.db.releases[key].now == Release::Open {
                w.db.releases[key].put(t, Release::Done);
                w.end_tx(t, true);
            }
            w.statement(k, way)?;
            k.at = At::Idle;
        }
        At::CancelUpdate => {
            if !k.in_tx {
                k.fail = At::Idle;
                w.begin(t, k, way)?;
            }
            w.db.orders[key].lock(t)?;
            let Some(row) = w.db.orders[key].get(t) else { return Err(Halt::Error) };
            let ended = next(row.status, Action::Cancel);
            let ended = if w.without(Guard::CancelCondition) { Some(Status::Cancelled) } else { ended };
            // No row changed: it was paid or closed by somebody else meanwhile.
            let Some(ended) = ended else { return Err(Halt::Error) };
            k.sale = row.sale;
            w.db.orders[key].put(t, Some(Row { status: ended, live: false, ..row }));
            k.at = At::CancelRelease;
        }
        At::CancelRelease => {
            w.db.releases[key].lock(t)?;
            w.statement(k, way)?;
            w.put_release(t, k.key);
            (k.at, k.then) = (At::ReturnUnit, At::ReleaseLook);
        }
        // The hot row last: everybody who places an order of this sale waits for it.
        At::ReturnUnit => {
            let cell = &w.db.sales[u(k.sale)];
            cell.lock(t)?;
            let mut sale = cell.get(t);
            w.statement(k, way)?;
            sale.left += 1;
            w.db.sales[u(k.sale)].put(t, sale);
            (k.at, k.fail) = (At::Commit, At::Idle);
        }
        At::RefundStart => {
            if !k.in_tx {
                k.fail = At::Idle;
                w.begin(t, k, way)?;
            }
            w.db.orders[key].lock(t)?;
            let Some(row) = w.db.orders[key].get(t) else { return Err(Halt::Error) };
            let Some(status) = next(row.status, Action::Refund) else { return Err(Halt::Error) };
            w.db.orders[key].put(t, Some(Row { status, ..row }));
            k.at = At::RefundStartPayment;
        }
        _ => {
            let applied = |p: &Option<Payment>| p.is_some_and(|p| p.key == k.key && p.state == PaymentState::Applied);
            let Some(p) = (0..PAYS).find(|p| applied(&w.db.payments[*p].now)) else { return Err(Halt::Error) };
            w.db.payments[p].lock(t)?;
            w.statement(k, way)?;
            let due = w.db.payments[p].now.map(|p| Payment { state: PaymentState::RefundDue, ends: true, restock: k.flag, ..p });
            w.db.payments[p].put(t, due);
            (k.at, k.then, k.fail) = (At::Commit, At::Idle, At::Idle);
        }
    }
    Ok(())
}
