//! What the tests stand on: real servers, started for one test and gone with it.

pub mod app;
pub mod browser;
pub mod certificates;
pub mod http;
pub mod nginx;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod redis;
pub mod servers;
pub mod shop;
pub mod socket;
pub mod sql;
pub mod tab;

/// Whether the long races run in full: `make test-long`.
#[expect(clippy::disallowed_methods, reason = "no option of the program: it belongs to the tests alone")]
pub fn long() -> bool {
    std::env::var_os("SECKILL_TEST_LONG").is_some()
}

/// Waits until `holds`; panics with `what` after `limit`.
pub async fn until(what: &str, limit: std::time::Duration, mut holds: impl AsyncFnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds().await {
        assert!(started.elapsed() < limit, "{what}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
