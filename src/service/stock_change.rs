//! Units added to a sale or taken off it while it sells. The change itself is a step of the rebuild's one transaction: a
//! stock that is written in two stores one after the other would be wrong after every lost answer.

use serde_json::json;

use crate::domain::ids::UserId;
use crate::domain::sale::Sale;
use crate::domain::time::Millis;
use crate::domain::voucher::MAX_STOCK;
use crate::store::{StoreError, Tx};

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// It is in the books, if the rebuild's commit is.
    Done,
    /// Somebody else edited the sale since.
    Conflict,
    /// It would leave less than nothing, or more than a sale may hold; what would do.
    OutOfRange {
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
}

/// A change of a sale's stock, asked for by an admin who saw the sale as `version`.
#[derive(Debug, Clone)]
pub struct StockChange {
    /// Units to add; below zero: to take away.
    pub delta: i64,
    /// The sale as the admin saw it.
    pub version: i64,
    /// Who asks.
    pub by: UserId,
    /// What became of it; none: the rebuild did not come that far.
    pub outcome: Option<Changed>,
    /// The rebuild's transaction is committed, and `outcome` with it.
    pub committed: bool,
}

/// Whether a sale as it is now can take `delta` from somebody who saw it as `version`.
#[must_use]
pub fn judge(sale: &Sale, delta: i64, version: i64) -> Changed {
    let (min, max) = (-sale.stock_left, MAX_STOCK - sale.stock_total);
    if sale.version != version {
        Changed::Conflict
    } else if (min..=max).contains(&delta) {
        Changed::Done
    } else {
        Changed::OutOfRange { min, max }
    }
}

impl StockChange {
    /// Applies the change where the locked `sale` allows it, and answers the sale as it is then. Where it does not, the
    /// rebuild goes on without it: the gate is shut by now, and buyers wait.
    pub(super) async fn apply(&mut self, tx: &mut Tx, sale: Sale, now: Millis) -> Result<Sale, StoreError> {
        let verdict = judge(&sale, self.delta, self.version);
        self.outcome = Some(verdict);
        if verdict != Changed::Done {
            return Ok(sale);
        }
        tx.change_stock(sale.voucher, self.delta, now).await?;
        let after = Sale {
            stock_total: sale.stock_total + self.delta,
            stock_left: sale.stock_left + self.delta,
            version: sale.version + 1,
            ..sale
        };
        let told = |s: &Sale| json!({ "stockTotal": s.stock_total, "stockLeft": s.stock_left }).to_string();
        let subject = format!("voucher {}", sale.voucher);
        tx.audit(&self.by.to_string(), "sale.stock", &subject, Some(&told(&sale)), Some(&told(&after)), now).await?;
        Ok(after)
    }
}
