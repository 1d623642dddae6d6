//! Where is my order (`service/orders.rs`): by ticket in one statement, or by row and holder.

use seckill::domain::order::CloseReason;

use super::super::mutants::Guard;
use super::super::server::{Call, Heard, Reply};
use super::super::sql::{Halt, Row};
use super::super::world::{At, Shown, Task, Told, Way, World, u};

/// A buyer asks for `key`.
pub fn begin(w: &mut World, k: &mut Task, key: u8) {
    let Some(told) = w.told[u(key)] else { return };
    let ticket = told.tickets[u(w.below(2))];
    (k.key, k.user, k.sale, k.epoch, k.before) = (key, told.user, told.sale, ticket, told.shown);
    k.at = if ticket > 0 && w.chance(750) { At::PollTicket } else { At::PollRow };
}

/// What a row says to `user`.
pub fn of_row(row: &Row, user: u8) -> Shown {
    match row.reason {
        // A row of another buyer under this id: not his.
        _ if row.user != user => Shown::Unknown,
        Some(reason) => Shown::Failed(reason),
        None => Shown::Row(row.status),
    }
}

/// What a ticket says, in one snapshot.
pub fn by_ticket(w: &World, key: u8, told: &Told, epoch: u8) -> Shown {
    match &w.db.orders[u(key)].now {
        Some(row) => of_row(row, told.user),
        None if epoch == 0 => Shown::Unknown,
        None => by_epoch(w, key, told.sale, epoch),
    }
}

fn by_epoch(w: &World, key: u8, sale: u8, epoch: u8) -> Shown {
    let now = w.db.sales[u(sale)].now.epoch;
    if epoch > now {
        return Shown::Nothing; // 503: the database is older than the ticket
    }
    let lost = if w.without(Guard::LostOnlyByEpoch) {
        let stream = &w.servers[u(w.primary)].stream;
        !stream.entries[..u(stream.len)].iter().any(|e| e.key == key)
    } else {
        epoch < now
    };
    if lost { Shown::Failed(CloseReason::Lost) } else { Shown::Queued }
}

pub fn go(w: &mut World, _t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    k.fail = At::Idle;
    if k.at == At::DropNames {
        w.redis(k, Call::DropNames { consumer: k.consumer }, way);
        k.at = At::Idle;
        return Ok(());
    }
    let Some(told) = w.told[u(k.key)] else { return Err(Halt::Error) };
    match k.at {
        At::PollTicket => {
            w.statement(k, way)?;
            k.at = At::Idle;
            if w.without(Guard::PollInOneStatement) && w.db.orders[u(k.key)].now.is_none() {
                k.at = At::PollEpoch;
                return Ok(());
            }
            let says = by_ticket(w, k.key, &told, k.epoch);
            w.show(k.key, k.before, says);
        }
        At::PollEpoch => {
            w.statement(k, way)?;
            let says = by_epoch(w, k.key, told.sale, k.epoch);
            w.show(k.key, k.before, says);
            k.at = At::Idle;
        }
        At::PollRow => {
            w.statement(k, way)?;
            k.at = At::Idle;
            match w.db.orders[u(k.key)].now {
                Some(row) => w.show(k.key, k.before, of_row(&row, told.user)),
                None => k.at = At::PollHolder,
            }
        }
        At::PollHolder => {
            k.at = At::Idle;
            if let Heard::Reply(Reply::Gate(gate)) = w.redis(k, Call::Look { sale: k.sale }, way) {
                let held = gate.holders[u(k.user)] == k.key + 1;
                k.epoch = gate.hash.filter(|_| held).map_or(0, |hash| hash.epoch);
                if w.without(Guard::HolderEpochFromSql) && k.epoch == w.inst[u(k.instance)].epochs[u(k.sale)] && held {
                    w.show(k.key, k.before, Shown::Queued);
                } else {
                    k.at = At::PollRowAgain;
                }
            }
        }
        // Row and epoch once more, in one statement. Saved, closed and given back since: then the row is there by now.
        _ => {
            w.statement(k, way)?;
            k.at = At::Idle;
            match w.db.orders[u(k.key)].now {
                Some(row) => w.show(k.key, k.before, of_row(&row, told.user)),
                None if k.epoch > 0 && k.epoch == w.db.sales[u(k.sale)].now.epoch => w.show(k.key, k.before, Shown::Queued),
                None => {} // 404
            }
        }
    }
    Ok(())
}
