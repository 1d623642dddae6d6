#!/usr/bin/env bash
# The shop beside the classic designs, in the profile that is shipped; writes docs/BENCHMARKS.md and docs/benchmarks/.
# SECKILL_BENCH_SCALE=small only proves that it runs, and writes to target/bench; SECKILL_BENCH_ONLY names parts;
# SECKILL_BENCH_BUYERS=1000000 is the largest crowd of the growth table; SECKILL_BENCH_PROFILE is another profile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=docs
[ "${SECKILL_BENCH_SCALE:-full}" = small ] && out=target/bench
export SECKILL_BENCH_OUT=${SECKILL_BENCH_OUT:-$PWD/$out} RUST_BACKTRACE=0
# Options of the shop that happen to be set here would be measured too.
for name in $(compgen -e SECKILL_ | grep -v '^SECKILL_BENCH_' || true) DATABASE_URL REDIS_URL; do unset "$name"; done
ulimit -n "$(ulimit -Hn)"
exec cargo bench --locked --profile "${SECKILL_BENCH_PROFILE:-bench}" --bench side_by_side
