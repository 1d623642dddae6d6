//! How a sale stands, for whoever watches over the shop: is its gate open, do its figures add up. Cheap: no set is read.
//!
//! `audit.rs` looks at every holder and entry; here the counts alone have to do, because a page asks for them.

use std::time::Duration;

use crate::domain::ids::VoucherId;
use crate::domain::ledger::{Figures, gate_sum_holds};
use crate::domain::sale::Sale;
use crate::service::ServiceError;
use crate::service::reconcile::{Finding, compare};
use crate::service::sales::Sales;

/// Looks before a figure that does not fit is believed: both stores are read one after the other, while orders move.
const LOOKS: u32 = 3;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The figures of one sale.
#[derive(Debug, Clone, Copy)]
pub struct Health {
    /// `r` and `f` mean nothing when `gate_known` is false.
    pub figures: Figures,
    /// Whether Redis could be asked and has the sale.
    pub gate_known: bool,
    /// Whether everything adds up.
    pub balanced: bool,
}

/// The vouchers whose sales are not over and whose gates are not open, or do not fit the books.
pub async fn not_open(sales: &Sales) -> Result<Vec<VoucherId>, ServiceError> {
    let open: Vec<Sale> = sales.store.sales_not_over(sales.clock.now(), Duration::ZERO).await?;
    let ids: Vec<VoucherId> = open.iter().map(|sale| sale.voucher).collect();
    let gates = sales.gate.snapshots(&ids).await?;
    let fits = |finding| matches!(finding, Finding::Fits | Finding::PauseDiffers);
    Ok(open.iter().zip(&gates).filter(|(sale, gate)| !fits(compare(sale, gate))).map(|(sale, _)| sale.voucher).collect())
}

/// The figures of a sale; none: no such sale.
pub async fn figures(sales: &Sales, voucher: VoucherId) -> Result<Option<Health>, ServiceError> {
    let mut health = look(sales, voucher).await?;
    for _ in 1..LOOKS {
        if health.is_none_or(|h| h.balanced || !h.gate_known) {
            break;
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
        health = look(sales, voucher).await?;
    }
    Ok(health)
}

async fn look(sales: &Sales, voucher: VoucherId) -> Result<Option<Health>, ServiceError> {
    let (Some(sale), Some(mut figures)) = (sales.store.sale(voucher).await?, sales.store.figures(voucher).await?) else {
        return Ok(None);
    };
    if sale.end <= sales.clock.now() {
        // Over: its gate is not asked any more, and what is left to release there is closed in SQL.
        (figures.r, figures.u) = (figures.d, 0);
        return Ok(Some(Health { figures, gate_known: true, balanced: figures.books_balance() }));
    }
    let unknown = Health { figures, gate_known: false, balanced: figures.books_balance() };
    let Ok(gate) = sales.gate.snapshot(voucher).await else { return Ok(Some(unknown)) };
    let (Some(hash), Some(stock)) = (gate.sale, gate.stock) else { return Ok(Some(unknown)) };
    figures.r = stock;
    // Who holds a unit and is neither a live order nor on his way out is still in the queue.
    figures.f = (gate.holders - figures.a - figures.u).max(0);
    let sums = gate_sum_holds(stock, gate.holders, hash.total) && hash.total == figures.i;
    let balanced = sums && figures.books_balance() && figures.stores_agree();
    Ok(Some(Health { figures, gate_known: true, balanced }))
}
