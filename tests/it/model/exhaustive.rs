//! Small cases in every order of their steps. Equal states are walked once, and the orders that lead through them are
//! counted, so that millions of schedules are a few thousand states.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use seckill::domain::order::Status;
use seckill::domain::payment::PaymentState;

use super::mutants::Mutants;
use super::schedule::{describe, rest};
use super::server::Entry;
use super::sql::{Cell, Letter, Payment, Row};
use super::world::{At, Decision, Kind, NOBODY, Task, Used, Way, World, u};

/// A small case: its name, its world, and how many things may go wrong in it.
pub struct Case {
    pub name: &'static str,
    pub make: fn(&mut World),
    pub faults: u8,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// Orders of steps, from the first to the last (as far as the number goes).
    pub schedules: u64,
    pub states: usize,
    /// The states were more than were allowed.
    pub cut: bool,
    pub broken: Option<(&'static str, Vec<(u8, Step)>)>,
}

/// One choice of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Go(Way),
    Die,
    Land(u8),
}

struct Search {
    seen: HashMap<u64, u64>,
    path: Vec<(u8, Step)>,
    most: usize,
    found: Found,
}

/// Walks every order of the case's steps; at most `most` states.
pub fn explore(case: &Case, mutants: Mutants, sqlite: bool, most: usize) -> Found {
    let w = world_of(case, mutants, sqlite);
    let mut search = Search { seen: HashMap::new(), path: Vec::new(), most, found: Found::default() };
    search.found.schedules = search.walk(&w, case.faults);
    search.found.states = search.seen.len();
    search.found
}

/// The start of a case.
pub fn world_of(case: &Case, mutants: Mutants, sqlite: bool) -> World {
    let mut w = World::bare(1, mutants);
    w.class.sqlite = sqlite;
    w.put_on_sale(0, 2, true);
    (case.make)(&mut w);
    w
}

/// A path, readable.
pub fn tell(case: &Case, mutants: Mutants, sqlite: bool, path: &[(u8, Step)]) -> String {
    let mut w = world_of(case, mutants, sqlite);
    let mut out = format!("{} (SQLite: {sqlite})\n", case.name);
    for (t, step) in path {
        let before = w;
        let way = if let Step::Go(way) = step { *way } else { Way::Fine };
        let moved = apply(&mut w, *t, *step);
        let _ = write!(out, "{step:?} ");
        describe(&mut out, &before, &w, *t, way, moved);
    }
    out
}

fn apply(w: &mut World, t: u8, step: Step) -> bool {
    match step {
        Step::Go(way) => return w.turn(t, way),
        Step::Die => {
            w.end_tx(t, false);
            let k = &mut w.tasks[u(t)];
            (k.at, k.done, k.in_tx) = (At::Idle, true, false);
        }
        Step::Land(slot) => w.land(usize::from(slot)),
    }
    true
}

impl Search {
    fn walk(&mut self, w: &World, faults: u8) -> u64 {
        let print = fingerprint(w, faults);
        if let Some(schedules) = self.seen.get(&print) {
            return *schedules;
        }
        if self.seen.len() >= self.most {
            self.found.cut = true;
            return 0;
        }
        self.seen.insert(print, 0); // a way back to here is no schedule of its own
        let mut schedules = 0_u64;
        let mut moved = false;
        for t in 0..w.tasks_n {
            if w.tasks[u(t)].done {
                continue;
            }
            let mut next = *w;
            next.turn(t, Way::Fine);
            if next.tasks[u(t)] == w.tasks[u(t)] {
                continue; // it waits
            }
            moved = true;
            let used = next.used;
            schedules = schedules.saturating_add(self.step(&next, t, Step::Go(Way::Fine), faults));
            if faults > 0 {
                for step in ways(used) {
                    let mut next = *w;
                    apply(&mut next, t, *step);
                    schedules = schedules.saturating_add(self.step(&next, t, *step, faults - 1));
                }
            }
            if self.found.broken.is_some() {
                return schedules;
            }
        }
        for slot in 0..4_u8 {
            if w.late[u(slot)].is_some() {
                let mut next = *w;
                apply(&mut next, 0, Step::Land(slot));
                schedules = schedules.saturating_add(self.step(&next, 0, Step::Land(slot), faults));
            }
        }
        if !moved {
            schedules = schedules.saturating_add(1);
            self.end(w);
        }
        self.seen.insert(print, schedules);
        schedules
    }

    fn step(&mut self, next: &World, t: u8, step: Step, faults: u8) -> u64 {
        if self.found.broken.is_some() {
            return 0;
        }
        self.path.push((t, step));
        let schedules = if let Some(what) = next.broken {
            self.found.broken = Some((what, self.path.clone()));
            1
        } else {
            self.walk(next, faults)
        };
        self.path.pop();
        schedules
    }

    /// Nobody has anything to do: the shop's own loops bring it to rest.
    fn end(&mut self, w: &World) {
        let mut w = *w;
        for kind in [Kind::Consumer, Kind::Releaser, Kind::Reconciler, Kind::Sweep, Kind::Refunder, Kind::Payer, Kind::Admin] {
            w.add(Task::new(kind, 0));
        }
        w.names = 9;
        if let Err(what) = rest(&mut w, None)
            && self.found.broken.is_none()
        {
            self.found.broken = Some((what, self.path.clone()));
        }
    }
}

fn ways(used: Used) -> &'static [Step] {
    match used {
        Used::Nothing => &[Step::Die],
        Used::Redis => &[Step::Go(Way::Refused), Step::Go(Way::Lost), Step::Go(Way::Void), Step::Go(Way::Late), Step::Die],
        Used::Statement => &[Step::Go(Way::Lost), Step::Die],
        Used::Commit | Used::Provider => &[Step::Go(Way::Lost), Step::Go(Way::Void), Step::Die],
    }
}

/// What tells two states apart: how they were reached does not.
fn fingerprint(w: &World, faults: u8) -> u64 {
    let mut hash = DefaultHasher::new();
    faults.hash(&mut hash);
    for task in &w.tasks[..u(w.tasks_n)] {
        // What a finished task remembers means nothing.
        if task.done { true.hash(&mut hash) } else { task.hash(&mut hash) }
    }
    let n = u(w.ids_n);
    (&w.db.orders[..n], &w.db.releases[..n], &w.told[..n], &w.ids[..n]).hash(&mut hash);
    (&w.db.sales[0], &w.db.payments, &w.db.letters[..3], w.db.writer).hash(&mut hash);
    (&w.servers[0], &w.late, &w.inst, &w.paid, &w.refunds, w.buried).hash(&mut hash);
    hash.finish()
}

/// A buyer who came in, with his entry in the stream.
fn came_in(w: &mut World, user: u8, number: u8) -> Entry {
    let key = w.intern(w.id_of(number));
    w.stream_clock += 1;
    let entry = Entry { sid: w.stream_clock, key, user, sale: 0, epoch: 1, owner: NOBODY };
    let server = &mut w.servers[0];
    server.stream.entries[u(server.stream.len)] = entry;
    server.stream.len += 1;
    server.stream.last = entry.sid;
    server.holders[0][u(user)] = key + 1;
    server.stock[0] = server.stock[0].map(|stock| stock - 1);
    w.tell(key, user, 0, 1);
    entry
}

/// A consumer that was given `batch`.
fn consumer(w: &mut World, batch: &[Entry]) {
    let name = w.names;
    let mut task =
        Task { once: true, at: At::PlaceBegin, n: batch.len() as u8, hi: batch.len() as u8, ..Task::new(Kind::Consumer, 0) };
    for (i, entry) in batch.iter().enumerate() {
        task.batch[i] = Entry { owner: name, ..*entry };
        let stream = &mut w.servers[0].stream;
        stream.read = stream.read.max(entry.sid);
        for e in &mut stream.entries[..u(stream.len)] {
            if e.sid == entry.sid {
                e.owner = name;
            }
        }
    }
    w.add(task);
}

/// A saved order, its entry settled.
fn saved(w: &mut World, user: u8, status: Status) -> u8 {
    let entry = came_in(w, user, user + 1);
    w.db.orders[u(entry.key)] = Cell::new(Some(Row { status, reason: None, user, sale: 0, live: true }));
    let mut row = w.db.sales[0].now;
    row.left -= 1;
    w.db.sales[0] = Cell::new(row);
    let stream = &mut w.servers[0].stream;
    stream.len -= 1;
    stream.entries[u(stream.len)] = Entry::NONE;
    stream.read = entry.sid;
    entry.key
}

fn once(w: &mut World, kind: Kind, at: At) -> usize {
    usize::from(w.add(Task { once: true, at, ..Task::new(kind, 0) }))
}

fn notice(w: &mut World, pay: u8, key: u8) {
    w.paid[u(pay)] = key + 1;
    let t = once(w, Kind::Payer, At::NoticeInsert);
    (w.tasks[t].pay, w.tasks[t].key) = (pay, key);
}

fn poll(w: &mut World, key: u8, user: u8) {
    let t = once(w, Kind::Poller, At::PollTicket);
    (w.tasks[t].key, w.tasks[t].user, w.tasks[t].epoch) = (key, user, 1);
}

fn letter_of(w: &mut World, entry: Entry, decision: Decision) {
    let at = if decision == Decision::Retry { At::PlaceBegin } else { At::DiscardBegin };
    let t = once(w, Kind::Admin, at);
    let k = &mut w.tasks[t];
    (k.letter, k.decision, k.batch[0], k.n, k.hi) = (0, decision, entry, 1, 1);
}

/// The small cases.
pub const CASES: [Case; 11] = [
    Case {
        name: "a consumer against a rebuild",
        faults: 0,
        make: |w| {
            let entry = came_in(w, 0, 1);
            consumer(w, &[entry]);
            once(w, Kind::Reconciler, At::Burn);
        },
    },
    Case {
        name: "an entry in memory, an emptied Redis, a rebuild, two polls",
        faults: 0,
        make: |w| {
            let entry = came_in(w, 0, 1);
            consumer(w, &[entry]);
            w.servers[0].flush();
            w.lossy = true;
            once(w, Kind::Reconciler, At::Burn);
            poll(w, 0, 0);
            poll(w, 0, 0);
        },
    },
    Case {
        name: "two consumers with the same two entries",
        faults: 1,
        make: |w| {
            let (a, b) = (came_in(w, 0, 1), came_in(w, 1, 2));
            consumer(w, &[a, b]);
            consumer(w, &[a, b]);
        },
    },
    Case {
        name: "two ids of one buyer, two consumers",
        faults: 1,
        make: |w| {
            let a = came_in(w, 0, 1);
            // The holders were lost in between: the sum says so, and the gate is rebuilt in the end.
            let b = came_in(w, 0, 2);
            w.lossy = true;
            consumer(w, &[a]);
            consumer(w, &[b]);
        },
    },
    Case {
        name: "two rebuilders, one with a change of stock",
        faults: 0,
        make: |w| {
            once(w, Kind::Reconciler, At::Burn);
            let t = once(w, Kind::Admin, At::Burn);
            w.tasks[t].delta = 1;
        },
    },
    Case {
        name: "a cancel with its release against a rebuild",
        faults: 0,
        make: |w| {
            let key = saved(w, 0, Status::Pending);
            let t = once(w, Kind::Canceller, At::CancelUpdate);
            w.tasks[t].key = key;
            once(w, Kind::Reconciler, At::Burn);
        },
    },
    Case {
        name: "a cancel and two notices",
        faults: 1,
        make: |w| {
            let key = saved(w, 0, Status::Pending);
            let t = once(w, Kind::Canceller, At::CancelUpdate);
            w.tasks[t].key = key;
            notice(w, 0, key);
            notice(w, 0, key);
        },
    },
    Case {
        name: "the placing of an order against its early notice",
        faults: 1,
        make: |w| {
            let entry = came_in(w, 0, 1);
            consumer(w, &[entry]);
            notice(w, 0, entry.key);
        },
    },
    Case {
        name: "a refund with restock against a rebuild",
        faults: 0,
        make: |w| {
            let key = saved(w, 0, Status::Refunding);
            w.paid[0] = key + 1;
            let due = Payment { state: PaymentState::RefundDue, key, ends: true, restock: true };
            w.db.payments[0] = Cell::new(Some(due));
            once(w, Kind::Refunder, At::ProviderRefund);
            once(w, Kind::Reconciler, At::Burn);
        },
    },
    Case {
        name: "a purchase against a rebuild",
        faults: 0,
        make: |w| {
            w.inst[0].numbers = 2;
            let t = once(w, Kind::Buyer, At::TakeId);
            w.tasks[t].seen = NOBODY;
            once(w, Kind::Reconciler, At::Burn);
        },
    },
    Case {
        name: "a dead letter: tried again, discarded, rebuilt",
        faults: 0,
        make: |w| {
            let entry = came_in(w, 0, 1);
            w.servers[0].stream.len = 0;
            w.servers[0].stream.entries[0] = Entry::NONE;
            w.servers[0].stream.read = entry.sid;
            w.db.letters[0] = Cell::new(Some(Letter { entry, open: true }));
            w.buried = 1 << entry.key;
            letter_of(w, entry, Decision::Retry);
            letter_of(w, entry, Decision::Discard);
            once(w, Kind::Reconciler, At::Burn);
            poll(w, entry.key, 0);
        },
    },
];
