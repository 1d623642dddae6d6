//! Does each gate fit the books? Looks without stopping the sale, and rebuilds what does not fit.
//!
//! SQL is read first: an old epoch in a caller's memory is no reason for a rebuild, or each rebuild would start the next.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::domain::ids::{Lane, VoucherId};
use crate::domain::ledger;
use crate::domain::sale::Sale;
use crate::gate::{Gate, GateSnapshot};
use crate::service::ServiceError;
use crate::service::rebuild::{Cause, OUTRANKED, Rebuilds, Rebuilt};
use crate::service::sale_index::SaleIndex;
use crate::store::Store;

/// How long a gate may stay closed under the right epoch before somebody else than its rebuilder takes over: longer than
/// a rebuild from its load to its open.
const CLOSED_TOO_LONG: Duration = Duration::from_secs(3);

/// How long the gate of a sale that is over is kept: its winners still hear their order from it.
const KEEP_GATE: Duration = Duration::from_hours(7 * 24);

/// Between two looks for sales that are over, and how many a lane are seen to at once.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
const SWEPT_AT_ONCE: usize = 200;

/// Tells the reconciler of this process that a gate was not ready.
#[derive(Debug, Clone, Default)]
pub struct Nudge(Arc<Notify>);

impl Nudge {
    /// Asks for a look, soon.
    pub fn look_at(&self, voucher: VoucherId) {
        tracing::debug!(voucher.id = %voucher, "a gate is not ready");
        self.0.notify_one();
    }

    /// Returns when somebody asked.
    pub async fn asked(&self) {
        self.0.notified().await;
    }
}

/// What a look at one gate found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// Open, and everything fits.
    Fits,
    /// In a rebuilder's hands, or not yet known to be stuck.
    Closed,
    /// Only the pause differs from SQL.
    PauseDiffers,
    /// Must be rebuilt.
    Broken(Misfit),
}

/// Why a gate must be rebuilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// The sale's hash is missing.
    Hash,
    /// The stock key is missing.
    Stock,
    /// The gate was loaded on another server.
    RunId,
    /// The stream is missing.
    Stream,
    /// The gate's epoch is not the database's.
    Epoch,
    /// Stock and holders do not add up to the total.
    Sum,
    /// The gate's total is not the database's.
    Total,
    /// Closed for longer than a rebuild.
    Closed,
}

impl Misfit {
    /// One word, for the metric.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Stock => "stock",
            Self::RunId => "run_id",
            Self::Stream => "stream",
            Self::Epoch => "epoch",
            Self::Sum => "sum",
            Self::Total => "total",
            Self::Closed => "closed",
        }
    }
}

/// Compares one gate with SQL's sale. Pure.
#[must_use]
pub fn compare(sale: &Sale, gate: &GateSnapshot) -> Finding {
    let Some(hash) = &gate.sale else { return Finding::Broken(Misfit::Hash) };
    let Some(stock) = gate.stock else { return Finding::Broken(Misfit::Stock) };
    if !hash.run_id_fits {
        return Finding::Broken(Misfit::RunId);
    }
    if !gate.stream_there {
        return Finding::Broken(Misfit::Stream);
    }
    if !hash.open {
        return Finding::Closed;
    }
    if hash.epoch != sale.epoch {
        return Finding::Broken(Misfit::Epoch);
    }
    if !ledger::gate_sum_holds(stock, gate.holders, hash.total) {
        return Finding::Broken(Misfit::Sum);
    }
    if hash.total != sale.stock_total {
        return Finding::Broken(Misfit::Total);
    }
    if hash.paused == sale.paused { Finding::Fits } else { Finding::PauseDiffers }
}

/// Keeps gates and books together.
pub struct Reconciler {
    /// The truth.
    pub store: Store,
    /// The gates.
    pub gate: Gate,
    /// Puts right what does not fit.
    pub rebuilds: Rebuilds,
    /// Told when an epoch moved.
    pub index: Arc<SaleIndex>,
    /// The time.
    pub clock: Clock,
    /// Since when a gate is seen closed.
    pub closed_since: Mutex<HashMap<VoucherId, Instant>>,
    /// Whether a round was made.
    pub has_looked: AtomicBool,
    /// When the keys of sales that are over were last looked for.
    pub swept_at: Mutex<Option<Instant>>,
}

impl Reconciler {
    /// Looks at every sale that is not over and rebuilds what must be. Returns how many were rebuilt and opened.
    pub async fn round(&self) -> Result<usize, ServiceError> {
        let now = self.clock.now();
        let sales = self.store.sales_not_over(now, Duration::ZERO).await?;
        let first_round = !self.has_looked.swap(true, Ordering::Relaxed);
        self.sweep(&sales).await?;
        let ids: Vec<VoucherId> = sales.iter().map(|s| s.voucher).collect();
        let gates = self.gate.snapshots(&ids).await?;
        let (mut opened, mut trouble) = (0, None);
        for (sale, gate) in sales.iter().zip(&gates) {
            match self.look(sale, gate, first_round).await {
                Ok(true) => opened += 1,
                Ok(false) => {}
                // What is wrong with this sale alone must not keep the later ones shut.
                Err(error @ ServiceError::Internal(_)) => {
                    tracing::error!(voucher.id = %sale.voucher, %error, "a gate cannot be put right");
                    trouble = Some(error);
                }
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
        }
        if opened > 0 {
            self.index.want_refresh();
        }
        trouble.map_or(Ok(opened), Err)
    }

    /// Lets the keys of sales that are over expire, whenever they ended: nobody may have been here to see it.
    async fn sweep(&self, not_over: &[Sale]) -> Result<(), ServiceError> {
        let swept_at = || self.swept_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if swept_at().is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return Ok(());
        }
        let on: HashSet<VoucherId> = not_over.iter().map(|sale| sale.voucher).collect();
        self.closed().retain(|voucher, _| on.contains(voucher));
        for lane in (0..self.rebuilds.lanes).map(Lane) {
            let over = self.gate.loaded(lane).await?.into_iter().filter(|voucher| !on.contains(voucher));
            for voucher in over.take(SWEPT_AT_ONCE) {
                // Made a moment ago, after our first look? Then it is not over.
                if self.store.sale(voucher).await?.is_none_or(|sale| sale.end <= self.clock.now()) {
                    self.gate.expire_keys_of(voucher, KEEP_GATE).await?;
                }
            }
        }
        *swept_at() = Some(Instant::now());
        Ok(())
    }

    async fn look(&self, sale: &Sale, gate: &GateSnapshot, first_round: bool) -> Result<bool, ServiceError> {
        let mut finding = compare(sale, gate);
        // Never loaded: whoever made it a moment ago is loading it, and a second rebuild would only shut what the first is
        // about to open. After a start nobody is.
        let being_made = sale.epoch == 0 && finding == Finding::Broken(Misfit::Hash) && !first_round;
        if being_made && !self.closed_too_long(sale.voucher) {
            return Ok(false);
        }
        if finding == Finding::Closed {
            if !self.closed_too_long(sale.voucher) {
                return Ok(false);
            }
            finding = Finding::Broken(Misfit::Closed);
        } else if !being_made {
            self.closed().remove(&sale.voucher);
        }
        if matches!(finding, Finding::Broken(_)) {
            // Once more, both sides fresh: a rebuild elsewhere may have moved the epoch between our two reads.
            let Some(fresh) = self.store.sale(sale.voucher).await? else { return Ok(false) };
            let again = self.gate.snapshot(sale.voucher).await?;
            match compare(&fresh, &again) {
                Finding::Broken(why) => finding = Finding::Broken(why),
                Finding::Closed if self.closed_too_long(sale.voucher) => {}
                _ => return Ok(false),
            }
        }
        match finding {
            Finding::Fits | Finding::Closed => Ok(false),
            Finding::PauseDiffers => {
                self.gate.set_paused(sale.voucher, sale.epoch, sale.paused).await?;
                Ok(false)
            }
            Finding::Broken(why) => {
                if sale.epoch > 0 {
                    tracing::warn!(voucher.id = %sale.voucher, ?why, "rebuilding the gate");
                }
                let stock = gate.stock.map_or_else(|| String::from("none"), |stock| stock.to_string());
                let before = format!(
                    "epoch {}, I {}, D {}, gate: stock {stock}, holders {}",
                    sale.epoch, sale.stock_total, sale.stock_left, gate.holders
                );
                match self.rebuilds.rebuild_for(sale.voucher, 0, &Cause::system(why.word(), Some(before))).await? {
                    Rebuilt::Open(_) => {
                        self.closed().remove(&sale.voucher);
                        Ok(true)
                    }
                    Rebuilt::GivenUp(why) => {
                        if why == OUTRANKED {
                            // Another process is at it. With the same patience two that are slow would overtake each other for ever.
                            let more = CLOSED_TOO_LONG.mul_f32(rand::random_range(0.0..2.0));
                            self.closed().insert(sale.voucher, Instant::now() + more);
                        }
                        tracing::info!(voucher.id = %sale.voucher, why, "rebuild given up; it is tried again");
                        Ok(false)
                    }
                    Rebuilt::Unknown => Ok(false),
                }
            }
        }
    }

    fn closed_too_long(&self, voucher: VoucherId) -> bool {
        self.closed().entry(voucher).or_insert_with(Instant::now).elapsed() > CLOSED_TOO_LONG
    }

    fn closed(&self) -> std::sync::MutexGuard<'_, HashMap<VoucherId, Instant>> {
        self.closed_since.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
