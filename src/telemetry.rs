//! Logs and metrics. Logs go to stderr: for people on a terminal, JSON elsewhere; `RUST_LOG` chooses what is written.
//!
//! Never logged: passwords, tokens, cookies, bodies, phone numbers. A refusal is debug and a counter.

use std::io::IsTerminal;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Bounds of every duration histogram, in seconds.
const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Starts the log of the process. A second call changes nothing.
pub fn start_log() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    // A line that cannot be written (a full disk, a pipe whose reader went away) is lost. Told to report that, the library
    // would write to stderr once more and panic, in whatever task the line came from, and end it for good.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    let _ = if std::io::stderr().is_terminal() {
        builder.compact().with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
}

/// The metrics of the process, to be rendered by `/metrics`. A second call in one process gives a recorder that nothing
/// reports to.
#[must_use]
pub fn start_metrics() -> PrometheusHandle {
    let builder = PrometheusBuilder::new();
    let builder = builder.set_buckets_for_metric(Matcher::Suffix(String::from("_seconds")), SECONDS).unwrap_or_default();
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    let _ = metrics::set_global_recorder(recorder);
    handle
}
