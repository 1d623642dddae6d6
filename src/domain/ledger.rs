//! The stock equation. What it means for the books of one voucher to balance; the figures are gathered elsewhere.

use super::ids::Epoch;
use super::time::Millis;

/// The figures of one voucher, named as in the stock equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Units ever put on sale.
    pub i: i64,
    /// `stock_left` in SQL.
    pub d: i64,
    /// Live orders.
    pub a: i64,
    /// Stock in Redis.
    pub r: i64,
    /// Admitted entries without an order row yet.
    pub f: i64,
    /// Releases in the outbox that Redis has not applied yet.
    pub u: i64,
}

impl Figures {
    /// `D + A = I` and `0 ≤ D ≤ I`: holds in every SQL snapshot.
    #[must_use]
    pub fn books_balance(&self) -> bool {
        self.d + self.a == self.i && (0..=self.i).contains(&self.d)
    }

    /// `R + F + U = D`: holds on every consistent cut of both stores.
    #[must_use]
    pub fn stores_agree(&self) -> bool {
        self.r + self.f + self.u == self.d
    }
}

/// What SQL counts of one sale, in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Units ever put on sale (`I`).
    pub total: i64,
    /// Units without a live order (`D`).
    pub left: i64,
    /// Live orders (`A`).
    pub live: i64,
    /// Releases that the gate has not applied (`U`).
    pub unapplied: i64,
    /// The gate's fencing number.
    pub epoch: Epoch,
    /// Raised by every edit.
    pub version: i64,
    /// Stopped by the merchant.
    pub paused: bool,
    /// First instant of the sale.
    pub begin: Millis,
    /// First instant after it.
    pub end: Millis,
    /// Orders that have a row, whatever became of them.
    pub rows: i64,
    /// Waiting for payment.
    pub pending: i64,
    /// Paid.
    pub paid: i64,
    /// Cancelled by their owners.
    pub cancelled: i64,
    /// Not paid in time.
    pub timed_out: i64,
    /// Money is on its way back.
    pub refunding: i64,
    /// Money has gone back.
    pub refunded: i64,
    /// Admitted and never an order.
    pub failed: i64,
}

impl Tally {
    /// `D + A = I` and `0 ≤ D ≤ I`.
    #[must_use]
    pub fn books_balance(&self) -> bool {
        self.left + self.live == self.total && (0..=self.total).contains(&self.left)
    }
}

/// What the gate counts of one sale, at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GateCounts {
    /// Units left (`R`).
    pub stock: i64,
    /// Who holds one.
    pub holders: i64,
    /// Units ever put on sale, as loaded.
    pub total: i64,
    /// Entries of the lane's stream that are not settled, of whatever sale.
    pub waiting: i64,
    /// Entries that the lane's stream ever took.
    pub added: i64,
    /// The epoch that was loaded.
    pub epoch: Epoch,
}

/// `R`, `F` and `U` of one sale where both stores agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Units left at the gate.
    pub r: i64,
    /// Admitted without a row.
    pub f: i64,
    /// Releases that the gate has not applied.
    pub u: i64,
}

/// Whether the gate, looked at just before and just after the books were read, can be theirs; none: it cannot, whatever
/// happened in between. `buried`: admitted entries that wait among the dead letters.
///
/// The three looks are no consistent cut, so each bound leaves room for exactly what may have happened between them: every
/// live order was a holder before, or was admitted since; every other holder waits in the stream or among the dead
/// letters, or is on his way out. Where nothing moves the bounds meet, and one unit too many or too few breaks one of them.
#[must_use]
pub fn agree(before: &GateCounts, books: &Tally, after: &GateCounts, buried: i64) -> Option<Agreed> {
    let sums = [before, after].iter().all(|gate| {
        gate.epoch == books.epoch && gate.total == books.total && gate_sum_holds(gate.stock, gate.holders, gate.total)
    });
    let came = after.added - before.added;
    let may_wait = before.waiting + came + buried;
    let others = after.holders - books.live;
    let holds = sums
        && books.books_balance()
        && came >= 0
        && before.holders + came >= books.live
        && (0..=may_wait + books.unapplied).contains(&others);
    // A release that the gate applied and SQL has not marked yet is no unit to come.
    let f = (others - books.unapplied).max(0);
    holds.then_some(Agreed { r: after.stock, f, u: others - f })
}

/// The gate's own sum: `stock + holders = total` in every state of Redis (admission, release and load all keep it).
#[must_use]
pub fn gate_sum_holds(stock: i64, holders: i64, total: i64) -> bool {
    stock + holders == total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_a_unit_keeps_both_equations() {
        let steps = [
            Figures { i: 10, d: 10, a: 0, r: 10, f: 0, u: 0 },
            Figures { i: 10, d: 10, a: 0, r: 9, f: 1, u: 0 },
            Figures { i: 10, d: 9, a: 1, r: 9, f: 0, u: 0 },
            Figures { i: 10, d: 10, a: 0, r: 9, f: 0, u: 1 },
            Figures { i: 10, d: 10, a: 0, r: 10, f: 0, u: 0 },
        ];
        assert!(steps.iter().all(|s| s.books_balance() && s.stores_agree()));
        assert!(!Figures { r: 11, ..steps[0] }.stores_agree());
        assert!(!Figures { d: 11, ..steps[0] }.books_balance());
    }

    #[test]
    fn looks_that_are_not_simultaneous_agree_and_one_unit_of_drift_does_not() {
        let books = Tally { total: 10, left: 7, live: 3, epoch: 2, ..Tally::default() };
        let gate = GateCounts { stock: 7, holders: 3, total: 10, waiting: 0, added: 50, epoch: 2 };
        assert_eq!(agree(&gate, &books, &gate, 0), Some(Agreed { r: 7, f: 0, u: 0 }));
        // Two came between the looks; one of them may be among the live orders by now.
        let later = GateCounts { stock: 5, holders: 5, waiting: 1, added: 52, ..gate };
        assert_eq!(agree(&gate, &books, &later, 0), Some(Agreed { r: 5, f: 2, u: 0 }));
        let saved = Tally { left: 6, live: 4, ..books };
        assert_eq!(agree(&gate, &saved, &later, 0), Some(Agreed { r: 5, f: 1, u: 0 }));
        // A release that waits, and one that was applied and is not marked.
        let closing = Tally { left: 8, live: 2, unapplied: 1, ..books };
        assert_eq!(agree(&gate, &closing, &gate, 0), Some(Agreed { r: 7, f: 0, u: 1 }));
        let applied = GateCounts { stock: 8, holders: 2, ..gate };
        assert_eq!(agree(&applied, &closing, &applied, 0), Some(Agreed { r: 8, f: 0, u: 0 }));
        // A dead letter holds its unit.
        let held = GateCounts { stock: 6, holders: 4, ..gate };
        assert_eq!(agree(&held, &books, &held, 1), Some(Agreed { r: 6, f: 1, u: 0 }));
        // Drift, in either store and either direction, also where the gate's own sum holds.
        for wrong in [
            GateCounts { stock: 8, ..gate },
            GateCounts { stock: 6, ..gate },
            GateCounts { holders: 2, ..gate },
            GateCounts { stock: 8, holders: 2, ..gate },
            GateCounts { stock: 6, holders: 4, ..gate },
            GateCounts { total: 11, stock: 8, ..gate },
            GateCounts { epoch: 1, ..gate },
        ] {
            assert_eq!(agree(&wrong, &books, &wrong, 0), None, "{wrong:?}");
        }
        assert_eq!(agree(&gate, &Tally { left: 8, ..books }, &gate, 0), None);
    }
}
