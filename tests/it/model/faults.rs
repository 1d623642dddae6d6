//! What is done to the world from outside: Redis restarts, forgets, fails over; processes die, stand still, lose their
//! connection.

use super::server::{Server, Stream};
use super::world::{At, Class, Kind, Way, World, u};

impl World {
    /// What one call meets in a schedule of this class.
    pub fn way(&mut self) -> Way {
        let rate = self.class.trouble;
        if !self.chance(rate) {
            return Way::Fine;
        }
        match self.below(5) {
            0 => Way::Refused,
            1 => Way::Lost,
            2 | 3 => Way::Void,
            _ => Way::Late,
        }
    }

    /// Between two steps: time passes, and at most one thing breaks.
    pub fn happen(&mut self) {
        let Class { restart, loss, freeze, crash, trouble, .. } = self.class;
        let roll = (self.random() >> 33) % 1000;
        if roll < 60 {
            self.second = self.second.saturating_add(u8::from(roll < 25));
            if roll > 56 && self.day == 0 {
                (self.day, self.second) = (1, 0);
            }
            // A late call lands.
            if self.late.iter().any(Option::is_some) {
                let slot = usize::from(self.below(4));
                self.land(slot);
            }
            if self.servers[0].alive && self.servers[1].alive && roll < 30 {
                self.leave_old_primary(roll < 8);
            }
        }
        if restart + loss + freeze + crash + trouble == 0 {
            return;
        }
        if loss > 0 && roll % 5 < 2 {
            // What is written reaches the log or the replica a little later.
            self.copy = self.servers[u(self.primary)];
        }
        if self.chance(restart) {
            self.restart_redis(false);
        }
        if self.chance(loss) {
            self.lose_something();
        }
        if self.chance(freeze) {
            let t = usize::from(self.below(self.tasks_n));
            self.tasks[t].frozen = self.step + 5 + u16::from(self.below(150));
        }
        if self.chance(crash) {
            let instance = self.below(self.instances);
            self.kill(instance);
        }
        if self.chance(trouble / 4) {
            // The server drops the connection of somebody who is in a transaction.
            let t = self.below(self.tasks_n);
            if self.tasks[u(t)].in_tx {
                self.end_tx(t, false);
                self.tasks[u(t)].dropped = true;
            }
        }
    }

    /// The server comes back with a new run id; `tail`: without what was written last.
    fn restart_redis(&mut self, tail: bool) {
        self.run_ids += 1;
        let p = u(self.primary);
        if tail {
            self.lossy = true;
            self.servers[p] = self.copy;
        }
        (self.servers[p].run, self.servers[p].alive) = (self.run_ids, true);
    }

    fn lose_something(&mut self) {
        let p = u(self.primary);
        let v = usize::from(self.below(self.sales));
        let day = u(self.day);
        let what = self.below(12);
        self.lossy |= !matches!(what, 0 | 11);
        match what {
            0 => self.servers[p].counter[day] = 0,
            1 | 2 => self.servers[p].flush(),
            3 => self.servers[p].sale[v] = None,
            4 => self.servers[p].stock[v] = None,
            5 => self.servers[p].holders[v] = [0; super::world::USERS],
            6 => self.servers[p].stream = Stream::NONE,
            7 | 8 => self.restart_redis(true),
            9 | 10 => self.fail_over(),
            _ => self.servers[p].places = 0,
        }
    }

    /// The replica becomes the primary; the old one lives on, and processes that have not heard of it still talk to it.
    fn fail_over(&mut self) {
        if self.servers[0].alive && self.servers[1].alive {
            return;
        }
        self.run_ids += 1;
        let other = 1 - self.primary;
        self.servers[u(other)] = Server { run: self.run_ids, alive: true, ..self.copy };
        self.primary = other;
        let moved = self.below(self.instances);
        self.inst[u(moved)].server = other;
    }

    fn leave_old_primary(&mut self, for_good: bool) {
        let instance = self.below(self.instances);
        self.inst[u(instance)].server = self.primary;
        if for_good {
            let old = 1 - self.primary;
            self.servers[u(old)].alive = false;
            for inst in &mut self.inst {
                inst.server = self.primary;
            }
        }
    }

    /// A process dies; another takes its place, with an empty memory and new names.
    pub fn kill(&mut self, instance: u8) {
        for t in 0..self.tasks_n {
            if self.tasks[u(t)].instance != instance {
                continue;
            }
            self.end_tx(t, false);
            let k = &mut self.tasks[u(t)];
            (k.at, k.in_tx, k.dropped, k.frozen, k.n, k.own) = (At::Idle, false, false, 0, 0, false);
            if k.kind == Kind::Consumer {
                k.consumer = self.names;
                self.names += 1;
            }
            if k.once {
                k.done = true;
            }
        }
        let inst = &mut self.inst[u(instance)];
        (inst.numbers, inst.closed, inst.nudged) = (0, [0; 2], [false; 2]);
        (inst.server, inst.run_seen) = (self.primary, self.servers[u(self.primary)].run);
        for sale in 0..2 {
            inst.epochs[sale] = self.db.sales[sale].now.epoch;
        }
    }

    /// Nothing breaks any more, and everybody hears of what did.
    pub fn heal(&mut self) {
        self.healing = true;
        for slot in 0..4 {
            self.land(slot);
        }
        let (old, primary) = (1 - self.primary, self.primary);
        self.servers[u(old)].alive = false;
        for inst in &mut self.inst {
            inst.server = primary;
        }
        for task in &mut self.tasks {
            task.frozen = 0;
        }
    }
}
