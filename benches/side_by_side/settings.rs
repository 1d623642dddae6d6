//! How much of everything: the counts of a full run, and of a small one that only proves that it runs.

use clap::ValueEnum;
use serde::Serialize;

/// How long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds for each part: does it run?
    Small,
    /// What is published.
    Full,
}

/// Counts, the same for the shop and for whatever it is compared with, unless a design is too slow for them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Which of the two.
    pub scale: Scale,
    /// Alternating runs; the median is reported.
    pub runs: usize,
    /// Buyers who click once each in a run.
    pub clicks: usize,
    /// Connections that they share.
    pub connections: usize,
    /// Units of a sale whose buyers are mostly refused.
    pub units: usize,
    /// Orders that are saved in a run of the shop.
    pub orders: usize,
    /// Orders that are saved in a run of a design that saves them one by one.
    pub orders_one_by_one: usize,
    /// Connections while the CPU of Redis is measured.
    pub cpu_connections: usize,
    /// Admissions in such a run.
    pub admissions: usize,
    /// Sockets that listen while 2,000 orders a second are made.
    pub listeners: usize,
    /// Those orders in a run.
    pub pushed_orders: usize,
    /// Sockets that are only held open.
    pub sockets: usize,
    /// Clicks of a run beside which a crowd logs in.
    pub beside_clicks: usize,
    /// How many of them a second.
    pub beside_rate: u32,
    /// Who logs in beside them, again and again.
    pub logins: usize,
    /// Buyers, growing.
    pub growth_buyers: Vec<usize>,
    /// Connections, growing.
    pub growth_connections: Vec<usize>,
    /// Sales at once, growing.
    pub growth_sales: Vec<usize>,
    /// Orders that are added to the backlog for each point, and points.
    pub growth_backlog: (usize, usize),
}

impl Settings {
    /// The counts of a scale; `buyers` replaces the last point of their growth.
    pub fn new(scale: Scale, buyers: Option<usize>) -> Self {
        let mut settings = match scale {
            Scale::Full => Self {
                scale,
                runs: 5,
                clicks: 60_000,
                connections: 256,
                units: 100,
                orders: 40_000,
                orders_one_by_one: 2000,
                cpu_connections: 512,
                admissions: 10_000,
                listeners: 1000,
                pushed_orders: 8000,
                sockets: 10_000,
                beside_clicks: 10_000,
                beside_rate: 1000,
                logins: 500,
                growth_buyers: vec![1000, 10_000, 50_000, 200_000],
                growth_connections: vec![10, 100, 1000, 10_000],
                growth_sales: vec![1, 10, 100, 1000],
                growth_backlog: (15_000, 4),
            },
            Scale::Small => Self {
                scale,
                runs: 2,
                clicks: 1500,
                connections: 32,
                units: 100,
                orders: 1000,
                orders_one_by_one: 100,
                cpu_connections: 64,
                admissions: 500,
                listeners: 20,
                pushed_orders: 400,
                sockets: 100,
                beside_clicks: 400,
                beside_rate: 400,
                logins: 20,
                growth_buyers: vec![100, 2000],
                growth_connections: vec![10, 100],
                growth_sales: vec![1, 10],
                growth_backlog: (500, 2),
            },
        };
        if let (Some(buyers), Some(last)) = (buyers, settings.growth_buyers.last_mut()) {
            *last = buyers.clamp(1000, 1_000_000);
        }
        settings
    }
}

/// Lets this process and its children open as many files as the system allows them.
pub fn raise_file_limit() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum })?;
    Ok(())
}
