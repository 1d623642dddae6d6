//! The placing transaction of a batch (`service/place_orders.rs`) and the consumer around it (`worker/consumer.rs`).

use seckill::domain::order::{Action, CloseReason, next};
use seckill::domain::payment::PaymentState;

use super::super::mutants::Guard;
use super::super::server::{Call, Heard, Reply};
use super::super::sql::{Halt, Payment};
use super::super::world::{At, Decision, NOBODY, PAYS, Task, Way, World, u};

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    match k.at {
        At::Receive => receive(w, k, way),
        At::SettleFirst => {
            settle_call(w, k, way);
            k.at = At::PlaceBegin;
        }
        At::PlaceBegin => {
            k.fail = again(k);
            w.begin(t, k, way)?;
            (k.i, k.new, k.dup) = (k.lo, 0, 0);
            k.at = if k.letter == NOBODY { At::InsertPending } else { At::CloseLetter };
        }
        At::CloseLetter => {
            let cell = &w.db.letters[u(k.letter)];
            cell.lock(t)?;
            let mut letter = cell.get(t);
            w.statement(k, way)?;
            match &mut letter {
                Some(l) if l.open => l.open = false,
                _ => {
                    k.fail = At::Idle;
                    return Err(Halt::Error);
                }
            }
            w.db.letters[u(k.letter)].put(t, letter);
            k.at = At::InsertPending;
        }
        // One row a step: others may come between two rows of one statement.
        At::InsertPending => {
            let entry = k.batch[u(k.i)];
            let fresh = w.insert_pending(t, &entry)?;
            w.statement(k, way)?;
            if fresh {
                k.new |= 1 << k.i;
            }
            k.i += 1;
            if k.i == k.hi {
                let all = ((1 << k.hi) - 1) & !((1 << k.lo) - 1);
                k.at = if k.new == all { At::ApplyEarly } else { At::Identify };
            }
        }
        At::Identify => {
            w.statement(k, way)?;
            k.at = At::ApplyEarly;
            for i in k.lo..k.hi {
                let entry = k.batch[u(i)];
                match w.db.orders[u(entry.key)].get(t) {
                    _ if k.new >> i & 1 == 1 => {}
                    Some(row) if (row.user == entry.user && row.sale == entry.sale) || w.without(Guard::KnownIdIsCompared) => {}
                    Some(_) => {
                        wall(w, t, k);
                        return Ok(());
                    }
                    None if w.without(Guard::NotReturnedIsLookedAt) => {}
                    None => {
                        k.dup |= 1 << i;
                        k.i = k.lo;
                        k.at = At::InsertDuplicate;
                    }
                }
            }
        }
        At::InsertDuplicate => {
            if k.dup >> k.i & 1 == 1 {
                let always = w.without(Guard::FailedReleaseNeedsRow);
                let entry = k.batch[u(k.i)];
                let fresh = w.insert_failed(t, &entry, CloseReason::Duplicate, true, always)?;
                w.statement(k, way)?;
                if !fresh && !always {
                    // Somebody else decided it between the two statements: again.
                    return Err(Halt::Error);
                }
            }
            k.i += 1;
            if k.i == k.hi {
                k.at = At::ApplyEarly;
            }
        }
        At::ApplyEarly => {
            w.statement(k, way)?;
            k.at = At::TakeUnits;
            for p in 0..PAYS {
                let cell = &w.db.payments[p];
                let Some(payment) = cell.now.filter(|p| p.state == PaymentState::Early) else { continue };
                let placed = (k.lo..k.hi).any(|i| k.new >> i & 1 == 1 && k.batch[u(i)].key == payment.key);
                if placed && cell.get(t) == cell.now {
                    cell.lock(t)?;
                    apply_or_owe(w, t, p, payment);
                    k.at = At::ApplyEarly;
                    return Ok(());
                }
            }
            k.i = 0;
        }
        At::TakeUnits => take_units(w, t, k, way)?,
        At::Settle => {
            let two = w.without(Guard::AckAndDeleteTogether);
            let known = if two { settle_part(w, k, way, true, false) } else { settle_call(w, k, way) };
            (k.own, k.at) = (!known, if known { At::NextPart } else { At::Idle });
            if two && known {
                k.at = At::SettleDelete;
            }
            if !known {
                k.n = 0;
            }
        }
        At::SettleDelete => {
            settle_part(w, k, way, false, true);
            k.at = At::NextPart;
        }
        _ => {
            // The other half of a batch that was halved.
            if k.hi < k.n {
                (k.lo, k.hi) = (k.hi, k.n);
                k.at = At::PlaceBegin;
            } else {
                (k.at, k.n) = (At::Idle, 0);
            }
        }
    }
    Ok(())
}

/// What an error of the database leads to: the batch again; a letter is left to the next click.
fn again(k: &Task) -> At {
    if k.letter == NOBODY { At::PlaceBegin } else { At::Idle }
}

fn receive(w: &mut World, k: &mut Task, way: Way) {
    k.at = At::Idle;
    let consumer = k.consumer;
    let call = if k.own {
        Call::Own { consumer }
    } else if w.below(3) == 0 {
        Call::Claim { consumer }
    } else {
        Call::Read { consumer }
    };
    let Heard::Reply(Reply::Entries(n, batch)) = w.redis(k, call, way) else {
        // Entries may have been given to an answer that was lost.
        k.own = true;
        return;
    };
    (k.n, k.batch, k.lo, k.hi) = (n, batch, 0, n);
    if n == 0 {
        k.own = false;
        return;
    }
    if n == 2 {
        if w.ids[u(batch[0].key)] > w.ids[u(batch[1].key)] {
            k.batch.swap(0, 1);
        }
        if batch[0].key == batch[1].key {
            (k.n, k.hi) = (1, 1);
        }
    }
    k.at = if w.without(Guard::CommitBeforeAck) { At::SettleFirst } else { At::PlaceBegin };
    if w.chance(w.class.bury) {
        // This one cannot be saved: it is put aside, and the other stays with its name.
        (k.n, k.hi) = (1, 1);
        k.own = n == 2;
        k.at = At::BuryBegin;
    }
}

/// A wall: roll back, halve; alone it is decided by what SQL says.
fn wall(w: &mut World, t: u8, k: &mut Task) {
    w.end_tx(t, false);
    k.in_tx = false;
    if k.hi - k.lo > 1 {
        k.hi = k.lo + 1;
        k.at = At::PlaceBegin;
    } else {
        k.at = At::AloneBegin;
    }
}

/// The hot rows: in the order of the vouchers, under each entry's epoch, k = 0 included; one a step.
fn take_units(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let mut groups = [(NOBODY, 0_u8, 0_i8); 2];
    let mut n = 0;
    for i in k.lo..k.hi {
        let entry = k.batch[u(i)];
        let (new, dup) = (k.new >> i & 1 == 1, k.dup >> i & 1 == 1);
        let counted = new || (w.without(Guard::CountReturnedRows) && !dup);
        if counted || (dup && !w.without(Guard::DuplicatesTakeTheSaleRow)) {
            let at = (0..n).find(|&g| groups[g].0 == entry.sale && groups[g].1 == entry.epoch);
            let at = at.unwrap_or_else(|| {
                groups[n] = (entry.sale, entry.epoch, 0);
                n += 1;
                n - 1
            });
            groups[at].2 += i8::from(counted);
        }
    }
    if n == 2 && groups[0] > groups[1] {
        groups.swap(0, 1);
    }
    if u(k.i) < n {
        let (sale, epoch, units) = groups[u(k.i)];
        let taken = w.take_units(t, sale, epoch, units)?;
        w.statement(k, way)?;
        if !taken {
            wall(w, t, k);
            return Ok(());
        }
        k.i += 1;
    }
    if u(k.i) >= n {
        k.then = if k.decision == Decision::None { At::Settle } else { At::Idle };
        k.fail = again(k);
        k.at = At::Commit;
    }
    Ok(())
}

/// An early payment meets its order in this transaction (`service/settle.rs`).
fn apply_or_owe(w: &mut World, t: u8, p: usize, payment: Payment) {
    let row = w.db.orders[u(payment.key)].get(t);
    let mut payment = payment;
    payment.state = PaymentState::RefundDue;
    if let Some(mut row) = row
        && let Some(paid) = next(row.status, Action::Pay)
    {
        row.status = paid;
        payment.state = PaymentState::Applied;
        w.db.orders[u(payment.key)].put(t, Some(row));
    }
    w.db.payments[p].put(t, Some(payment));
}

fn settle_call(w: &mut World, k: &Task, way: Way) -> bool {
    settle_part(w, k, way, true, true)
}

fn settle_part(w: &mut World, k: &Task, way: Way, ack: bool, delete: bool) -> bool {
    let mut which = [(0, 0); 2];
    let mut n = 0;
    for i in k.lo..k.hi {
        which[u(n)] = (k.batch[u(i)].sid, k.batch[u(i)].key);
        n += 1;
    }
    matches!(w.redis(k, Call::Settle { n, which, ack, delete }, way), Heard::Reply(_))
}
