//! The report: rows with their ratios and verdicts, tables of what grows, Markdown for people and JSON with every run.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::machine::Machine;
use crate::plot;
use crate::settings::{Scale, Settings};
use crate::shop::Shop;

/// What a row is held against.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    /// More is better.
    AtLeast {
        /// Below it the row is missed.
        floor: f64,
        /// Where we want to be.
        aim: f64,
    },
    /// Less is better.
    AtMost {
        /// Above it the row is missed.
        ceiling: f64,
        /// Where we want to be.
        aim: f64,
    },
    /// Only shown.
    None,
}

impl Goal {
    /// More is better.
    pub fn at_least(floor: f64, aim: f64) -> Self {
        Self::AtLeast { floor, aim }
    }

    /// Less is better.
    pub fn at_most(ceiling: f64, aim: f64) -> Self {
        Self::AtMost { ceiling, aim }
    }

    /// Only shown.
    pub fn none() -> Self {
        Self::None
    }

    fn verdict(self, value: f64) -> &'static str {
        match self {
            Self::AtLeast { aim, .. } if value >= aim => "aim reached",
            Self::AtLeast { floor, .. } if value >= floor => "met",
            Self::AtMost { aim, .. } if value <= aim => "aim reached",
            Self::AtMost { ceiling, .. } if value <= ceiling => "met",
            Self::None => "",
            _ => "**missed**",
        }
    }

    fn words(self) -> String {
        match self {
            Self::AtLeast { floor, aim } => format!("≥ {}, aim {}", show(floor), show(aim)),
            Self::AtMost { ceiling, aim } => format!("≤ {}, aim {}", show(ceiling), show(aim)),
            Self::None => String::new(),
        }
    }
}

/// What a figure is divided by.
#[derive(Debug, Clone, Serialize)]
pub struct Baseline {
    /// Of what.
    pub name: String,
    /// One value a run, beside the figure's.
    pub runs: Vec<f64>,
}

/// A figure, run by run.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub figure: String,
    /// In what.
    pub unit: &'static str,
    /// One value a run.
    pub runs: Vec<f64>,
    /// What it is divided by, run by run; none: it stands alone.
    pub baseline: Option<Baseline>,
    /// What the median is held against.
    pub goal: Goal,
}

impl Row {
    /// A figure that stands alone.
    pub fn alone(figure: &str, unit: &'static str, runs: Vec<f64>, goal: Goal) -> Self {
        Self { figure: figure.to_owned(), unit, runs, baseline: None, goal }
    }

    /// A figure that is divided by another one of the same run.
    pub fn ratio(figure: &str, unit: &'static str, runs: Vec<f64>, name: &str, theirs: Vec<f64>, goal: Goal) -> Self {
        let baseline = Some(Baseline { name: name.to_owned(), runs: theirs });
        Self { figure: figure.to_owned(), unit, runs, baseline, goal }
    }

    fn judged(&self) -> Vec<f64> {
        match &self.baseline {
            Some(theirs) => self.runs.iter().zip(&theirs.runs).map(|(ours, theirs)| ours / theirs).collect(),
            None => self.runs.clone(),
        }
    }
}

/// What happens as something grows.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Of what.
    pub title: String,
    /// The columns.
    pub head: Vec<String>,
    /// The points.
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    /// One without points.
    pub fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), head: head.iter().map(|&h| h.to_owned()).collect(), rows: Vec::new() }
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    settings: Settings,
    rows: Vec<Row>,
    /// What grows.
    pub tables: Vec<Table>,
    audits: usize,
    /// Parts that could not be measured, and why.
    pub failures: Vec<String>,
    /// From the first run to the last.
    pub took: Duration,
}

/// The value in the middle; of an even number the mean of two.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Three digits that count, and thousands with commas.
pub fn show(value: f64) -> String {
    let whole = value.fract().abs() < f64::EPSILON && (value.abs() < f64::EPSILON || value >= 10.0);
    if !whole && value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if !whole && value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn span(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({}–{})", show(median(values)), show(low), show(high))
}

impl Report {
    /// An empty one.
    pub fn new(machine: Machine, settings: Settings) -> Self {
        Self { machine, settings, rows: Vec::new(), tables: Vec::new(), audits: 0, failures: Vec::new(), took: Duration::ZERO }
    }

    /// Adds a row.
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Keeps how a part ended.
    pub fn outcome(&mut self, part: &str, done: anyhow::Result<()>) {
        if let Err(error) = done {
            crate::say(&format!("{part}: {error:#}"));
            self.failures.push(format!("{part}: {error:#}"));
        }
    }

    /// The audit of a shop that was measured; the run fails when it does not hold. Its server ends.
    pub async fn audited(&mut self, shop: &mut Shop) -> anyhow::Result<()> {
        shop.audit().await?;
        self.audits += 1;
        shop.stop().await
    }

    /// Writes the report, its plot and every run.
    pub async fn write(&self, out: &Path) -> anyhow::Result<()> {
        let folder = out.join("benchmarks");
        tokio::fs::create_dir_all(&folder).await?;
        tokio::fs::write(folder.join("raw.json"), serde_json::to_string_pretty(self)? + "\n").await?;
        tokio::fs::write(folder.join("side-by-side.svg"), plot::bars(&self.rows)).await?;
        tokio::fs::write(out.join("BENCHMARKS.md"), self.markdown()?).await?;
        Ok(())
    }

    fn markdown(&self) -> anyhow::Result<String> {
        let (machine, settings) = (&self.machine, &self.settings);
        let mut text = String::from(
            "# How fast, beside the classic designs\n\nWritten by `make bench`; not by hand. Every server is a process of its own on one machine, with a real Redis\n\
             (append-only file, fsync always) and a real database (SQLite `synchronous=FULL`, PostgreSQL with its defaults); the load runs beside\n\
             them on the same cores. Runs alternate; a ratio is taken run by run, then its median. [Why these designs](adr/0026-what-is-compared.md).\n\n",
        );
        if settings.scale == Scale::Small {
            text.push_str("> A small run: it shows that every part works. **Its figures mean nothing.**\n\n");
        }
        writeln!(text, "| | |\n| --- | --- |")?;
        writeln!(
            text,
            "| machine | {}, {} cores, {} GB, Linux {} |",
            machine.processor, machine.cores, machine.memory_gb, machine.kernel
        )?;
        writeln!(text, "| stores | Redis {}, {}, SQLite as built in |", machine.redis, machine.postgres)?;
        writeln!(text, "| commit | {} |", machine.commit)?;
        writeln!(text, "| begun | {}, load of the machine before it {} |", machine.date, machine.load)?;
        writeln!(text, "| took | {} s |", self.took.as_secs())?;
        writeln!(
            text,
            "| settings | {} runs; {} clicks of different buyers over {} connections; {} saved orders a run, {} for designs that save one by one |",
            settings.runs,
            show(crate::load::number(settings.clicks as u64)),
            settings.connections,
            show(crate::load::number(settings.orders as u64)),
            show(crate::load::number(settings.orders_one_by_one as u64)),
        )?;
        writeln!(text, "| audit | `seckill audit` held at the end of all {} shops |", self.audits)?;
        writeln!(text, "| clicks without a decision (BUSY, or no answer) | {} in the whole run |", crate::load::undecided())?;
        for failure in &self.failures {
            writeln!(text, "| **not measured** | {} |", failure.replace(['\n', '|'], " "))?;
        }
        text.push_str("\n![rates side by side, a logarithmic scale](benchmarks/side-by-side.svg)\n\n## Figures\n\nMedian (lowest–highest).\n\n");
        text.push_str("| figure | shop | beside | its value | ratio | target | |\n| --- | --- | --- | --- | --- | --- | --- |\n");
        for row in &self.rows {
            let judged = row.judged();
            let (name, value, ratio) = match &row.baseline {
                Some(theirs) => (theirs.name.as_str(), format!("{} {}", span(&theirs.runs), row.unit), span(&judged)),
                None => ("", String::new(), String::new()),
            };
            let (target, verdict) = (row.goal.words(), row.goal.verdict(median(&judged)));
            writeln!(
                text,
                "| {} | {} {} | {name} | {value} | {ratio} | {target} | {verdict} |",
                row.figure,
                span(&row.runs),
                row.unit
            )?;
        }
        text.push_str("\n## What grows\n\nOne run a point, except for buyers (the median).\n");
        for table in &self.tables {
            writeln!(text, "\n### {}\n\n| {} |\n|{}", table.title, table.head.join(" | "), " --- |".repeat(table.head.len()))?;
            for row in &table.rows {
                writeln!(text, "| {} |", row.iter().map(|v| show(*v)).collect::<Vec<_>>().join(" | "))?;
            }
        }
        text.push_str("\nEvery run is in [benchmarks/raw.json](benchmarks/raw.json).\n");
        Ok(text)
    }
}
