//! The drain alone: a backlog that web processes have filled is saved by a worker, beside raw multi-row inserts.

use anyhow::ensure;
use tokio::time::{Duration, Instant, sleep};

use crate::children::Postgres;
use crate::load::{Burst, await_stock, number};
use crate::raw_insert::RawInsert;
use crate::report::{Goal, Report, Row};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Measures it on both databases.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    on("SQLite", None, settings, report).await?;
    let postgres = Postgres::start().await?;
    on("PostgreSQL", Some(&postgres), settings, report).await?;
    postgres.stop().await
}

async fn on(name: &str, postgres: Option<&Postgres>, settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let (ours_at, theirs_at) = match postgres {
        Some(postgres) => (Some(postgres.database("drained").await?), Some(postgres.database("inserted").await?)),
        None => (None, None),
    };
    let mut shop = Shop::new(ours_at, settings.orders).await?;
    let mut raw = RawInsert::new(theirs_at.as_deref()).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        shop.serve(&["--roles", "web"]).await?;
        let voucher = shop.sale(settings.orders).await?;
        let waiting = fill(&shop, voucher, settings).await?;
        theirs.push(raw.insert(settings.orders).await?);
        shop.serve(&["--roles", "worker"]).await?;
        ours.push(drained(&shop, voucher, settings.orders, waiting).await?);
        say(&format!("drain on {name} {run}: worker {:.0}, raw insert {:.0} a second", ours[run - 1], theirs[run - 1]));
    }
    let figure = format!("drain alone, {name}");
    report.row(Row::ratio(&figure, "1/s", ours, "raw multi-row INSERT", theirs, Goal::at_least(0.5, 0.8)));
    shop.serve(&[]).await?;
    report.audited(&mut shop).await
}

/// How many orders wait then.
async fn fill(shop: &Shop, voucher: i64, settings: &Settings) -> anyhow::Result<usize> {
    let target = shop.target()?;
    let burst = Burst { target: &target, voucher, buyers: &shop.buyers, connections: settings.connections, rate: None };
    let heard = burst.run().await?;
    ensure!(heard.codes.keys().all(|code| code == "OK"), "everybody finds a unit: {:?}", heard.codes);
    Ok(heard.accepted)
}

/// Orders a second from the first that is seen saved to the last: the start of the process is not the drain.
async fn drained(shop: &Shop, voucher: i64, units: usize, waiting: usize) -> anyhow::Result<f64> {
    let (all, none) = (i64::try_from(units)?, i64::try_from(units - waiting)?);
    let give_up = Instant::now() + Duration::from_secs(30);
    let (first_left, first_at) = loop {
        let left = shop.db.stock_left(voucher).await?;
        if left < all {
            break (left, Instant::now());
        }
        ensure!(Instant::now() < give_up, "the worker saves nothing");
        sleep(Duration::from_millis(1)).await;
    };
    let last_at = await_stock(&shop.db, voucher, none).await?;
    // All in one batch: only counts that are too small for a figure.
    let time = (last_at - first_at).max(Duration::from_millis(1));
    Ok(number(u64::try_from(first_left - none)?) / time.as_secs_f64())
}
