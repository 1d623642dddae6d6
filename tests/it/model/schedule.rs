//! One schedule: a world made from a seed, its steps in random order, and the rest at its end.

use std::fmt::Write as _;

use seckill::domain::order::Status;

use super::mutants::Mutants;
use super::server::{Entry, LoadArgs, SaleHash, Server, Stream};
use super::sql::{Cell, Database, Release, SaleRow};
use super::steps;
use super::world::{
    At, BLOCK, Class, Decision, IDS, INSTANCES, Instance, Kind, LETTERS, NOBODY, PAYS, SALES, Shown, TASKS, Task, USERS, Used,
    Way, World, u,
};

/// What went wrong in a schedule, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub seed: u64,
    pub what: &'static str,
}

/// The class that a seed belongs to.
pub fn class_of(rng: &mut World) -> Class {
    let roll = rng.below(12);
    let lossy = !roll.is_multiple_of(3);
    Class {
        sqlite: rng.below(3) == 0,
        trouble: [0, 20, 60][u(rng.below(3))],
        restart: if roll % 4 == 1 { 6 } else { 0 },
        loss: if lossy { 8 } else { 0 },
        freeze: [0, 10, 25][u(rng.below(3))],
        crash: [0, 4, 10][u(rng.below(3))],
        ids_repeat: rng.below(4) == 0,
        bury: [0, 20, 120][u(rng.below(3))],
        admin: [0, 200, 600][u(rng.below(3))],
        new_sale: rng.below(5) == 0,
    }
}

impl Task {
    /// A task that has nothing to do yet.
    pub fn new(kind: Kind, instance: u8) -> Self {
        Self {
            kind,
            at: At::Idle,
            then: At::Idle,
            fail: At::Idle,
            instance,
            once: false,
            done: false,
            in_tx: false,
            dropped: false,
            frozen: 0,
            consumer: 0,
            own: false,
            sale: 0,
            user: 0,
            key: 0,
            id: 0,
            epoch: 0,
            seen: 0,
            claim: 0,
            last: 0,
            delta: 0,
            load: LoadArgs { left: 0, total: 0, paused: false, holders: [0; USERS] },
            batch: [Entry::NONE; 2],
            n: 0,
            lo: 0,
            hi: 0,
            i: 0,
            new: 0,
            dup: 0,
            reason: None,
            letter: NOBODY,
            decision: Decision::None,
            pay: 0,
            tries: 0,
            flag: false,
            before: Shown::Nothing,
        }
    }
}

impl World {
    /// A shop with nothing sold and no task.
    pub fn bare(seed: u64, mutants: Mutants) -> Self {
        let sale = SaleRow { total: 0, left: 0, epoch: 0, claimed: 0, paused: false };
        let instance = Instance {
            server: 0,
            run_seen: 1,
            epochs: [0; SALES],
            nudged: [false; SALES],
            closed: [0; SALES],
            numbers: 0,
            day: 0,
        };
        let server = Server { run: 1, ..Server::EMPTY };
        Self {
            rng: seed,
            class: Class::default(),
            mutants,
            sales: 1,
            users: 2,
            instances: 2,
            tasks_n: 0,
            step: 0,
            healing: false,
            lossy: false,
            day: 0,
            second: 0,
            names: 0,
            stream_clock: 0,
            run_ids: 1,
            db: Database {
                orders: [Cell::new(None); IDS],
                releases: [Cell::new(Release::None); IDS],
                sales: [Cell::new(sale); SALES],
                payments: [Cell::new(None); PAYS],
                letters: [Cell::new(None); LETTERS],
                blocks: [0; 2],
                writer: NOBODY,
            },
            servers: [server, Server { alive: false, ..server }],
            primary: 0,
            copy: server,
            late: [None; 4],
            tasks: [Task::new(Kind::Buyer, 0); TASKS],
            inst: [instance; INSTANCES],
            ids: [0; IDS],
            ids_n: 0,
            buried: 0,
            told: [None; IDS],
            paid: [0; PAYS],
            refunds: [0; PAYS],
            used: Used::Nothing,
            broken: None,
        }
    }

    /// One more task.
    pub fn add(&mut self, task: Task) -> u8 {
        let t = self.tasks_n;
        self.tasks[u(t)] = task;
        if task.kind == Kind::Consumer {
            self.tasks[u(t)].consumer = self.names;
            self.names += 1;
        }
        self.tasks_n += 1;
        t
    }

    /// Puts `units` of a sale on sale, its gate open under epoch 1.
    pub fn put_on_sale(&mut self, sale: u8, units: i8, loaded: bool) {
        let epoch = u8::from(loaded);
        self.db.sales[u(sale)] = Cell::new(SaleRow { total: units, left: units, epoch, claimed: epoch, paused: false });
        let server = &mut self.servers[0];
        if loaded {
            server.stream = Stream { there: true, ..Stream::NONE };
            server.stock[u(sale)] = Some(units);
            server.sale[u(sale)] = Some(SaleHash { epoch: 1, claim: 1, run: 1, open: true, paused: false, total: units });
        }
        for inst in &mut self.inst {
            inst.epochs[u(sale)] = epoch;
        }
        self.copy = self.servers[0];
    }

    /// The world of a seed.
    pub fn of(seed: u64, mutants: Mutants, class: Option<Class>) -> Self {
        let mut w = Self::bare(seed, mutants);
        let own = class_of(&mut w);
        w.class = class.unwrap_or(own);
        w.sales = 1 + w.below(2);
        w.users = 2 + w.below(3);
        w.instances = 2 + w.below(2);
        for sale in 0..w.sales {
            let units = 1 + w.below(3).cast_signed();
            w.put_on_sale(sale, units, !w.class.new_sale || sale == 1);
        }
        if w.below(4) > 0 {
            // Each process has had its first block.
            for i in 0..w.instances {
                w.inst[u(i)].numbers = ((1 << BLOCK) - 1) << World::first_of(i);
                w.db.blocks[0] |= 1 << i;
            }
            w.servers[0].counter[0] = w.instances;
            w.copy = w.servers[0];
        }
        for i in 0..w.instances {
            for kind in [Kind::Consumer, Kind::Releaser, Kind::Reconciler, Kind::IdSource] {
                w.add(Task::new(kind, i));
            }
        }
        for user in 0..w.users {
            w.add(Task { user, ..Task::new(Kind::Buyer, 0) });
        }
        for kind in [
            Kind::Poller,
            Kind::Poller,
            Kind::Canceller,
            Kind::Payer,
            Kind::Payer,
            Kind::Sweep,
            Kind::Refunder,
            Kind::Refunder,
            Kind::Admin,
        ] {
            w.add(Task::new(kind, 0));
        }
        w
    }

    /// One step of `t`; when it waits in a circle, the database picks it as the victim. False: it waits.
    pub fn turn(&mut self, t: u8, way: Way) -> bool {
        match steps::step(self, t, way) {
            Ok(()) => true,
            Err(holder) => {
                if self.in_a_circle(t, holder) {
                    steps::victim(self, t);
                }
                false
            }
        }
    }

    /// Whether `holder` waits, over others, for `t`.
    fn in_a_circle(&self, t: u8, holder: u8) -> bool {
        let mut at = holder;
        for _ in 0..4 {
            if at == NOBODY || u(at) >= TASKS {
                return false;
            }
            if at == t {
                return true;
            }
            let mut probe = *self;
            match steps::step(&mut probe, at, Way::Fine) {
                Err(next) => at = next,
                Ok(()) => return false,
            }
        }
        false
    }
}

/// Runs one schedule; with a `trace` every step is written down.
pub fn run(seed: u64, mutants: Mutants, class: Option<Class>, mut trace: Option<&mut String>) -> Result<(), Broken> {
    let mut w = World::of(seed, mutants, class);
    let steps = 60 + (w.random() >> 33) as u16 % 400;
    if let Some(out) = trace.as_deref_mut() {
        let _ = writeln!(out, "seed {seed}: {:?}\n{} sales, {} buyers, {} processes", w.class, w.sales, w.users, w.instances);
    }
    let mut t = 0;
    let failed = |w: &World| w.broken.map(|what| Broken { seed, what });
    while w.step < steps {
        w.step += 1;
        w.happen();
        // Now and then a task goes on for a while.
        if w.below(5) < 3 || w.tasks[u(t)].at == At::Idle {
            t = w.below(w.tasks_n);
            // Who mostly has nothing to do is asked less often.
            let k = &w.tasks[u(t)];
            if k.at == At::Idle && matches!(k.kind, Kind::IdSource | Kind::Reconciler | Kind::Releaser | Kind::Sweep) {
                t = w.below(w.tasks_n);
            }
        }
        if w.tasks[u(t)].frozen > w.step {
            t = w.below(w.tasks_n);
            continue;
        }
        let way = w.way();
        turn_traced(&mut w, t, way, trace.as_deref_mut());
        if let Some(broken) = failed(&w) {
            return Err(broken);
        }
    }
    if let Some(out) = trace.as_deref_mut() {
        let _ = writeln!(out, "---- everything heals");
    }
    rest(&mut w, trace).map_err(|what| Broken { seed, what })
}

/// Heals everything, lets everybody finish, and checks what is left.
pub fn rest(w: &mut World, mut trace: Option<&mut String>) -> Result<(), &'static str> {
    w.heal();
    for round in 0..160 {
        for t in 0..w.tasks_n {
            // Each works until it has nothing to do, or waits: processes that rebuild in step would refuse each other for ever.
            for _ in 0..40 {
                let was = w.tasks[u(t)].at;
                if w.tasks[u(t)].done {
                    break;
                }
                let moved = turn_traced(w, t, Way::Fine, trace.as_deref_mut());
                let at = w.tasks[u(t)].at;
                if !moved || at == At::Idle || (at == At::Drain && was == At::Drain) {
                    break;
                }
            }
        }
        if let Some(what) = w.broken {
            return Err(what);
        }
        match w.unrest() {
            None => break,
            Some(what) if round == 159 => return Err(what),
            Some(_) => {}
        }
    }
    w.check_rest();
    w.broken.map_or(Ok(()), Err)
}

fn turn_traced(w: &mut World, t: u8, way: Way, trace: Option<&mut String>) -> bool {
    let Some(out) = trace else { return w.turn(t, way) };
    let before = *w;
    let moved = w.turn(t, way);
    if before.tasks[u(t)].at == At::Idle && w.tasks[u(t)].at == At::Idle {
        return moved;
    }
    describe(out, &before, w, t, way, moved);
    moved
}

/// One line of a trace: who did what, what its call met, and what the stores look like now.
pub fn describe(out: &mut String, before: &World, w: &World, t: u8, way: Way, moved: bool) {
    let (was, k) = (&before.tasks[u(t)], &w.tasks[u(t)]);
    let how = if !moved {
        String::from("waits")
    } else if w.used == Used::Nothing {
        String::new()
    } else {
        format!("{way:?}")
    };
    let _ = write!(out, "{:4} {:?}{} of {}: {:?} {how} -> {:?}", w.step, was.kind, t, k.instance, was.at, k.at);
    for sale in 0..u(w.sales) {
        let (row, gate) = (&w.db.sales[sale].now, &w.servers[u(w.primary)]);
        let hash =
            gate.sale[sale].map(|h| format!("e{} c{} run{} {}", h.epoch, h.claim, h.run, if h.open { "open" } else { "shut" }));
        let _ = write!(
            out,
            " | sale {sale}: D {} of {} e{} c{}, R {:?} {:?} {}",
            row.left,
            row.total,
            row.epoch,
            row.claimed,
            gate.stock[sale],
            gate.holders[sale],
            hash.unwrap_or_else(|| String::from("no hash"))
        );
    }
    let rows: Vec<String> = (0..w.ids_n)
        .filter_map(|key| w.db.orders[u(key)].now.map(|row| (key, row)))
        .map(|(key, row)| {
            let status = if row.status == Status::Failed { format!("{:?}", row.reason) } else { row.status.as_str().to_owned() };
            format!("{}:{status}", key + 1)
        })
        .collect();
    let stream = &w.servers[u(w.primary)].stream;
    let entries: Vec<String> = stream.entries[..u(stream.len)]
        .iter()
        .map(|e| format!("{}={}{}", e.sid, e.key + 1, if e.owner == NOBODY { "" } else { "*" }))
        .collect();
    let _ = writeln!(out, " | rows {rows:?} stream {entries:?} run{}", w.servers[u(w.primary)].run);
}
