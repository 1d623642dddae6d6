//! An entry that stands alone, dead letters, and what a person decides about them (`service/place_orders.rs`).

use seckill::domain::order::CloseReason;

use super::super::mutants::Guard;
use super::super::server::{Call, Entry, Heard};
use super::super::sql::{Halt, Letter};
use super::super::world::{At, Decision, LETTERS, NOBODY, Task, Way, World, u};

/// A person decides about an open letter.
pub fn begin(w: &mut World, k: &mut Task, letter: u8) {
    let Some(Letter { entry, .. }) = w.db.letters[u(letter)].now else { return };
    (k.letter, k.n, k.lo, k.hi) = (letter, 1, 0, 1);
    k.batch = [entry, Entry::NONE];
    k.decision = if w.chance(500) { Decision::Retry } else { Decision::Discard };
    k.at = match k.decision {
        Decision::Discard => At::DiscardBegin,
        _ if w.without(Guard::RetryInTheTransaction) => At::Requeue,
        _ => At::PlaceBegin,
    };
    if k.decision == Decision::Retry && w.without(Guard::RetryKeepsEpoch) {
        k.batch[0].epoch = w.db.sales[u(entry.sale)].now.epoch;
    }
}

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let entry = k.batch[u(k.lo)];
    let (key, v) = (u(entry.key), u(entry.sale));
    match k.at {
        At::AloneBegin => {
            k.fail = again(k);
            w.begin(t, k, way)?;
            k.at = if k.letter == NOBODY { At::AloneIdentify } else { At::AloneCloseLetter };
        }
        At::AloneCloseLetter => {
            close_letter(w, t, k, way)?;
            k.at = At::AloneIdentify;
        }
        At::AloneIdentify => {
            w.statement(k, way)?;
            k.at = match w.db.orders[key].get(t) {
                None => At::AloneEpoch,
                Some(row) if (row.user == entry.user && row.sale == entry.sale) || w.without(Guard::KnownIdIsCompared) => {
                    return Err(Halt::Error); // again
                }
                Some(_) => return put_aside(k),
            };
        }
        At::AloneEpoch => {
            w.statement(k, way)?;
            let sale = w.db.sales[v].get(t);
            k.reason = if sale.epoch > entry.epoch {
                Some(CloseReason::Lost)
            } else if sale.epoch < entry.epoch {
                return put_aside(k);
            } else if sale.left >= 1 {
                return Err(Halt::Error); // again
            } else {
                Some(CloseReason::SoldOut)
            };
            k.at = At::AloneInsert;
        }
        At::AloneInsert => {
            let Some(reason) = k.reason else { return Err(Halt::Error) };
            let release = reason == CloseReason::SoldOut || w.without(Guard::LostWithoutRelease);
            let fresh = w.insert_failed(t, &entry, reason, release, false)?;
            w.statement(k, way)?;
            if !fresh {
                return Err(Halt::Error); // again
            }
            (k.then, k.fail) = (if k.letter == NOBODY { At::Settle } else { At::Idle }, again(k));
            k.at = if reason == CloseReason::SoldOut { At::AloneTouch } else { At::Commit };
        }
        At::AloneTouch => {
            w.db.sales[v].lock(t)?;
            w.statement(k, way)?;
            let sale = w.db.sales[v].get(t);
            if (sale.epoch != entry.epoch && !w.without(Guard::HotRowEpoch)) || sale.left >= 1 {
                return Err(Halt::Error); // again
            }
            w.db.sales[v].put(t, sale);
            k.at = At::Commit;
        }
        At::BuryBegin => {
            // Not put aside, not acknowledged: the batch is done again.
            k.fail = At::PlaceBegin;
            w.begin(t, k, way)?;
            k.at = At::Bury;
        }
        At::Bury => bury(w, t, k, way)?,
        At::DiscardBegin => {
            k.fail = At::Idle;
            w.begin(t, k, way)?;
            close_letter(w, t, k, Way::Fine)?;
            k.at = At::DiscardInsert;
        }
        At::DiscardInsert => {
            let always = w.without(Guard::DiscardReleaseNeedsRow);
            let sale = w.db.sales[v].get(t);
            // Its place is gone with the old epoch: LOST, whatever it would have been, and nothing to give back.
            let reason = if sale.epoch > entry.epoch && !w.without(Guard::HotRowEpoch) {
                CloseReason::Lost
            } else {
                CloseReason::Discarded
            };
            let release = reason == CloseReason::Discarded;
            let fresh = w.insert_failed(t, &entry, reason, release, always)?;
            w.statement(k, way)?;
            k.then = At::Idle;
            k.at = if fresh && release { At::DiscardTouch } else { At::Commit };
        }
        At::DiscardTouch => {
            let taken = w.take_units(t, entry.sale, entry.epoch, 0)?;
            w.statement(k, way)?;
            if !taken {
                return Err(Halt::Error);
            }
            k.at = At::Commit;
        }
        // The mutant's retry: back into the stream.
        _ => {
            k.at = At::Idle;
            if matches!(w.redis(k, Call::Requeue { entry }, way), Heard::Reply(_)) {
                let letter = w.db.letters[u(k.letter)].now.map(|l| Letter { open: false, ..l });
                w.db.letters[u(k.letter)].now = letter;
                w.db.letters[u(k.letter)].put(t, letter);
                w.end_tx(t, true);
            }
            k.n = 0;
        }
    }
    Ok(())
}

fn again(k: &Task) -> At {
    if k.letter == NOBODY { At::PlaceBegin } else { At::Idle }
}

/// Not to be saved, now or ever: a dead letter. One that is a dead letter already stays what it is.
fn put_aside(k: &mut Task) -> Result<(), Halt> {
    if k.letter != NOBODY {
        k.fail = At::Idle;
        return Err(Halt::Error);
    }
    k.at = At::Bury;
    Ok(())
}

fn close_letter(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let cell = &w.db.letters[u(k.letter)];
    cell.lock(t)?;
    let letter = cell.get(t);
    w.statement(k, way)?;
    match letter {
        Some(l) if l.open => w.db.letters[u(k.letter)].put(t, Some(Letter { open: false, ..l })),
        _ => {
            k.fail = At::Idle;
            return Err(Halt::Error);
        }
    }
    Ok(())
}

/// Committed first, acknowledged after; no order row, so that a retry finds its primary key free.
fn bury(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let entry = k.batch[u(k.lo)];
    let same = |l: &Letter| l.entry.sid == entry.sid && l.entry.key == entry.key;
    k.fail = At::PlaceBegin;
    let mut free = None;
    for l in 0..LETTERS {
        let cell = &w.db.letters[l];
        if cell.now.as_ref().is_some_and(same) {
            free = None;
            break;
        }
        // Another transaction puts the very same entry aside: the unique index waits for it.
        if cell.owner != t && cell.now.is_none() {
            cell.lock(t)?;
        }
        if cell.get(t).is_none() && free.is_none() {
            free = Some(l);
        }
        if l + 1 == LETTERS && free.is_none() {
            return Err(Halt::Error);
        }
    }
    w.statement(k, way)?;
    if let Some(l) = free {
        w.db.letters[l].put(t, Some(Letter { entry, open: true }));
        w.buried |= 1 << entry.key;
        if !w.without(Guard::BuryWritesNoRow) {
            (k.then, k.at) = (At::Settle, At::Commit);
            return Ok(());
        }
        w.insert_failed(t, &entry, CloseReason::Discarded, false, false)?;
    }
    (k.then, k.at) = (At::Settle, At::Commit);
    Ok(())
}
