//! Decisions a second while a small sale sells out, and after it has, beside the handler that does nothing.

use crate::design::Design;
use crate::load::Burst;
use crate::report::{Goal, Report, Row, median};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Measures both; the median of decisions a second.
pub async fn measure(settings: &Settings, shop: &mut Shop, report: &mut Report) -> anyhow::Result<f64> {
    let empty = Design::empty().await?;
    let target = shop.target()?;
    let (mut ceiling, mut decisions, mut sold_out) = (Vec::new(), Vec::new(), Vec::new());
    let buyers = shop.buyers.clone();
    let burst = |target, voucher| Burst { target, voucher, buyers: &buyers, connections: settings.connections, rate: None };
    // Nobody's first run counts: code is read from disk, buffers grow.
    burst(&empty.target, 1).run().await?;
    let voucher = shop.sale(settings.units).await?;
    burst(&target, voucher).run().await?;
    for run in 1..=settings.runs {
        ceiling.push(burst(&empty.target, 1).run().await?.per_second());
        let voucher = shop.sale(settings.units).await?;
        let heard = burst(&target, voucher).run().await?;
        decisions.push(heard.per_second());
        let again = burst(&target, voucher).run().await?;
        anyhow::ensure!(
            heard.accepted + again.accepted == settings.units,
            "{} and {} units were sold",
            heard.accepted,
            again.accepted
        );
        sold_out.push(again.per_second());
        say(&format!(
            "decisions {run}: empty {:.0}, shop {:.0}, sold out {:.0} a second",
            ceiling[run - 1],
            decisions[run - 1],
            sold_out[run - 1]
        ));
    }
    let highest = median(&decisions);
    report.row(Row::ratio(
        "decisions a second, 100 units, everything on",
        "1/s",
        decisions,
        "empty handler",
        ceiling.clone(),
        Goal::at_least(0.40, 0.65),
    ));
    report.row(Row::ratio("sold-out answers a second", "1/s", sold_out, "empty handler", ceiling, Goal::at_least(0.70, 0.90)));
    Ok(highest)
}
