//! The fuzzer's door to `entries::socket_message`.

#![no_main]

#[path = "../entries.rs"]
#[expect(dead_code, reason = "each target calls one of them")]
mod entries;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entries::socket_message(data));
