#!/usr/bin/env bash
# Bad input by the hundred thousand: requests, heads, socket messages and texts for the parsers, from a printed seed.
# SECKILL_FUZZ_CASES (200000, the least) says how many, SECKILL_FUZZ_SEED repeats a run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seed=${SECKILL_FUZZ_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
export SECKILL_FUZZ_SEED=$seed SECKILL_FUZZ_CASES=${SECKILL_FUZZ_CASES:-200000} SECKILL_TEST_LONG=1 RUST_BACKTRACE=0
echo "SECKILL_FUZZ_SEED=$seed SECKILL_FUZZ_CASES=$SECKILL_FUZZ_CASES"
cargo test --locked --features fault-injection --test it -- bad_input:: --nocapture --test-threads 1
