//! `make bench`: the shop and the classic designs, side by side, on this machine, in one run, and one report of it.
//!
//! Every server is a process of its own on loopback with a real Redis (fsync always) and a real database. The designs that
//! the shop is compared with are this program again, started with a hidden argument.

mod blocking_queue;
mod children;
mod database;
mod decisions;
mod design;
mod drain;
mod empty;
mod growth;
mod load;
mod logins;
mod machine;
mod plot;
mod raw_evalsha;
mod raw_insert;
mod redis_cpu;
mod report;
mod resident;
mod saved;
mod settings;
mod shop;
mod stream_as_usual;
mod synchronous;
mod times;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use self::report::Report;
use self::settings::{Scale, Settings};
use self::shop::Shop;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the shop beside the classic designs.
#[derive(Debug, Parser)]
struct Options {
    /// What cargo says when it benches
    #[arg(long, hide = true)]
    bench: bool,
    /// small proves that every part runs, and its figures mean nothing
    #[arg(long, env = "SECKILL_BENCH_SCALE", default_value = "full")]
    scale: Scale,
    /// The most buyers of the growth table; 1000000 takes minutes to seed
    #[arg(long, env = "SECKILL_BENCH_BUYERS")]
    buyers: Option<usize>,
    /// Where BENCHMARKS.md and benchmarks/ are written
    #[arg(long, env = "SECKILL_BENCH_OUT", default_value = "docs")]
    out: PathBuf,
    /// Only these parts, separated by commas: decisions, times, saved, drain, cpu, memory, logins, growth
    #[arg(long, env = "SECKILL_BENCH_ONLY", value_delimiter = ',')]
    only: Vec<String>,
    /// Be one of the designs
    #[arg(long, hide = true)]
    design: Option<String>,
    /// That design's Redis
    #[arg(long, hide = true, default_value = "")]
    redis: String,
    /// That design's database
    #[arg(long, hide = true, default_value = "")]
    database: String,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.design.is_none() && !options.bench {
        say("this only measures: run `make bench` or `cargo bench`");
        return ExitCode::SUCCESS;
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("the runtime cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        if let Some(name) = &options.design {
            return design::serve(name, &options.redis, &options.database).await;
        }
        // Everything that was started ends with what holds it, so being told to stop only has to drop the future.
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            done = measure(&options) => done,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("stopped; nothing was written"),
            _ = terminated.recv() => anyhow::bail!("stopped; nothing was written"),
        }
    });
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn measure(options: &Options) -> anyhow::Result<()> {
    let began = Instant::now();
    settings::raise_file_limit()?;
    let settings = Settings::new(options.scale, options.buyers);
    let mut report = Report::new(machine::look().await?, settings.clone());
    let wanted = |part: &str| options.only.is_empty() || options.only.iter().any(|p| p == part);
    // One part that fails is told in the report and by the exit code; the others are measured all the same.
    if wanted("decisions") || wanted("times") {
        let done = Box::pin(at_the_front_door(&settings, wanted("times"), &mut report)).await;
        report.outcome("decisions and times", done);
    }
    if wanted("saved") {
        let done = Box::pin(saved::measure(&settings, &mut report)).await;
        report.outcome("saved orders", done);
    }
    if wanted("drain") {
        let done = Box::pin(drain::measure(&settings, &mut report)).await;
        report.outcome("drain", done);
    }
    if wanted("cpu") {
        let done = Box::pin(redis_cpu::measure(&settings, &mut report)).await;
        report.outcome("CPU of Redis", done);
    }
    if wanted("memory") {
        let done = Box::pin(resident::measure(&settings, &mut report)).await;
        report.outcome("memory", done);
    }
    if wanted("logins") {
        let done = Box::pin(logins::measure(&settings, &mut report)).await;
        report.outcome("logins", done);
    }
    if wanted("growth") {
        let done = Box::pin(growth::measure(&settings, &mut report)).await;
        report.outcome("growth", done);
    }
    report.took = began.elapsed();
    report.write(&options.out).await?;
    say(&format!("written to {} after {} s", options.out.display(), began.elapsed().as_secs()));
    anyhow::ensure!(report.failures.is_empty(), "not everything could be measured: {}", report.failures.join("; "));
    Ok(())
}

/// Clicks of one shop: how many decisions, then how fast each.
async fn at_the_front_door(settings: &Settings, times: bool, report: &mut Report) -> anyhow::Result<()> {
    let mut shop = Shop::new(None, settings.clicks).await?;
    shop.serve(&[]).await?;
    let highest = decisions::measure(settings, &mut shop, report).await?;
    if times {
        times::measure(settings, &mut shop, highest, report).await?;
    }
    report.audited(&mut shop).await
}

/// One line for whoever waits.
fn say(line: &str) {
    // Nobody there to read is no reason to stop.
    let _ = writeln!(std::io::stderr(), "bench: {line}");
}
