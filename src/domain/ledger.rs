//! The stock equation. What it means for the books of one voucher to balance; the figures are gathered elsewhere.

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
}
