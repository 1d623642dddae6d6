//! The figures of one sale, for whoever watches over the shop: what both stores count, and whether it adds up.
//!
//! A look is one statement and two round trips to the gate, and reads no set. Callers who come while a look is under way
//! share the next one, so a crowd of watchers costs one look at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::{Lane, VoucherId};
use crate::domain::ledger::{Agreed, GateCounts, Tally, agree};
use crate::domain::sale::{Sale, SaleState};
use crate::domain::time::Millis;
use crate::gate::GateFigures;
use crate::service::ServiceError;
use crate::service::place_orders::buried_entry;
use crate::service::sales::Sales;

/// Looks before "it does not add up" is believed, and the time between them: a rebuild or a release may be under way.
const LOOKS: u32 = 5;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(60);

/// Dead letters that a look reads at most.
const LETTERS: i64 = 1000;

/// What can be said of the gate's half of the equation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Books {
    /// `R + F + U = D`, with these.
    Balanced(Agreed),
    /// They do not add up, seen several times in a row. The figures as measured, where there are any.
    Broken(Option<Agreed>),
    /// Redis cannot be asked.
    Unknown,
}

/// The figures of one sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaleFigures {
    /// Which.
    pub voucher: VoucherId,
    /// Where it stands.
    pub state: SaleState,
    /// What SQL counts, in one snapshot.
    pub books: Tally,
    /// What the gate says to that.
    pub gate: Books,
    /// How often each answer but OK was given, by code; none: Redis cannot be asked.
    pub refused: Option<Vec<(String, i64)>>,
    /// Entries of the sale's lane that wait to be saved, of whatever sale.
    pub waiting: Option<i64>,
    /// When this was measured.
    pub as_of: Millis,
}

impl SaleFigures {
    /// The terms of the equation as they are to be shown; none: Redis cannot be asked, or has no figures.
    #[must_use]
    pub fn terms(&self) -> Option<Agreed> {
        match self.gate {
            Books::Balanced(terms) => Some(terms),
            Books::Broken(terms) => terms,
            Books::Unknown => None,
        }
    }

    /// Whether everything adds up; none: Redis cannot be asked, and the books alone do.
    #[must_use]
    pub fn balanced(&self) -> Option<bool> {
        match self.gate {
            Books::Balanced(_) => Some(true),
            Books::Broken(_) => Some(false),
            Books::Unknown => {
                if self.books.books_balance() {
                    None
                } else {
                    Some(false)
                }
            }
        }
    }

    /// Everybody who was ever admitted: rows, and those who wait for theirs.
    #[must_use]
    pub fn admitted(&self) -> i64 {
        self.books.rows + self.terms().map_or(0, |terms| terms.f)
    }

    /// Refusals of all kinds together.
    #[must_use]
    pub fn refusals(&self) -> i64 {
        self.refused.iter().flatten().map(|(_, n)| n).sum()
    }
}

#[derive(Default)]
struct Seen {
    begun: Option<Instant>,
    cost: Duration,
    figures: Option<Arc<SaleFigures>>,
}

/// Looks at sales; share it.
pub struct Figures {
    sales: Arc<Sales>,
    lanes: u16,
    seen: Mutex<HashMap<VoucherId, Arc<tokio::sync::Mutex<Seen>>>>,
}

impl Figures {
    /// Looks at the sales of `sales`, which are spread over `lanes`.
    #[must_use]
    pub fn new(sales: Arc<Sales>, lanes: u16) -> Self {
        Self { sales, lanes, seen: Mutex::default() }
    }

    /// The figures of a sale as they are now, from a look that began after this was called; none: no such sale.
    pub async fn now(&self, voucher: VoucherId) -> Result<Option<Arc<SaleFigures>>, ServiceError> {
        let asked = Instant::now();
        self.seen_after(voucher, |seen| seen.begun.is_some_and(|begun| begun >= asked)).await
    }

    /// As [`now`](Self::now), from a look that is at most `age` old, or ten times as old as it took.
    pub async fn within(&self, voucher: VoucherId, age: Duration) -> Result<Option<Arc<SaleFigures>>, ServiceError> {
        self.seen_after(voucher, |seen| seen.begun.is_some_and(|begun| begun.elapsed() <= age.max(10 * seen.cost))).await
    }

    async fn seen_after(
        &self,
        voucher: VoucherId,
        fresh: impl Fn(&Seen) -> bool,
    ) -> Result<Option<Arc<SaleFigures>>, ServiceError> {
        let place = {
            let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(voucher).or_default())
        };
        let mut seen = place.lock().await;
        if fresh(&seen) {
            return Ok(seen.figures.clone());
        }
        let begun = Instant::now();
        let figures = self.look_until_sure(voucher).await?.map(Arc::new);
        if figures.is_none() {
            // Nothing is kept for numbers that are no sale.
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&voucher);
        }
        *seen = Seen { begun: Some(begun), cost: begun.elapsed(), figures: figures.clone() };
        Ok(figures)
    }

    async fn look_until_sure(&self, voucher: VoucherId) -> Result<Option<SaleFigures>, ServiceError> {
        let mut figures = self.look(voucher).await?;
        for _ in 1..LOOKS {
            if !matches!(figures, Some(SaleFigures { gate: Books::Broken(_), .. })) {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            figures = self.look(voucher).await?;
        }
        Ok(figures)
    }

    async fn look(&self, voucher: VoucherId) -> Result<Option<SaleFigures>, ServiceError> {
        let Sales { store, gate, clock, .. } = &*self.sales;
        let before = gate.figures(voucher).await.ok();
        let Some(books) = store.tally(voucher).await? else { return Ok(None) };
        let after = if before.is_some() { gate.figures(voucher).await.ok() } else { None };
        let now = clock.now();
        let buried = if after.is_some() { self.buried(voucher, &books).await? } else { 0 };
        let over = books.end <= now;
        let kept = if over { store.kept_counts(voucher).await? } else { None };
        let refused = match kept {
            Some(kept) => {
                serde_json::from_str::<BTreeMap<String, i64>>(&kept.refused).ok().map(|codes| codes.into_iter().collect())
            }
            None => after.as_ref().map(|gate| gate.refused.clone()),
        };
        let waiting = after.as_ref().map(|gate| gate.waiting);
        let gate = compare(before.as_ref(), &books, after.as_ref(), buried, over);
        let left = match gate {
            Books::Balanced(terms) | Books::Broken(Some(terms)) => terms.r,
            _ => books.left,
        };
        let state = state_of(voucher, &books, now, left);
        Ok(Some(SaleFigures { voucher, state, books, gate, refused, waiting, as_of: now }))
    }

    /// Admitted orders of this sale among the undecided dead letters: they hold their unit, unless a rebuild took it.
    async fn buried(&self, voucher: VoucherId, books: &Tally) -> Result<i64, ServiceError> {
        let letters = self.sales.store.open_dead_letters(LETTERS).await?;
        let entries = letters.iter().filter_map(|letter| buried_entry(&letter.letter.entry_json));
        let held = entries.filter(|entry| entry.voucher == voucher && entry.epoch == books.epoch).count();
        Ok(i64::try_from(held).unwrap_or(i64::MAX))
    }

    /// The lane of a sale.
    #[must_use]
    pub fn lane(&self, voucher: VoucherId) -> Lane {
        Lane::of(voucher, self.lanes)
    }
}

fn state_of(voucher: VoucherId, books: &Tally, now: Millis, left: i64) -> SaleState {
    let sale = Sale {
        voucher,
        stock_total: books.total,
        stock_left: books.left,
        epoch: books.epoch,
        epoch_claimed: books.epoch,
        paused: books.paused,
        begin: books.begin,
        end: books.end,
        captcha: false,
        version: books.version,
    };
    sale.state(now, left)
}

fn compare(before: Option<&GateFigures>, books: &Tally, after: Option<&GateFigures>, buried: i64, over: bool) -> Books {
    if over {
        // Its gate is not needed any more: what is left to release there is closed in SQL. Who still waits in the queue
        // does hold a unit.
        let waits = after.map_or(0, |gate| gate.waiting) + buried;
        let f = after.and_then(|gate| gate.counts).map_or(0, |gate| (gate.holders - books.live).clamp(0, waits));
        let terms = Agreed { r: books.left - f, f, u: 0 };
        return if books.books_balance() { Books::Balanced(terms) } else { Books::Broken(Some(terms)) };
    }
    let (Some(before), Some(after)) = (before, after) else { return Books::Unknown };
    let (Some(first), Some(last)) = (&before.counts, &after.counts) else { return Books::Broken(None) };
    match agree(first, books, last, buried) {
        Some(terms) => Books::Balanced(terms),
        None => Books::Broken(Some(as_measured(books, last))),
    }
}

/// What is shown where the stores do not agree: the gate's own figure, and what its holders leave over.
fn as_measured(books: &Tally, gate: &GateCounts) -> Agreed {
    Agreed { r: gate.stock, f: (gate.holders - books.live - books.unapplied).max(0), u: books.unapplied }
}
