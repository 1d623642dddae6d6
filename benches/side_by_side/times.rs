//! How long it takes at a set rate: from the click to the decision, and from the click to the push.

use std::time::Duration;

use crate::load::{Burst, click_to_push};
use crate::report::{Goal, Report, Row};
use crate::say;
use crate::settings::{Scale, Settings};
use crate::shop::Shop;

/// Clicks of a run at half of `highest` last about this long.
const SECONDS: f64 = 2.0;

/// Measures both.
pub async fn measure(settings: &Settings, shop: &mut Shop, highest: f64, report: &mut Report) -> anyhow::Result<()> {
    let target = shop.target()?;
    let rate = Duration::from_secs_f64((highest / 2.0).max(100.0)).as_secs();
    let wanted = usize::try_from(Duration::from_secs_f64((highest / 2.0 * SECONDS).max(100.0)).as_secs())?;
    let (mut decision, mut push) = (Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        let voucher = shop.sale(settings.units).await?;
        let buyers = &shop.buyers[..wanted.min(shop.buyers.len())];
        let rate = Some(u32::try_from(rate)?);
        let burst = Burst { target: &target, voucher, buyers, connections: settings.connections, rate };
        decision.push(burst.run().await?.p99_ms);

        let voucher = shop.sale(settings.pushed_orders).await?;
        let rate = Some(if settings.scale == Scale::Full { 2000 } else { 400 });
        let buyers = &shop.buyers[..settings.pushed_orders];
        let burst = Burst { target: &target, voucher, buyers, connections: 64, rate };
        push.push(click_to_push(&burst, settings.listeners).await?);
        say(&format!("times {run}: decision p99 {:.2} ms, push p99 {:.2} ms", decision[run - 1], push[run - 1]));
    }
    report.row(Row::alone("purchase p99 at half the maximum rate", "ms", decision, Goal::at_most(10.0, 3.0)));
    report.row(Row::alone("click to push p99, 2,000 orders a second", "ms", push, Goal::at_most(200.0, 50.0)));
    Ok(())
}
