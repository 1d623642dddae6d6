//! CPU of Redis for each admission: the shop's batches at many connections, beside one script call for each buyer.

use anyhow::ensure;

use crate::load::{Burst, number};
use crate::raw_evalsha::{RawEvalsha, Which};
use crate::report::{Goal, Report, Row};
use crate::say;
use crate::settings::Settings;
use crate::shop::Shop;

/// Measures it. Only web: what saving costs Redis is no part of an admission.
pub async fn measure(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut shop = Shop::new(None, settings.admissions).await?;
    shop.serve(&["--roles", "web"]).await?;
    let mut own = RawEvalsha::start(Which::Own).await?;
    let mut usual = RawEvalsha::start(Which::Usual).await?;
    let (mut ours, mut one_buyer, mut classic) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        let target = shop.target()?;
        let voucher = shop.sale(settings.admissions).await?;
        let burst = Burst { target: &target, voucher, buyers: &shop.buyers, connections: settings.cpu_connections, rate: None };
        let before = shop.redis.cpu_micros().await?;
        let heard = burst.run().await?;
        let used = shop.redis.cpu_micros().await? - before;
        ensure!(heard.codes.keys().all(|code| code == "OK"), "everybody finds a unit: {:?}", heard.codes);
        ours.push(used / number(heard.accepted as u64));
        one_buyer.push(own.admit(settings.admissions, settings.cpu_connections).await?);
        classic.push(usual.admit(settings.admissions, settings.cpu_connections).await?);
        say(&format!(
            "CPU of Redis {run}: shop {:.2}, one-buyer script {:.2}, usual script {:.2} us an admission",
            ours[run - 1],
            one_buyer[run - 1],
            classic[run - 1]
        ));
    }
    let figure = "CPU of Redis for each admission, 512 connections, session look-ups included";
    let goal = Goal::at_most(0.70, 0.45);
    report.row(Row::ratio(figure, "µs", ours.clone(), "our script, one buyer a call, pipelined", one_buyer, goal));
    report.row(Row::ratio(figure, "µs", ours, "the usual script, pipelined", classic, Goal::none()));
    shop.serve(&[]).await?;
    report.audited(&mut shop).await
}
