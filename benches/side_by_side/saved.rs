//! Saved orders a second, from the first click to the last commit, beside the three classic designs on the same database.

use std::time::Duration;

use crate::children::Postgres;
use crate::design::Design;
use crate::load::{Burst, until_saved};
use crate::report::{Goal, Report, Row};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// In the order in which the courses come to them.
const DESIGNS: [(&str, &str); 3] = [
    ("synchronous", "synchronous design"),
    ("blocking_queue", "blocking-queue design"),
    ("stream_as_usual", "Stream design as usually written"),
];

/// Measures all of them on both databases.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    on("SQLite", None, (12_000.0, 25_000.0), settings, report).await?;
    let postgres = Postgres::start().await?;
    on("PostgreSQL", Some(&postgres), (10_000.0, 20_000.0), settings, report).await?;
    postgres.stop().await
}

async fn on(
    name: &str,
    postgres: Option<&Postgres>,
    (at_least, aim): (f64, f64),
    settings: &Settings,
    report: &mut Report,
) -> anyhow::Result<()> {
    let database = async |of: &str| match postgres {
        Some(postgres) => postgres.database(of).await.map(Some),
        None => Ok(None),
    };
    let mut shop = Shop::new(database("shop").await?, settings.orders).await?;
    shop.serve(&[]).await?;
    let mut designs = Vec::new();
    for (design, _) in DESIGNS {
        designs.push(Design::start(design, database(design).await?.as_deref(), settings.orders_one_by_one).await?);
    }
    let their_buyers = Design::buyers(settings.orders_one_by_one);
    let mut ours = Vec::new();
    let mut theirs = vec![Vec::new(); DESIGNS.len()];
    for run in 1..=settings.runs {
        let target = shop.target()?;
        let voucher = shop.sale(settings.orders).await?;
        let burst = Burst { target: &target, voucher, buyers: &shop.buyers, connections: settings.connections, rate: None };
        let (rate, heard) = until_saved(&burst, &shop.db, settings.orders).await?;
        anyhow::ensure!(heard.codes.keys().all(|code| code == "OK"), "everybody finds a unit: {:?}", heard.codes);
        ours.push(rate);
        for (design, rates) in designs.iter().zip(&mut theirs) {
            let units = settings.orders_one_by_one;
            let voucher = design.sale(units).await?;
            let burst =
                Burst { target: &design.target, voucher, buyers: &their_buyers, connections: settings.connections, rate: None };
            let Some(db) = &design.db else { continue };
            let (rate, heard) = until_saved(&burst, db, units).await?;
            design.check(voucher, units, heard.accepted).await?;
            rates.push(rate);
            // A thread that has saved its last order still acknowledges it.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let last: Vec<String> = theirs.iter().map(|rates| format!("{:.0}", rates[run - 1])).collect();
        say(&format!("saved on {name} {run}: shop {:.0}, designs {} a second", ours[run - 1], last.join(", ")));
    }
    report.row(Row::alone(&format!("saved orders a second, {name}"), "1/s", ours.clone(), Goal::at_least(at_least, aim)));
    for ((design, words), rates) in DESIGNS.iter().zip(theirs) {
        let goal = if *design == "stream_as_usual" { Goal::at_least(10.0, 40.0) } else { Goal::none() };
        report.row(Row::ratio(&format!("saved orders a second, {name}"), "1/s", ours.clone(), words, rates, goal));
    }
    report.audited(&mut shop).await
}
