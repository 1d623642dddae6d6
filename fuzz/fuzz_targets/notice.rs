//! The fuzzer's door to `entries::notice`.

#![no_main]

#[path = "../entries.rs"]
#[expect(dead_code, reason = "each target calls one of them")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::notice(data));
