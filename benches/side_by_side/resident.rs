//! Resident memory of the shop's process: idle, and with many sockets open.

use std::time::Duration;

use anyhow::Context;
use seckill::load::push;

use crate::report::{Goal, Report, Row};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Megabytes that a process has in memory.
pub fn resident_mb(process: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb / 1024.0)
}

/// Measures both, with a process of its own for each run.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut shop = Shop::new(None, settings.sockets).await?;
    let (mut idle, mut full) = (Vec::new(), Vec::new());
    for run in 1..=settings.runs.min(3) {
        shop.serve(&[]).await?;
        shop.sale(100).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        idle.push(resident_mb(shop.process()?)?);
        let sockets = push::open(&shop.target()?, &shop.buyers).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        full.push(resident_mb(shop.process()?)?);
        say(&format!("memory {run}: idle {:.1} MB, with {} sockets {:.1} MB", idle[run - 1], sockets.len(), full[run - 1]));
    }
    report.row(Row::alone("resident memory, idle", "MB", idle, Goal::at_most(60.0, 40.0)));
    let figure = format!("resident memory, {} sockets", settings.sockets);
    report.row(Row::alone(&figure, "MB", full, Goal::at_most(250.0, 150.0)));
    report.audited(&mut shop).await
}
