//! Logs and metrics. Logs go to stderr: for people on a terminal, JSON elsewhere, or as `--log-format` says; `RUST_LOG`
//! chooses what is written. The figures themselves are in `meters.rs`.
//!
//! Never logged: passwords, tokens, cookies, bodies, phone numbers. A refusal is debug and a counter.

mod meters;
mod process;

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::LogFormat;
use crate::shutdown::Shutdown;

pub use meters::{CATALOGUE, Kind, Meter, Meters, Outcome, meters};
pub use process::look_at_process;

/// Bounds of every duration histogram, in seconds.
const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Bounds of sizes of batches.
const SIZES: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0];
/// How often values of histograms are folded in.
const FOLD_EVERY: Duration = Duration::from_secs(5);

/// Starts the log of the process. A second call changes nothing.
pub fn start_log(format: LogFormat) {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    // A line that cannot be written (a full disk, a pipe whose reader went away) is lost. Told to report that, the library
    // would write to stderr once more and panic, in whatever task the line came from, and end it for good.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let for_people = match format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let _ = if for_people {
        builder.compact().with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init()
    } else {
        builder.json().flatten_event(true).with_span_list(false).try_init()
    };
}

/// The one recorder of the process. Several shops in one process (tests) share it.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets_for_metric(Matcher::Suffix(String::from("_seconds")), SECONDS).unwrap_or_default();
        let builder =
            builder.set_buckets_for_metric(Matcher::Full(String::from("seckill_batch_size")), SIZES).unwrap_or_default();
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        let _ = metrics::set_global_recorder(recorder);
        handle
    })
}

/// The metrics of the process, to be rendered by `/metrics`.
#[must_use]
pub fn start_metrics(shutdown: &Shutdown) -> PrometheusHandle {
    meters();
    let handle = recorder().clone();
    let kept = handle.clone();
    let until = shutdown.clone();
    // Values of histograms pile up until somebody folds them in: without a scraper, for ever.
    shutdown.spawn(async move {
        while until.sleep(FOLD_EVERY).await {
            kept.run_upkeep();
        }
    });
    handle
}
