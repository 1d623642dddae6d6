//! What grows: buyers, connections, sales at once, the backlog. One run a point, but for buyers, which have a target.

use anyhow::ensure;
use seckill::load::tokens::Buyer;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::design::Design;
use crate::load::{Burst, number};
use crate::report::{Goal, Report, Row, Table};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Measures all four.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    // Without the limit for each user: few buyers who click often are a part of the first table.
    let most = settings.growth_buyers.iter().copied().max().unwrap_or(1000);
    let began = Instant::now();
    let mut shop = Shop::new(None, most).await?;
    say(&format!("{most} buyers were seeded in {} s", began.elapsed().as_secs()));
    shop.serve(&["--rate-limit", "off"]).await?;
    buyers(settings, &mut shop, report).await?;
    connections(settings, &mut shop, report).await?;
    sales(settings, &mut shop, report).await?;
    backlog(settings, &mut shop, report).await?;
    shop.serve(&[]).await?;
    report.audited(&mut shop).await
}

async fn buyers(settings: &Settings, shop: &mut Shop, report: &mut Report) -> anyhow::Result<()> {
    let target = shop.target()?;
    let points = settings.growth_buyers.clone();
    let clicks = settings.clicks.max(points.last().copied().unwrap_or(0));
    let mut rates = vec![Vec::new(); points.len()];
    for _ in 0..settings.runs {
        for (count, rates) in points.iter().zip(&mut rates) {
            let voucher = shop.sale(settings.units).await?;
            let crowd: Vec<Buyer> = shop.buyers[..*count].iter().cycle().take(clicks).cloned().collect();
            let burst = Burst { target: &target, voucher, buyers: &crowd, connections: settings.connections, rate: None };
            rates.push(burst.run().await?.per_second());
        }
    }
    let mut table = Table::new("Buyers", &["buyers", "decisions a second"]);
    for (count, rates) in points.iter().zip(&rates) {
        say(&format!("growth: {count} buyers, {:.0} decisions a second", crate::report::median(rates)));
        table.rows.push(vec![number(*count as u64), crate::report::median(rates)]);
    }
    report.tables.push(table);
    if let (Some(few), Some(many), Some(most)) = (rates.first(), rates.last(), points.last()) {
        let figure = format!("decisions a second, {most} buyers");
        let words = format!("the same with {} buyers", points[0]);
        report.row(Row::ratio(&figure, "1/s", many.clone(), &words, few.clone(), Goal::at_least(0.60, 0.85)));
    }
    Ok(())
}

async fn connections(settings: &Settings, shop: &mut Shop, report: &mut Report) -> anyhow::Result<()> {
    let target = shop.target()?;
    let empty = Design::empty().await?;
    let head = ["connections", "decisions a second", "p99 ms", "empty handler a second", "ratio"];
    let mut table = Table::new("Connections", &head);
    for count in &settings.growth_connections {
        let voucher = shop.sale(settings.units).await?;
        let buyers = &shop.buyers[..settings.clicks.min(shop.buyers.len())];
        let burst = |target, voucher| Burst { target, voucher, buyers, connections: *count, rate: None };
        let ours = burst(&target, voucher).run().await?;
        let ceiling = burst(&empty.target, 1).run().await?.per_second();
        say(&format!("growth: {count} connections, {:.0} decisions a second", ours.per_second()));
        table.rows.push(vec![number(*count as u64), ours.per_second(), ours.p99_ms, ceiling, ours.per_second() / ceiling]);
    }
    report.tables.push(table);
    Ok(())
}

async fn sales(settings: &Settings, shop: &mut Shop, report: &mut Report) -> anyhow::Result<()> {
    let target = shop.target()?;
    let most = settings.growth_sales.iter().copied().max().unwrap_or(1);
    let mut table =
        Table::new("Sales at once, the same clicks, units and connections spread over them", &["sales", "decisions a second"]);
    for count in &settings.growth_sales {
        let mut vouchers = Vec::new();
        for _ in 0..*count {
            vouchers.push(shop.sale((most / count).max(1)).await?);
        }
        let clicks = settings.clicks.min(shop.buyers.len());
        // All connections first: what opening them costs is no part of the figure.
        let mut ready = Vec::new();
        for (voucher, crowd) in vouchers.into_iter().zip(shop.buyers[..clicks].chunks(clicks.div_ceil(*count))) {
            let burst = Burst { target: &target, voucher, buyers: crowd, connections: (most / count).max(1), rate: None };
            ready.push(burst.ready(burst.prepare().await?));
        }
        let mut tasks = JoinSet::new();
        let start = Instant::now();
        for one in ready {
            tasks.spawn(one.press());
        }
        let mut decisions = 0;
        while let Some(heard) = tasks.join_next().await {
            decisions += heard??.decisions;
        }
        let rate = number(decisions) / start.elapsed().as_secs_f64();
        say(&format!("growth: {count} sales at once, {rate:.0} decisions a second"));
        table.rows.push(vec![number(*count as u64), rate]);
    }
    report.tables.push(table);
    Ok(())
}

/// Nobody saves: each point begins where the last one ended.
async fn backlog(settings: &Settings, shop: &mut Shop, report: &mut Report) -> anyhow::Result<()> {
    shop.serve(&["--rate-limit", "off", "--roles", "web"]).await?;
    let (step, points) = settings.growth_backlog;
    let target = shop.target()?;
    let voucher = shop.sale(step * points).await?;
    let mut table =
        Table::new("Backlog, all of them admitted, nobody saves", &["orders that wait at first", "admissions a second"]);
    for point in 0..points {
        let buyers: Vec<Buyer> = shop.buyers.iter().skip(point * step).take(step).cloned().collect();
        let burst = Burst { target: &target, voucher, buyers: &buyers, connections: settings.connections, rate: None };
        let heard = burst.run().await?;
        ensure!(heard.codes.keys().all(|code| code == "OK"), "everybody finds a unit: {:?}", heard.codes);
        say(&format!("growth: backlog of {}, {:.0} admissions a second", point * step, heard.per_second()));
        table.rows.push(vec![number((point * step) as u64), heard.per_second()]);
    }
    report.tables.push(table);
    Ok(())
}
