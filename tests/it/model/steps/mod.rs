//! What each task does in one step, and how it finds its next work. The steps are those of `src/service`.

mod buy;
mod letters;
mod money;
mod orders;
mod place;
pub mod poll;
mod rebuild;

use seckill::domain::order::{Action, Status, next};
use seckill::domain::payment::PaymentState;

use super::mutants::Guard;
use super::sql::{Halt, Release};
use super::world::{At, Decision, Kind, LETTERS, NOBODY, PAYS, Task, Used, Way, World, u};

/// One step of task `t`. An error is the task that it waits for; nothing changed then.
pub fn step(w: &mut World, t: u8, way: Way) -> Result<(), u8> {
    let mut k = w.tasks[u(t)];
    w.used = Used::Nothing;
    match go(w, t, &mut k, way) {
        Ok(()) => {}
        Err(Halt::Wait(other)) => return Err(other),
        Err(Halt::Error) => {
            w.end_tx(t, false);
            k.in_tx = false;
            k.at = k.fail;
        }
    }
    if k.at == At::Idle && k.once {
        k.done = true;
    }
    w.tasks[u(t)] = k;
    Ok(())
}

/// The database ends `t`'s transaction to free others; or its connection breaks.
pub fn victim(w: &mut World, t: u8) {
    w.end_tx(t, false);
    let k = &mut w.tasks[u(t)];
    k.in_tx = false;
    k.dropped = false;
    k.at = k.fail;
}

fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    match k.at {
        At::Idle => {
            find_work(w, k);
            Ok(())
        }
        At::TakeId | At::AskEpochOfGate | At::Admit | At::RefreshEpoch | At::AskBlock | At::RegisterBlock | At::RaiseCounter => {
            buy::go(w, t, k, way)
        }
        At::Receive
        | At::SettleFirst
        | At::PlaceBegin
        | At::CloseLetter
        | At::InsertPending
        | At::Identify
        | At::InsertDuplicate
        | At::ApplyEarly
        | At::TakeUnits
        | At::Settle
        | At::SettleDelete
        | At::NextPart => place::go(w, t, k, way),
        At::AloneBegin
        | At::AloneCloseLetter
        | At::AloneIdentify
        | At::AloneEpoch
        | At::AloneInsert
        | At::AloneTouch
        | At::BuryBegin
        | At::Bury
        | At::DiscardBegin
        | At::DiscardInsert
        | At::DiscardTouch
        | At::Requeue => letters::go(w, t, k, way),
        At::Commit => {
            let known = w.commit(t, k, way);
            k.at = if known { k.then } else { k.fail };
            if known && k.letter != NOBODY && k.at == At::Idle {
                k.n = 0;
            }
            Ok(())
        }
        At::ReleaseLook
        | At::ReleaseApply
        | At::ReleaseDone
        | At::ReleaseTooEarly
        | At::CancelUpdate
        | At::CancelRelease
        | At::ReturnUnit
        | At::RefundStart
        | At::RefundStartPayment => orders::go(w, t, k, way),
        At::NoticeInsert
        | At::PaymentLock
        | At::PaymentOrder
        | At::PaymentApply
        | At::ProviderRefund
        | At::RefundTake
        | At::RefundEnd
        | At::RefundRelease => money::go(w, t, k, way),
        At::PollTicket | At::PollEpoch | At::PollRow | At::PollHolder | At::PollRowAgain | At::DropNames => {
            poll::go(w, t, k, way)
        }
        _ => rebuild::go(w, t, k, way),
    }
}

/// What an idle task does next, if there is anything.
fn find_work(w: &mut World, k: &mut Task) {
    (k.fail, k.then, k.n, k.i, k.letter, k.decision) = (At::Idle, At::Idle, 0, 0, NOBODY, Decision::None);
    if w.instances > 0 && !matches!(k.kind, Kind::Consumer | Kind::Releaser | Kind::Reconciler | Kind::IdSource) {
        // A browser, a provider or a timer meets any of the processes.
        k.instance = w.below(w.instances);
    }
    match k.kind {
        Kind::Buyer if !w.healing && w.has_room() => {
            k.sale = w.below(w.sales);
            (k.tries, k.seen) = (0, NOBODY);
            k.at = if w.without(Guard::EpochFromSql) { At::AskEpochOfGate } else { At::TakeId };
        }
        Kind::Consumer => k.at = At::Receive,
        Kind::Releaser => {
            if let Some(key) = pick(w, w.ids_n, |w, key| w.db.releases[u(key)].now == Release::Open) {
                (k.key, k.at) = (key, At::ReleaseLook);
            }
        }
        Kind::Canceller if !w.healing && w.chance(350) => {
            let pending = |w: &World, key: u8| status(w, key).is_some_and(|s| next(s, Action::Cancel).is_some());
            let any = |w: &World, key: u8| status(w, key).is_some();
            let found = if w.without(Guard::CancelCondition) { pick(w, w.ids_n, any) } else { pick(w, w.ids_n, pending) };
            if let Some(key) = found {
                (k.key, k.flag) = (key, false);
                k.at = if w.without(Guard::ReleaseAfterCommit) { At::ReleaseTooEarly } else { At::CancelUpdate };
            }
        }
        Kind::Payer => pay_or_notice(w, k),
        Kind::Sweep => {
            let early = |w: &World, p: u8| w.db.payments[u(p)].now.is_some_and(|p| p.state == PaymentState::Early);
            if !w.without(Guard::EarlySweep)
                && let Some(pay) = pick(w, PAYS as u8, early)
            {
                k.pay = pay;
                // Old enough that no row can come in time: the clock of the pay window.
                k.flag = w.healing || w.chance(30);
                (k.at, k.then) = (At::PaymentLock, At::Idle);
            }
        }
        Kind::Refunder => {
            let due = |w: &World, p: u8| w.db.payments[u(p)].now.is_some_and(|p| p.state == PaymentState::RefundDue);
            if let Some(pay) = pick(w, PAYS as u8, due) {
                (k.pay, k.at) = (pay, At::ProviderRefund);
            }
        }
        Kind::Admin => administer(w, k),
        Kind::Reconciler => {
            let sale = pick(w, w.sales, |w, sale| w.inst[u(k.instance)].nudged[u(sale)]);
            if let Some(sale) = sale {
                w.inst[u(k.instance)].nudged[u(sale)] = false;
                (k.sale, k.delta, k.tries) = (sale, 0, 0);
                k.at = if w.without(Guard::FreshLookBeforeRebuild) { At::Burn } else { At::Compare };
            } else if w.healing || w.chance(120) {
                (k.sale, k.delta, k.tries) = (w.below(w.sales), 0, 0);
                k.at = At::Compare;
            }
        }
        Kind::Poller if !w.healing => {
            if let Some(key) = pick(w, w.ids_n, |w, key| w.told[u(key)].is_some()) {
                poll::begin(w, k, key);
            }
        }
        Kind::IdSource if w.inst[u(k.instance)].day != w.day || w.inst[u(k.instance)].numbers.count_ones() < 2 => {
            k.at = At::AskBlock;
        }
        _ => {}
    }
}

fn pay_or_notice(w: &mut World, k: &mut Task) {
    let unheard = |w: &World, p: u8| w.paid[u(p)] != 0 && w.db.payments[u(p)].now.is_none();
    let known = |w: &World, p: u8| w.paid[u(p)] != 0;
    let free = (0..PAYS as u8).find(|p| w.paid[u(*p)] == 0);
    let notice = if w.healing {
        pick(w, PAYS as u8, unheard)
    } else if w.chance(400) {
        pick(w, PAYS as u8, known)
    } else {
        if let Some(free) = free
            && w.chance(400)
            && let Some(key) = pick(w, w.ids_n, |w, key| w.told[u(key)].is_some())
        {
            w.paid[u(free)] = key + 1;
        }
        pick(w, PAYS as u8, unheard)
    };
    if let Some(pay) = notice {
        (k.pay, k.key, k.flag) = (pay, w.paid[u(pay)] - 1, false);
        k.at = At::NoticeInsert;
    }
}

fn administer(w: &mut World, k: &mut Task) {
    if let Some(letter) = pick(w, LETTERS as u8, |w, l| w.db.letters[u(l)].now.is_some_and(|l| l.open))
        && (w.healing || w.chance(300))
    {
        letters::begin(w, k, letter);
        return;
    }
    if w.healing || !w.chance(w.class.admin) {
        return;
    }
    k.sale = w.below(w.sales);
    match w.below(5) {
        0 => {
            let paid = |w: &World, key: u8| status(w, key) == Some(Status::Paid);
            if let Some(key) = pick(w, w.ids_n, paid) {
                (k.key, k.flag) = (key, w.chance(600));
                k.at = At::RefundStart;
            }
        }
        1 => {
            k.delta = if w.chance(500) { 1 } else { -1 };
            let total = w.db.sales[u(k.sale)].now.total + k.delta;
            if (1..=4).contains(&total) {
                k.at = if w.without(Guard::StockChangeIsARebuild) { At::ChangeStock } else { At::Burn };
            }
        }
        2 => k.at = At::SetPaused,
        3 => {
            k.consumer = w.below(w.names.max(1));
            k.at = At::DropNames;
        }
        // A merchant who rebuilds by hand, without need.
        _ => (k.delta, k.at) = (0, At::Burn),
    }
}

/// One of the first `n` that fits, searched from anywhere.
fn pick(w: &mut World, n: u8, fits: impl Fn(&World, u8) -> bool) -> Option<u8> {
    if n == 0 {
        return None;
    }
    let from = w.below(n);
    (from..n).chain(0..from).find(|i| fits(w, *i))
}

/// The committed status of an order.
fn status(w: &World, key: u8) -> Option<Status> {
    w.db.orders[u(key)].now.map(|row| row.status)
}
