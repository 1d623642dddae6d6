//! The same load for everybody: the clicks of `seckill load`, from this process, with all connections open before the first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use seckill::domain::ids::VoucherId;
use seckill::load::clicks::{Clicks, Tally, press_for_all};
use seckill::load::client::Client;
use seckill::load::push::{self, Listeners};
use seckill::load::target::Target;
use seckill::load::tokens::Buyer;
use seckill::shutdown::Shutdown;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::database::Db;

/// Clicks of the whole run that heard BUSY, or nothing.
static UNDECIDED: AtomicU64 = AtomicU64::new(0);

/// How many clicks of the whole run had no decision.
pub fn undecided() -> u64 {
    UNDECIDED.load(Ordering::Relaxed)
}

/// Who clicks what, and how.
pub struct Burst<'a> {
    /// Where.
    pub target: &'a Target,
    /// What is bought.
    pub voucher: i64,
    /// Who, once each.
    pub buyers: &'a [Buyer],
    /// Connections that they share.
    pub connections: usize,
    /// Clicks a second; none: as fast as answers come.
    pub rate: Option<u32>,
}

/// What was heard.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Answers with a decision.
    pub decisions: u64,
    /// From the first click to the last decision.
    pub time: Duration,
    /// Orders that were accepted.
    pub accepted: usize,
    /// 99 of 100 decisions came within.
    pub p99_ms: f64,
    /// Decisions by code.
    pub codes: BTreeMap<String, u64>,
}

impl Heard {
    /// Decisions a second.
    pub fn per_second(&self) -> f64 {
        number(self.decisions) / self.time.as_secs_f64().max(1e-6)
    }
}

/// For ratios and tables.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench are far below 2^52")]
pub fn number(count: u64) -> f64 {
    count as f64
}

fn read(tally: &Tally) -> Heard {
    Heard {
        decisions: tally.latency.count(),
        time: tally.last_decision,
        accepted: tally.accepted.len(),
        p99_ms: tally.latency.quantile(990).map_or(0.0, |t| t.as_secs_f64() * 1000.0),
        codes: tally.decisions.clone(),
    }
}

/// Connections that are open and have clicks to make, not begun yet.
pub struct Ready {
    clicks: Arc<Clicks>,
    clients: Vec<Client>,
}

impl Burst<'_> {
    /// Opens the connections.
    pub async fn prepare(&self) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(self.connections);
        for _ in 0..self.connections.min(self.buyers.len()) {
            let mut client = Client::new(self.target.clone());
            client.connect().await?;
            clients.push(client);
        }
        Ok(clients)
    }

    /// The clicks, due from now on.
    pub fn ready(&self, clients: Vec<Client>) -> Ready {
        let clicks = Clicks::new(self.target.clone(), VoucherId(self.voucher), self.buyers.to_vec(), self.rate, Instant::now());
        Ready { clicks: Arc::new(clicks), clients }
    }

    /// Clicks, and answers what was heard.
    pub async fn run(&self) -> anyhow::Result<Heard> {
        let clients = self.prepare().await?;
        self.ready(clients).press().await
    }
}

impl Ready {
    /// When the first click is due.
    pub fn start(&self) -> Instant {
        self.clicks.start
    }

    /// Clicks for everybody.
    pub async fn press(self) -> anyhow::Result<Heard> {
        let mut tasks = JoinSet::new();
        for client in self.clients {
            let clicks = self.clicks.clone();
            tasks.spawn(async move { press_for_all(&clicks, client).await });
        }
        let mut tally = Tally::default();
        while let Some(part) = tasks.join_next().await {
            tally.merge(part?);
        }
        let undecided: u64 = tally.undecided.values().sum();
        if undecided > 0 {
            crate::say(&format!("clicks without a decision: {:?}", tally.undecided));
            UNDECIDED.fetch_add(undecided, Ordering::Relaxed);
        }
        let decided = tally.latency.count();
        // A few are told in the report; more would make the figures those of something else.
        ensure!(undecided * 5 <= decided, "{undecided} clicks of {} had no decision", decided + undecided);
        Ok(read(&tally))
    }
}

/// Clicks with sockets of the first `listeners` buyers; 99 of 100 heard of their order within this many milliseconds.
pub async fn click_to_push(burst: &Burst<'_>, listeners: usize) -> anyhow::Result<f64> {
    let shutdown = Shutdown::default();
    let sockets = push::open(burst.target, &burst.buyers[..listeners]).await?;
    let clients = burst.prepare().await?;
    let ready = burst.ready(clients);
    let listening = Listeners::start(&shutdown, &ready.clicks, sockets);
    let heard = ready.press().await?;
    ensure!(heard.codes.keys().all(|code| code == "OK"), "everybody finds a unit: {:?}", heard.codes);
    // Whoever heard BUSY has no order to hear of.
    let missing = burst.buyers.len() - heard.accepted;
    let times = listening.finish(listeners.saturating_sub(missing), Duration::from_secs(20)).await;
    ensure!(times.count() + missing as u64 >= listeners as u64, "{} of {listeners} sockets heard of their order", times.count());
    times.quantile(990).map(|t| t.as_secs_f64() * 1000.0).context("nobody heard")
}

/// Clicks of a sale with a unit for everybody, until the last order is committed: accepted orders a second from the first
/// click to that commit, as the books say, and what was heard.
pub async fn until_saved(burst: &Burst<'_>, db: &Db, units: usize) -> anyhow::Result<(f64, Heard)> {
    let clients = burst.prepare().await?;
    let ready = burst.ready(clients);
    let start = ready.start();
    let heard = ready.press().await?;
    let left = i64::try_from(units)? - i64::try_from(heard.accepted)?;
    let end = await_stock(db, burst.voucher, left).await?;
    let rate = number(heard.accepted as u64) / (end - start).as_secs_f64();
    Ok((rate, heard))
}

/// Looks at the books until they have this many units left: when that was seen.
pub async fn await_stock(db: &Db, voucher: i64, left: i64) -> anyhow::Result<Instant> {
    let mut progress = (i64::MAX, Instant::now());
    loop {
        let now_left = db.stock_left(voucher).await?;
        let now = Instant::now();
        if now_left == left {
            return Ok(now);
        }
        if now_left < progress.0 {
            progress = (now_left, now);
        }
        ensure!(now - progress.1 < Duration::from_secs(30), "{now_left} units left and no order for 30 s; {left} were expected");
        sleep(Duration::from_millis(2)).await;
    }
}
