//! A purchase (`service/purchase.rs`, `gate/batcher.rs`) and where its order id comes from (`gate/order_ids.rs`).

use seckill::domain::admission::Admission;

use super::super::mutants::Guard;
use super::super::server::{Call, Heard, Reply};
use super::super::sql::Halt;
use super::super::world::{At, BLOCK, NOBODY, Task, Way, World, u};

pub fn go(w: &mut World, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
    let i = u(k.instance);
    let sale = u(k.sale);
    match k.at {
        At::AskEpochOfGate => {
            k.at = At::Idle;
            if let Heard::Reply(Reply::Gate(gate)) = w.redis(k, Call::Look { sale: k.sale }, way)
                && let Some(hash) = gate.hash
            {
                w.inst[i].epochs[sale] = hash.epoch;
                k.at = At::TakeId;
            }
        }
        At::TakeId => {
            // What is left of yesterday's block is worth nothing today.
            if w.inst[i].day != w.day && !w.without(Guard::BlocksEndAtMidnight) {
                (w.inst[i].numbers, w.inst[i].day) = (0, w.day);
            }
            let numbers = w.inst[i].numbers;
            if numbers == 0 {
                k.at = At::Idle;
                return Ok(());
            }
            let number = numbers.trailing_zeros() as u8;
            w.inst[i].numbers &= numbers - 1;
            (k.id, k.last) = (w.id_of(number), number);
            k.epoch = w.inst[i].epochs[sale];
            k.at = At::Admit;
        }
        At::Admit => admit(w, k, way),
        At::RefreshEpoch => {
            k.fail = At::Idle;
            w.statement(k, way)?;
            w.inst[i].epochs[sale] = w.db.sales[sale].now.epoch;
            if w.inst[i].epochs[sale] == k.seen {
                w.inst[i].nudged[sale] = true;
                k.at = At::Idle;
            } else {
                k.at = At::TakeId;
            }
        }
        At::AskBlock => {
            k.at = At::Idle;
            k.seen = w.day;
            if let Heard::Reply(Reply::Block(block)) = w.redis(k, Call::NextBlock { day: k.seen }, way)
                && block < 64 / BLOCK
            {
                k.key = block;
                if w.without(Guard::BlocksRegistered) {
                    take_block(w, k);
                } else {
                    k.at = At::RegisterBlock;
                }
            }
        }
        At::RegisterBlock => {
            w.writer_free(t)?;
            k.fail = At::Idle;
            if way == Way::Fine || matches!(way, Way::Void | Way::Late) {
                let blocks = w.db.blocks[u(k.seen)];
                let taken = blocks >> k.key & 1 == 1;
                w.db.blocks[u(k.seen)] |= 1 << k.key;
                w.statement(k, way)?;
                if taken {
                    k.last = 63 - blocks.leading_zeros() as u8;
                    k.at = At::RaiseCounter;
                } else {
                    take_block(w, k);
                    k.at = At::Idle;
                }
            } else {
                w.statement(k, way)?;
            }
        }
        // The counter was lost: it is lifted over everything that was ever given out.
        _ => {
            let by = k.last.saturating_sub(k.key);
            if by > 0 {
                w.redis(k, Call::Raise { day: k.seen, by }, way);
            }
            k.at = At::Idle;
        }
    }
    Ok(())
}

fn take_block(w: &mut World, k: &Task) {
    let block = ((1 << BLOCK) - 1) << World::first_of(k.key);
    let inst = &mut w.inst[u(k.instance)];
    if inst.day == k.seen || w.mutants.has(Guard::BlocksEndAtMidnight) {
        inst.numbers |= block;
    } else {
        inst.numbers = block;
    }
    inst.day = k.seen;
}

fn admit(w: &mut World, k: &mut Task, way: Way) {
    let i = u(k.instance);
    let call = Call::Admit { sale: k.sale, epoch: k.epoch, user: k.user, id: k.id, run_seen: w.inst[i].run_seen };
    k.at = At::Idle;
    // Epoch 0, never loaded, is not asked for.
    let heard =
        if k.epoch == 0 && !w.without(Guard::AdmitComparesEpoch) { Heard::Reply(Reply::NotReady) } else { w.redis(k, call, way) };
    let give_back = |w: &mut World, k: &Task| {
        let day_of_id = (k.id >> 32) / 86_400;
        let today = (w.id_of(0) >> 32) / 86_400;
        // A number of a day that is over is worth nothing.
        if day_of_id == today && w.inst[i].day == w.day {
            w.inst[i].numbers |= 1 << k.last;
        }
    };
    match heard {
        Heard::Reply(Reply::Admission(Admission::Admitted { .. }, key)) => w.tell(key, k.user, k.sale, k.epoch),
        Heard::Reply(Reply::Admission(said, key)) => {
            give_back(w, k);
            if let Admission::Duplicate(_) = said
                && key != NOBODY
            {
                let epoch = if w.without(Guard::DuplicateHasTicket) { 0 } else { k.epoch };
                w.tell(key, k.user, k.sale, epoch);
            }
        }
        Heard::Reply(_) => {
            give_back(w, k);
            k.tries += 1;
            if w.without(Guard::FreshLookBeforeRebuild) || w.without(Guard::EpochFromSql) {
                w.inst[i].nudged[u(k.sale)] = true;
            } else if k.tries < 3 {
                (k.seen, k.at) = (k.epoch, At::RefreshEpoch);
            } else {
                w.inst[i].nudged[u(k.sale)] = true;
            }
        }
        Heard::Nothing => give_back(w, k),
        // After an uncertain call nothing is given back.
        Heard::Unknown => {
            if w.without(Guard::UncertainIdsAreKept) {
                give_back(w, k);
            }
        }
    }
}
