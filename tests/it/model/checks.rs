//! What must hold: after every commit, with every answer, and at rest after everything was healed.

use seckill::domain::ledger::Figures;
use seckill::domain::order::{Action, CloseReason, Status, next};
use seckill::domain::payment::PaymentState;

use super::mutants::Guard;
use super::sql::Release;
use super::steps::poll::by_ticket;
use super::world::{At, IDS, PAYS, Shown, USERS, World, u};

impl World {
    /// `D + A = I`, `0 ≤ D ≤ I`, and at most one live order for each user and voucher: after every commit.
    pub fn check_books(&mut self) {
        for sale in 0..self.sales {
            let mut live = [0_u8; USERS];
            let mut a = 0;
            for key in 0..u(self.ids_n) {
                if let Some(row) = &self.db.orders[key].now
                    && row.sale == sale
                {
                    let counts = row.live || (row.status == Status::Refunded && self.db.releases[key].now == Release::None);
                    a += i64::from(counts);
                    live[u(row.user)] += u8::from(row.live);
                }
            }
            let row = &self.db.sales[u(sale)].now;
            let figures = Figures { i: i64::from(row.total), d: i64::from(row.left), a, ..Figures::default() };
            if !figures.books_balance() {
                self.break_with("D + A is not I");
            }
            if live.iter().any(|n| *n > 1) {
                self.break_with("two live orders of one buyer");
            }
        }
    }

    /// Whoever hears "sold out" hears the truth: `D − F − U` is nothing, and he holds no unit himself.
    pub fn check_sold_out(&mut self, server: u8, sale: u8, user: u8) {
        if self.servers[u(server)].holders[u(sale)][u(user)] != 0 {
            self.break_with("a holder heard sold out");
        }
        let row = self.db.sales[u(sale)].now;
        // In a split brain a gate is rebuilt on one server while the other still answers under the epoch before, to those
        // who have not heard of the new one; what it says is true of the books that it was loaded from.
        let epoch = self.servers[u(server)].sale[u(sale)].map(|hash| hash.epoch);
        if epoch != Some(row.epoch) {
            return;
        }
        let mut waiting = 0_u32;
        let mut note = |key: u8, of: u8, epoch: u8| {
            if of == sale && epoch == row.epoch {
                waiting |= 1 << key;
            }
        };
        let stream = &self.servers[u(server)].stream;
        for e in &stream.entries[..u(stream.len)] {
            note(e.key, e.sale, e.epoch);
        }
        for task in &self.tasks[..u(self.tasks_n)] {
            for e in &task.batch[..u(task.n)] {
                note(e.key, e.sale, e.epoch);
            }
        }
        for letter in &self.db.letters {
            if let Some(l) = letter.now.filter(|l| l.open) {
                note(l.entry.key, l.entry.sale, l.entry.epoch);
            }
        }
        let mut releases = 0;
        for key in 0..u(self.ids_n) {
            if self.db.orders[key].now.is_some() {
                waiting &= !(1 << key);
            }
            let of_sale = self.db.orders[key].now.is_some_and(|row| row.sale == sale);
            releases += i64::from(of_sale && self.db.releases[key].now == Release::Open);
        }
        if i64::from(row.left) - i64::from(waiting.count_ones()) - releases > 0 {
            self.break_with("sold out was said because of a fault");
        }
    }

    /// A poll shows `says`; `before` is what had been shown when it began to ask.
    pub fn show(&mut self, key: u8, before: Shown, says: Shown) {
        let Some(told) = &mut self.told[u(key)] else { return };
        if says == Shown::Nothing {
            return;
        }
        if follows(told.shown, says) {
            told.shown = says;
        }
        if !follows(before, says) {
            self.break_with(match (before, says) {
                (Shown::Failed(CloseReason::Lost), Shown::Row(_)) => "a LOST that was shown came alive",
                (Shown::Failed(CloseReason::Lost), _) => "a LOST that was shown became something else",
                _ => "a verdict that was shown changed",
            });
        }
    }

    /// Everything was healed and nothing moves any more.
    pub fn check_rest(&mut self) {
        for sale in 0..self.sales {
            let gate = self.servers[u(self.primary)];
            let row = self.db.sales[u(sale)].now;
            let holders = self.live_holders(super::world::NOBODY - 1, sale);
            if gate.stock[u(sale)] != Some(row.left) {
                self.break_with("R is not D at rest");
            }
            if gate.holders[u(sale)] != holders {
                self.break_with("holders are not the live orders at rest");
            }
        }
        if self.servers[u(self.primary)].places != 0 {
            self.break_with("a place is left beside an empty stream");
        }
        for key in 0..self.ids_n {
            self.check_told(key);
            self.check_money(key);
        }
    }

    fn check_told(&mut self, key: u8) {
        let row = self.db.orders[u(key)].now;
        let excused = self.lossy || self.buried >> key & 1 == 1;
        if !excused && row.is_some_and(|row| row.reason == Some(CloseReason::SoldOut)) {
            self.break_with("an id that came in ended as SOLD_OUT without a fault");
        }
        let Some(told) = self.told[u(key)] else { return };
        for epoch in told.tickets {
            if epoch == 0 && told.tickets[0] != 0 {
                continue;
            }
            let says = by_ticket(self, key, &told, epoch);
            match says {
                Shown::Queued | Shown::Nothing => self.break_with("an id that was told ends as queued"),
                Shown::Unknown => self.break_with("an id that was told ends as unknown"),
                Shown::Failed(CloseReason::Lost) if !excused => self.break_with("LOST though Redis lost nothing"),
                _ => {}
            }
            if !follows(told.shown, says) {
                self.show(key, told.shown, says);
            }
        }
    }

    fn check_money(&mut self, key: u8) {
        let mut kept = 0;
        for p in 0..PAYS {
            kept += u8::from(self.paid[p] == key + 1 && self.refunds[p] == 0);
        }
        let paid = self.db.orders[u(key)].now.is_some_and(|row| row.status == Status::Paid);
        if kept != u8::from(paid) {
            self.break_with(if paid { "a PAID order whose money is not kept" } else { "money is kept for no PAID order" });
        }
    }

    /// What is still to be done before there is rest; none: there is.
    pub fn unrest(&self) -> Option<&'static str> {
        let now = &self.servers[u(self.primary)];
        if self.tasks[..u(self.tasks_n)].iter().any(|k| k.at != At::Idle) {
            return Some("no rest: a task is busy");
        }
        if now.stream.len > 0 {
            return Some("no rest: the stream is not empty");
        }
        if (0..IDS).any(|key| self.db.releases[key].now == Release::Open) {
            return Some("no rest: a release stays open");
        }
        let open = |p: &super::sql::Payment| matches!(p.state, PaymentState::Early | PaymentState::RefundDue);
        for p in 0..PAYS {
            let payment = self.db.payments[p].now;
            if payment.is_some_and(|p| open(&p)) || (self.paid[p] != 0 && payment.is_none()) {
                return Some("no rest: payments");
            }
        }
        if self.db.letters.iter().any(|l| l.now.is_some_and(|l| l.open)) {
            return Some("no rest: a dead letter stays open");
        }
        for sale in 0..u(self.sales) {
            let row = self.db.sales[sale].now;
            let Some(hash) = now.sale[sale] else { return Some("no rest: a gate stays closed") };
            let run = hash.run == now.run || self.without(Guard::AdmitComparesRunId);
            let fits = hash.epoch == row.epoch && run && hash.total == row.total;
            if !hash.open || !fits || !now.stream.there || now.stock[sale].is_none() {
                return Some("no rest: a gate stays closed");
            }
            if hash.paused != row.paused {
                return Some("no rest: the gate's pause is not the database's");
            }
            if now.stock[sale].is_some_and(|stock| stock + now.held(sale as u8) != hash.total) {
                return Some("no rest: stock and holders do not add up");
            }
        }
        None
    }
}

/// Whether `after` may be shown where `before` was.
fn follows(before: Shown, after: Shown) -> bool {
    match (before, after) {
        (Shown::Failed(a), Shown::Failed(b)) => a == b,
        (Shown::Row(a), Shown::Row(b)) => reaches(a, b),
        (Shown::Failed(_) | Shown::Row(_), _) => false,
        _ => true,
    }
}

/// Whether the state machine leads from `a` to `b`.
fn reaches(a: Status, b: Status) -> bool {
    const ACTIONS: [Action; 4] = [Action::Cancel, Action::Pay, Action::Refund, Action::CompleteRefund];
    a == b || ACTIONS.iter().filter_map(|action| next(a, *action)).any(|between| reaches(between, b))
}
