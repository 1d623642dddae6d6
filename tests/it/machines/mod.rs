//! The shop on many machines: Sentinel, Cluster, several processes. Real servers, started by the test.

mod contract;
mod crew;
mod failover;
mod lanes;
mod nginx;
mod processes;
mod replicated;
mod start;
mod tls;
mod trouble;
mod upgrade;

/// Tells a figure that a test measured.
#[expect(clippy::print_stdout, reason = "the figures of a run")]
fn figure(text: &str) {
    println!("{text}");
}
