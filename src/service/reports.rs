//! What became of a sale: when it was sold out, who was turned away, what was paid. From the rows, so it is what the
//! database says; what only Redis counted is kept in SQL once the sale is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::ids::{UserId, VoucherId};
use crate::domain::money::Fen;
use crate::domain::time::Millis;
use crate::domain::voucher::Voucher;
use crate::gate::TurnedAway;
use crate::service::ServiceError;
use crate::service::figures::{Figures, SaleFigures};
use crate::service::sales::Sales;
use crate::store::{KeptCounts, OrderLine, StoreError};

/// Refusals reach Redis within a second, and nobody asks the gate five seconds after the end.
const KEEP_AFTER: Duration = Duration::from_secs(10);
/// Redis forgets a sale a week after its end.
const KEEP_WITHIN: Duration = Duration::from_hours(7 * 24);
/// Sales kept in one round.
const A_ROUND: i64 = 20;
/// Rows and people read at once.
const PAGE: i64 = 1000;

/// The report of one sale.
#[derive(Debug, Clone)]
pub struct Report {
    /// The voucher with its sale.
    pub voucher: Voucher,
    /// The figures now.
    pub figures: Arc<SaleFigures>,
    /// When, for the first time, no unit was left.
    pub sold_out_at: Option<Millis>,
    /// People who heard "sold out", "paused" or "over" and never held a unit; none: Redis cannot be asked.
    pub turned_away: Option<i64>,
    /// Paid and kept.
    pub money_in: Fen,
    /// Gone back.
    pub money_back: Fen,
}

impl Report {
    /// Orders that were paid, whatever became of the money later.
    #[must_use]
    pub fn ever_paid(&self) -> i64 {
        let books = &self.figures.books;
        books.paid + books.refunding + books.refunded
    }

    /// Of a thousand who were admitted, how many paid; none: nobody was admitted.
    #[must_use]
    pub fn paid_permille(&self) -> Option<i64> {
        let admitted = self.figures.admitted();
        (admitted > 0).then(|| (self.ever_paid() * 1000 + admitted / 2) / admitted)
    }
}

/// Makes reports; cheap to clone.
#[derive(Clone)]
pub struct Reports {
    /// The stores.
    pub sales: Arc<Sales>,
    /// The figures.
    pub figures: Arc<Figures>,
}

impl Reports {
    /// The report of a sale, at any time; none: no such sale. Costs a walk over its orders.
    pub async fn of(&self, voucher: VoucherId) -> Result<Option<Report>, ServiceError> {
        let Some(figures) = self.figures.now(voucher).await? else { return Ok(None) };
        let store = &self.sales.store;
        let Some(known) = store.voucher(voucher).await? else { return Ok(None) };
        let turned_away = match store.kept_counts(voucher).await? {
            Some(kept) => Some(kept.turned_away),
            None => match self.sales.gate.turned_away(voucher).await {
                Ok(away) => Some(self.never_held(voucher, &away).await?),
                Err(error) => {
                    tracing::debug!(%error, "who was turned away cannot be asked");
                    None
                }
            },
        };
        let (money_in, money_back) = store.money_of(voucher).await?;
        Ok(Some(Report {
            voucher: known,
            figures,
            sold_out_at: store.sold_out_at(voucher).await?,
            turned_away,
            money_in: Fen(money_in),
            money_back: Fen(money_back),
        }))
    }

    /// How many of those turned away never held a unit, before or after.
    async fn never_held(&self, voucher: VoucherId, away: &TurnedAway) -> Result<i64, StoreError> {
        let mut never = away.count();
        let mut after = UserId(0);
        while never > 0 {
            let buyers = self.sales.store.buyers_of(voucher, after, PAGE).await?;
            let Some(last) = buyers.last() else { break };
            after = *last;
            never -= i64::try_from(buyers.iter().filter(|user| away.contains(**user)).count()).unwrap_or(0);
        }
        Ok(never.max(0))
    }

    /// A page of a sale's orders above `after`, oldest first, for a table; empty at the end.
    pub async fn lines(&self, voucher: VoucherId, after: i64) -> Result<Vec<OrderLine>, ServiceError> {
        Ok(self.sales.store.order_lines(voucher, after, PAGE).await?)
    }

    /// Keeps what Redis counted of sales that are over. How many were kept.
    pub async fn keep(&self) -> Result<usize, ServiceError> {
        let Sales { store, gate, clock, .. } = &*self.sales;
        let now = clock.now();
        let over = store.sales_to_keep(now - KEEP_WITHIN, now - KEEP_AFTER, A_ROUND).await?;
        for voucher in &over {
            let refused: BTreeMap<String, i64> = gate.figures(*voucher).await?.refused.into_iter().collect();
            let away = gate.turned_away(*voucher).await?;
            let kept = KeptCounts {
                refused: serde_json::to_string(&refused).unwrap_or_default(),
                turned_away: self.never_held(*voucher, &away).await?,
            };
            let mut tx = store.begin().await?;
            tx.keep_counts(*voucher, &kept, clock.now()).await?;
            tx.commit().await?;
        }
        Ok(over.len())
    }
}
