//! Does the gate fit (`service/reconcile.rs`), and the rebuild when it does not (`service/rebuild.rs`); pause and stock
//! change, which share its row.

use super::super::mutants::Guard;
use super::super::server::{Call, Gate, Heard, LoadArgs, Reply};
use super::super::sql::{Halt, Release, SaleRow};
use super::super::world::{At, NOBODY, Task, Used, Way, World, u};

/// Looks that find a gate closed before somebody else than its rebuilder takes over.
const CLOSED_TOO_OFTEN: u8 = 4;

/// Whether the gate must be rebuilt; none: it is closed, and not yet known to be stuck.
fn broken(w: &World, seen: &SaleRow, gate: &Gate) -> Option<bool> {
    let Some(hash) = gate.hash else { return Some(true) };
    let Some(stock) = gate.stock else { return Some(true) };
    if !gate.run_fits && !w.without(Guard::AdmitComparesRunId) || !gate.stream {
        return Some(true);
    }
    if !hash.open {
        return None;
    }
    let sum = stock + gate.held == hash.total || w.without(Guard::Sum);
    Some(hash.epoch != seen.epoch || !sum || hash.total != seen.total)
}

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let v = u(k.sale);
    match k.at {
        // SQL first: an old epoch in a caller's memory is no reason for a rebuild.
        At::Compare => {
            k.fail = At::Idle;
            w.statement(k, way)?;
            let row = w.db.sales[v].now;
            (k.epoch, k.load.total, k.load.paused) = (row.epoch, row.total, row.paused);
            w.inst[u(k.instance)].epochs[v] = row.epoch;
            k.at = At::CompareGate;
        }
        At::CompareGate => compare(w, k, way),
        At::Burn | At::AskClaim => burn(w, t, k, way)?,
        At::Close => {
            k.at = At::Idle;
            let call = if w.without(Guard::Close) { Call::First } else { Call::Close { sale: k.sale, claim: k.claim } };
            let last = match w.redis(k, call, way) {
                Heard::Reply(Reply::Closed(last)) => last,
                // The mutant drains to what is there now, with an open gate.
                Heard::Reply(Reply::First(_)) => w.servers[u(w.inst[u(k.instance)].server)].stream.last,
                _ => return Ok(()),
            };
            k.last = last;
            // Epoch 0 was never open: nothing of this sale can be waiting.
            let skips = k.seen == 0 || w.without(Guard::Drain) || w.without(Guard::OnlyEpochZeroSkipsTheDrain) && k.seen <= 1;
            k.tries = 0;
            k.at = if skips { At::RebuildBegin } else { At::Drain };
        }
        At::Drain => match w.redis(k, Call::First, way) {
            Heard::Reply(Reply::First(Some(first))) if first <= k.last => {
                if k.once {
                    return Err(Halt::Wait(NOBODY)); // a small case: until others worked
                }
                k.tries += 1;
                if k.tries == 60 {
                    k.at = At::Idle; // its patience is over; it stays closed
                }
            }
            Heard::Reply(_) => k.at = if w.without(Guard::ReadUnderLock) { At::ReadBeforeLock } else { At::RebuildBegin },
            _ => k.at = At::Idle,
        },
        At::RebuildBegin => {
            k.fail = At::Idle;
            w.begin(t, k, way)?;
            k.at = At::MoveEpoch;
        }
        At::ReadBeforeLock => {
            k.fail = At::Idle;
            w.begin(t, k, way)?;
            w.statement(k, way)?;
            read_books(w, t, k);
            k.at = At::MoveEpoch;
        }
        At::MoveEpoch => {
            let cell = &w.db.sales[v];
            cell.lock(t)?;
            let mut row = cell.get(t);
            w.statement(k, way)?;
            let seen = row.epoch == k.seen || w.without(Guard::BumpFromSeen);
            if !seen || row.left + k.delta < 0 {
                return Err(Halt::Error); // another rebuild moved it; or there are not so many units to take off
            }
            (row.epoch, row.total, row.left) = (k.claim, row.total + k.delta, row.left + k.delta);
            w.db.sales[v].put(t, row);
            k.at = if w.without(Guard::ReadUnderLock) { At::AbsorbReleases } else { At::ReadUnderLock };
        }
        At::ReadUnderLock => {
            w.statement(k, way)?;
            read_books(w, t, k);
            k.at = At::AbsorbReleases;
        }
        At::AbsorbReleases => {
            w.statement(k, way)?;
            for key in 0..w.ids_n {
                let cell = &w.db.releases[u(key)];
                let of_sale = w.db.orders[u(key)].get(t).is_some_and(|row| row.sale == k.sale);
                if of_sale && cell.now == Release::Open {
                    cell.lock(t)?;
                }
            }
            for key in 0..w.ids_n {
                let of_sale = w.db.orders[u(key)].get(t).is_some_and(|row| row.sale == k.sale);
                if of_sale && w.db.releases[u(key)].now == Release::Open {
                    w.db.releases[u(key)].put(t, Release::Done);
                }
            }
            k.at = At::Load;
        }
        At::Load => {
            let call = Call::Load { sale: k.sale, claim: k.claim, args: k.load };
            if w.redis(k, call, way) == Heard::Reply(Reply::Done) {
                k.at = At::RebuildCommit;
            } else {
                return Err(Halt::Error); // refused, or no answer: roll back, give up
            }
        }
        At::RebuildCommit => k.at = if w.commit(t, k, way) { At::Open } else { At::ReadEpoch },
        At::ReadEpoch => {
            k.fail = At::Idle;
            w.statement(k, way)?;
            k.at = if w.db.sales[v].now.epoch == k.claim { At::Open } else { At::Idle };
        }
        // Only now.
        At::Open => {
            w.redis(k, Call::Open { sale: k.sale, claim: k.claim }, way);
            w.inst[u(k.instance)].epochs[v] = w.db.sales[v].now.epoch;
            k.at = At::Idle;
        }
        At::ChangeStock | At::SetPaused => {
            w.writer_free(t)?;
            w.db.sales[v].lock(t)?;
            k.fail = At::Idle;
            let mut row = w.db.sales[v].now;
            let stock = k.at == At::ChangeStock;
            if stock && row.left + k.delta < 0 {
                k.at = At::Idle;
                return Ok(());
            }
            if stock {
                (row.total, row.left) = (row.total + k.delta, row.left + k.delta);
            } else {
                row.paused = !row.paused;
            }
            (k.epoch, k.load.paused) = (row.epoch, row.paused);
            if matches!(way, Way::Fine | Way::Void | Way::Late) {
                w.db.sales[v].put(t, row);
                w.end_tx(t, true);
            }
            w.statement(k, way)?;
            k.at = if stock { At::IncrStock } else { At::CopyPause };
        }
        At::IncrStock => {
            w.redis(k, Call::Incr { sale: k.sale, by: k.delta }, way);
            k.at = At::Idle;
        }
        _ => {
            w.redis(k, Call::Pause { sale: k.sale, epoch: k.epoch, paused: k.load.paused }, way);
            k.at = At::Idle;
        }
    }
    Ok(())
}

/// Twice, both sides fresh: a rebuild elsewhere may have moved the epoch between our two reads.
fn compare(w: &mut World, k: &mut Task, way: Way) {
    let (i, v) = (u(k.instance), u(k.sale));
    k.at = At::Idle;
    let Heard::Reply(Reply::Gate(gate)) = w.redis(k, Call::Look { sale: k.sale }, way) else { return };
    let seen = SaleRow { total: k.load.total, left: 0, epoch: k.epoch, claimed: 0, paused: k.load.paused };
    match broken(w, &seen, &gate) {
        None => {
            w.inst[i].closed[v] += 1;
            if w.inst[i].closed[v] >= CLOSED_TOO_OFTEN {
                w.inst[i].closed[v] = 0;
                k.at = At::Burn;
            }
        }
        Some(true) => {
            w.inst[i].closed[v] = 0;
            k.tries += 1;
            k.at = if k.tries >= 2 { At::Burn } else { At::Compare };
        }
        Some(false) => {
            w.inst[i].closed[v] = 0;
            if gate.hash.is_some_and(|hash| hash.paused != k.load.paused) {
                k.at = At::CopyPause;
            }
        }
    }
}

/// A number that nobody else can have, committed by itself.
fn burn(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let v = u(k.sale);
    k.fail = At::Idle;
    if k.at == At::AskClaim {
        // A mutant: one above the highest that SQL or Redis knows.
        k.at = At::Idle;
        if let Heard::Reply(Reply::Gate(gate)) = w.redis(k, Call::Look { sale: k.sale }, way) {
            k.claim = k.claim.max(gate.hash.map_or(0, |hash| hash.epoch).saturating_add(1));
            k.at = At::Close;
        }
        return Ok(());
    }
    if w.without(Guard::BurntNumber) || w.without(Guard::NumberFromSqlAlone) {
        w.statement(k, way)?;
        k.seen = w.db.sales[v].now.epoch;
        k.claim = k.seen.saturating_add(1);
        k.at = if w.without(Guard::NumberFromSqlAlone) { At::AskClaim } else { At::Close };
        return Ok(());
    }
    w.writer_free(t)?;
    w.db.sales[v].lock(t)?;
    if matches!(way, Way::Fine | Way::Void | Way::Late) {
        let mut row = w.db.sales[v].now;
        row.claimed = row.claimed.saturating_add(1);
        (k.claim, k.seen) = (row.claimed, row.epoch);
        w.db.sales[v].put(t, row);
        w.end_tx(t, true);
        w.used = Used::Commit;
    }
    w.statement(k, way)?;
    k.at = At::Close;
    Ok(())
}

fn read_books(w: &World, t: u8, k: &mut Task) {
    let row = w.db.sales[u(k.sale)].get(t);
    let holders = w.live_holders(t, k.sale);
    // Without the guard the figure is older than the change of stock.
    let delta = if w.without(Guard::ReadUnderLock) { k.delta } else { 0 };
    k.load = LoadArgs { left: row.left + delta, total: row.total + delta, paused: row.paused, holders };
}
