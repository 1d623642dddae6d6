//! The database: rows with locks. A waiter looks again when the lock is gone, as Postgres does under READ COMMITTED;
//! the other kind has one writer, as SQLite.

use seckill::domain::order::{CloseReason, Status};
use seckill::domain::payment::PaymentState;

use super::mutants::Guard;
use super::server::Entry;
use super::world::{IDS, LETTERS, NOBODY, PAYS, SALES, Task, USERS, Used, Way, World, u};

/// Why a step did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// Somebody holds what it needs; nothing changed.
    Wait(u8),
    /// The database said no, or is gone; the transaction is over.
    Error,
}

/// A row as committed and, while a transaction holds it, as that transaction has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell<T> {
    pub now: T,
    next: T,
    pub owner: u8,
}

impl<T: Copy> Cell<T> {
    pub const fn new(value: T) -> Self {
        Self { now: value, next: value, owner: NOBODY }
    }

    /// As task `t` sees it.
    pub fn get(&self, t: u8) -> T {
        if self.owner == t { self.next } else { self.now }
    }

    /// Waits for whoever holds it.
    pub fn lock(&self, t: u8) -> Result<(), Halt> {
        if self.owner == NOBODY || self.owner == t { Ok(()) } else { Err(Halt::Wait(self.owner)) }
    }

    /// Writes it in `t`'s transaction.
    pub fn put(&mut self, t: u8, value: T) {
        (self.owner, self.next) = (t, value);
    }

    fn end(&mut self, t: u8, committed: bool) {
        if self.owner == t {
            if committed {
                self.now = self.next;
            }
            // Whoever reads this cell next reads what is committed; an equal state looks equal.
            (self.next, self.owner) = (self.now, NOBODY);
        }
    }
}

/// An order's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    pub status: Status,
    pub reason: Option<CloseReason>,
    pub user: u8,
    pub sale: u8,
    pub live: bool,
}

/// A release in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Release {
    None,
    Open,
    Done,
}

/// A sale's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaleRow {
    pub total: i8,
    pub left: i8,
    pub epoch: u8,
    pub claimed: u8,
    pub paused: bool,
}

/// A payment's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Payment {
    pub state: PaymentState,
    pub key: u8,
    /// Its refund ends the order; with `restock` its unit goes back on sale.
    pub ends: bool,
    pub restock: bool,
}

/// A dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Letter {
    pub entry: Entry,
    pub open: bool,
}

/// All tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Database {
    pub orders: [Cell<Option<Row>>; IDS],
    pub releases: [Cell<Release>; IDS],
    pub sales: [Cell<SaleRow>; SALES],
    pub payments: [Cell<Option<Payment>>; PAYS],
    pub letters: [Cell<Option<Letter>>; LETTERS],
    /// Registered blocks of each day, a bit each.
    pub blocks: [u64; 2],
    /// SQLite: who writes.
    pub writer: u8,
}

impl World {
    /// One statement; `way` other than fine: the connection broke.
    pub fn statement(&mut self, k: &mut Task, way: Way) -> Result<(), Halt> {
        self.used = Used::Statement;
        if k.dropped || way != Way::Fine {
            k.dropped = false;
            return Err(Halt::Error);
        }
        Ok(())
    }

    /// Begins `t`'s transaction.
    pub fn begin(&mut self, t: u8, k: &mut Task, way: Way) -> Result<(), Halt> {
        self.writer_free(t)?;
        self.statement(k, way)?;
        if self.class.sqlite {
            self.db.writer = t;
        }
        k.in_tx = true;
        Ok(())
    }

    /// SQLite: waits for the writer.
    pub fn writer_free(&self, t: u8) -> Result<(), Halt> {
        if self.class.sqlite && self.db.writer != NOBODY && self.db.writer != t {
            return Err(Halt::Wait(self.db.writer));
        }
        Ok(())
    }

    /// Ends `t`'s transaction; true when its caller hears of a commit.
    pub fn commit(&mut self, t: u8, k: &mut Task, way: Way) -> bool {
        self.used = Used::Commit;
        let done = !k.dropped && matches!(way, Way::Fine | Way::Void | Way::Late);
        let known = done && way == Way::Fine;
        k.dropped = false;
        k.in_tx = false;
        self.end_tx(t, done);
        known
    }

    /// Gives back everything that `t` holds.
    pub fn end_tx(&mut self, t: u8, committed: bool) {
        let n = u(self.ids_n);
        for i in 0..n {
            self.db.orders[i].end(t, committed);
            self.db.releases[i].end(t, committed);
        }
        for sale in &mut self.db.sales {
            sale.end(t, committed);
        }
        for payment in &mut self.db.payments {
            payment.end(t, committed);
        }
        for letter in &mut self.db.letters {
            letter.end(t, committed);
        }
        if self.db.writer == t {
            self.db.writer = NOBODY;
        }
        if committed {
            self.check_books();
        }
    }

    /// `INSERT … PENDING ON CONFLICT DO NOTHING RETURNING`, one row: true when it became a row.
    pub fn insert_pending(&mut self, t: u8, e: &Entry) -> Result<bool, Halt> {
        self.db.orders[u(e.key)].lock(t)?;
        if self.db.orders[u(e.key)].get(t).is_some() {
            return Ok(false);
        }
        if !self.without(Guard::OneLiveOrder) {
            for key in 0..u(self.ids_n) {
                let cell = &self.db.orders[key];
                let is = |row: Option<Row>| row.is_some_and(|r| r.live && r.user == e.user && r.sale == e.sale);
                if cell.owner != NOBODY && cell.owner != t && (is(cell.now) || is(cell.next)) {
                    return Err(Halt::Wait(cell.owner));
                }
                if is(cell.get(t)) {
                    return Ok(false);
                }
            }
        }
        let row = Row { status: Status::Pending, reason: None, user: e.user, sale: e.sale, live: true };
        self.db.orders[u(e.key)].put(t, Some(row));
        Ok(true)
    }

    /// `INSERT … FAILED ON CONFLICT (id) DO NOTHING RETURNING`, one row, with its release when it became one.
    pub fn insert_failed(&mut self, t: u8, e: &Entry, reason: CloseReason, release: bool, always: bool) -> Result<bool, Halt> {
        self.db.orders[u(e.key)].lock(t)?;
        self.db.releases[u(e.key)].lock(t)?;
        let fresh = self.db.orders[u(e.key)].get(t).is_none();
        if fresh {
            let row = Row { status: Status::Failed, reason: Some(reason), user: e.user, sale: e.sale, live: false };
            self.db.orders[u(e.key)].put(t, Some(row));
        }
        if release && (fresh || always) {
            self.put_release(t, e.key);
        }
        Ok(fresh)
    }

    /// Writes a release row; the key is used once for ever.
    pub fn put_release(&mut self, t: u8, key: u8) {
        if self.db.releases[u(key)].get(t) == Release::None {
            self.db.releases[u(key)].put(t, Release::Open);
        }
    }

    /// `stock_left - k WHERE epoch = e AND stock_left >= k`: false when no row fits.
    pub fn take_units(&mut self, t: u8, sale: u8, epoch: u8, k: i8) -> Result<bool, Halt> {
        self.db.sales[u(sale)].lock(t)?;
        let mut row = self.db.sales[u(sale)].get(t);
        if (row.epoch != epoch && !self.without(Guard::HotRowEpoch)) || row.left < k {
            return Ok(false);
        }
        row.left -= k;
        self.db.sales[u(sale)].put(t, row);
        Ok(true)
    }

    /// Live orders of a sale as task `t` sees them, by user: key plus one.
    pub fn live_holders(&self, t: u8, sale: u8) -> [u8; USERS] {
        let mut holders = [0; USERS];
        for key in 0..self.ids_n {
            if let Some(row) = self.db.orders[u(key)].get(t)
                && row.sale == sale
                && row.live
            {
                holders[u(row.user)] = key + 1;
            }
        }
        holders
    }
}
