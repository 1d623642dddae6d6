//! Do the books balance? Compares database, gate and stream, without stopping a sale.
//!
//! No look at two stores is a consistent cut, so a deviation counts only when it is seen again at the same epoch.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;

use crate::clock::Clock;
use crate::domain::ids::{Epoch, Lane, OrderId, UserId, VoucherId};
use crate::domain::ledger::{self, Figures};
use crate::domain::sale::Sale;
use crate::gate::{Gate, GateSnapshot};
use crate::queue::Queue;
use crate::service::ServiceError;
use crate::service::place_orders::buried_entry;
use crate::store::Store;

/// Between two looks at the same voucher.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// Looks before a deviation is believed. Under load a gate may rightly be closed for a moment.
const LOOKS: u32 = 4;

/// What the audit found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// No problem anywhere.
    pub ok: bool,
    /// One line a sale.
    pub vouchers: Vec<VoucherReport>,
    /// What belongs to no sale.
    pub problems: Vec<String>,
}

/// One sale's figures and what is wrong with them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VoucherReport {
    /// Which.
    pub voucher_id: VoucherId,
    /// SQL's epoch.
    pub epoch: Epoch,
    /// Units ever put on sale.
    #[serde(rename = "I")]
    pub i: i64,
    /// Left in SQL.
    #[serde(rename = "D")]
    pub d: i64,
    /// Live orders.
    #[serde(rename = "A")]
    pub a: i64,
    /// Left in Redis; SQL's figure for a sale that is over.
    #[serde(rename = "R")]
    pub r: i64,
    /// Admitted without a row.
    #[serde(rename = "F")]
    pub f: i64,
    /// Releases that Redis has not applied.
    #[serde(rename = "U")]
    pub u: i64,
    /// Each broken invariant, in a sentence.
    pub problems: Vec<String>,
}

/// Audits.
#[derive(Clone)]
pub struct Audit {
    /// The books.
    pub store: Store,
    /// The gates.
    pub gate: Gate,
    /// The streams.
    pub queue: Queue,
    /// The time.
    pub clock: Clock,
    /// Lanes of this shop.
    pub lanes: u16,
}

impl Audit {
    /// Audits every sale.
    pub async fn run(&self) -> Result<Report, ServiceError> {
        let mut vouchers = Vec::new();
        for sale in self.store.all_sales().await? {
            vouchers.push(self.voucher(sale.voucher).await?);
        }
        let problems = Vec::new();
        let ok = problems.is_empty() && vouchers.iter().all(|v| v.problems.is_empty());
        Ok(Report { ok, vouchers, problems })
    }

    /// Audits one sale: looks until a look is clean, or reports what several looks in a row had in common.
    pub async fn voucher(&self, voucher: VoucherId) -> Result<VoucherReport, ServiceError> {
        let mut report = self.look(voucher).await?;
        for _ in 1..LOOKS {
            if report.problems.is_empty() {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            let again = self.look(voucher).await?;
            let before: HashSet<String> = report.problems.iter().map(|p| kind_of(p)).collect();
            let same_epoch = again.epoch == report.epoch;
            let mut next = again;
            next.problems.retain(|p| same_epoch && before.contains(&kind_of(p)));
            report = next;
        }
        Ok(report)
    }

    async fn look(&self, voucher: VoucherId) -> Result<VoucherReport, ServiceError> {
        let Some(sale) = self.store.sale(voucher).await? else {
            return Err(ServiceError::Internal(format!("no sale {voucher}")));
        };
        let Some(mut figures) = self.store.figures(voucher).await? else {
            return Err(ServiceError::Internal(format!("no sale {voucher}")));
        };
        figures.r = figures.d;
        let mut problems = Vec::new();
        if !figures.books_balance() {
            problems.push(format!("books: D {} + A {} is not I {}", figures.d, figures.a, figures.i));
        }
        // Sales that are over need no gate; what is left to release there is closed in SQL.
        if sale.end > self.clock.now() {
            self.look_at_gate(&sale, &mut figures, &mut problems).await?;
        } else {
            figures.u = 0;
        }
        Ok(VoucherReport {
            voucher_id: voucher,
            epoch: sale.epoch,
            i: figures.i,
            d: figures.d,
            a: figures.a,
            r: figures.r,
            f: figures.f,
            u: figures.u,
            problems,
        })
    }

    /// Orders of `voucher` among the dead letters that nobody has decided: they hold their unit.
    async fn buried(&self, voucher: VoucherId) -> Result<HashSet<OrderId>, ServiceError> {
        let letters = self.store.open_dead_letters(10_000).await?;
        let entries = letters.iter().filter_map(|l| buried_entry(&l.letter.entry_json));
        Ok(entries.filter(|e| e.voucher == voucher).map(|e| e.order).collect())
    }

    async fn look_at_gate(&self, sale: &Sale, figures: &mut Figures, problems: &mut Vec<String>) -> Result<(), ServiceError> {
        let gate = self.gate.snapshot(sale.voucher).await?;
        check_gate(sale, &gate, problems);
        let Some(stock) = gate.stock else { return Ok(()) };
        figures.r = stock;

        // Holders first, rows second: an order saved between the two reads is then found by its row.
        let holders: HashMap<UserId, OrderId> = self.gate.holders(sale.voucher).await?;
        let live: HashMap<UserId, OrderId> = self.store.live_orders_of(sale.voucher).await?.into_iter().collect();
        let releasing: HashSet<OrderId> = self.store.open_releases_of(sale.voucher).await?.into_iter().map(|r| r.order).collect();
        let buried = self.buried(sale.voucher).await?;
        let mut waiting: Option<HashSet<OrderId>> = None;
        let mut stray = BTreeSet::new();
        for (user, id) in &holders {
            if live.get(user) == Some(id) || releasing.contains(id) {
                continue;
            }
            if buried.contains(id) {
                figures.f += 1;
                continue;
            }
            if waiting.is_none() {
                let entries = self.queue.entries(Lane::of(sale.voucher, self.lanes)).await?;
                let entries = entries.into_iter().filter_map(|d| d.entry.ok());
                waiting = Some(entries.filter(|e| e.voucher == sale.voucher).map(|e| e.order).collect());
            }
            if waiting.as_ref().is_some_and(|w| w.contains(id)) {
                figures.f += 1;
            } else {
                stray.insert(*id);
            }
        }
        for id in &stray {
            // Once more: its row may have come between our reads.
            if self.store.order(*id).await?.is_none() {
                problems.push(format!("holders: order {id} holds a unit and has neither row nor entry"));
            } else if !self.store.open_releases_of(sale.voucher).await?.iter().any(|r| r.order == *id)
                && !self.store.live_orders_of(sale.voucher).await?.iter().any(|(_, live)| live == id)
                && self.gate.holders(sale.voucher).await?.values().any(|held| held == id)
            {
                problems.push(format!("holders: order {id} is closed, still holds a unit and has no release"));
            }
        }
        for (user, id) in &live {
            if holders.get(user) == Some(id) {
                continue;
            }
            let held = self.gate.find_holder(&[sale.voucher], *user).await?;
            if held.first().map(|(_, order, _)| *order) != Some(*id) {
                problems.push(format!("holders: live order {id} does not hold its unit at the gate"));
            }
        }
        Ok(())
    }
}

fn check_gate(sale: &Sale, gate: &GateSnapshot, problems: &mut Vec<String>) {
    let Some(hash) = &gate.sale else {
        problems.push(String::from("gate: the sale's hash is missing"));
        return;
    };
    if hash.epoch != sale.epoch || !hash.open || !hash.run_id_fits {
        problems.push(format!("gate: not open under epoch {} of this server", sale.epoch));
    }
    if !gate.stream_there {
        problems.push(String::from("gate: the stream is missing"));
    }
    match gate.stock {
        None => problems.push(String::from("gate: the stock key is missing")),
        Some(stock) if !ledger::gate_sum_holds(stock, gate.holders, sale.stock_total) => {
            problems.push(format!("gate: stock {stock} + holders {} is not I {}", gate.holders, sale.stock_total));
        }
        Some(_) => {}
    }
}

/// Two looks found the same thing when the sentences agree but for their figures; orders are compared whole.
fn kind_of(problem: &str) -> String {
    if problem.starts_with("holders:") { problem.to_owned() } else { problem.split(' ').take(3).collect::<Vec<_>>().join(" ") }
}
