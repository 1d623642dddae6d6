//! The fuzzer's door to `entries::redis_url`.

#![no_main]

#[path = "../entries.rs"]
#[expect(dead_code, reason = "each target calls one of them")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::redis_url(data));
