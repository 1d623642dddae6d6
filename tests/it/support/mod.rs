//! What the tests stand on: real servers, started for one test and gone with it.

pub mod app;
pub mod http;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod shop;
pub mod socket;

/// Whether the long races run in full: `make test-long`.
pub fn long() -> bool {
    std::env::var_os("SECKILL_TEST_LONG").is_some()
}
