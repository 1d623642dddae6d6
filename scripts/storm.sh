#!/usr/bin/env bash
# A long storm: real servers under load, faults from a printed seed, a verdict, and a report in target/storm/.
# SECKILL_STORM_SEED repeats one, SECKILL_STORM_SECONDS (300) says for how long, SECKILL_STORM_ON (sqlite, postgres, or both) on what.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seed=${SECKILL_STORM_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
export SECKILL_STORM_SEED=$seed SECKILL_STORM_SECONDS=${SECKILL_STORM_SECONDS:-300} RUST_BACKTRACE=0
case ${SECKILL_STORM_ON:-both} in
    sqlite) which=storm::a_storm_on_sqlite ;;
    postgres) which=storm::a_storm_on_postgres ;;
    both) which=storm::a_storm_on ;;
    *) echo "SECKILL_STORM_ON is sqlite, postgres or both" >&2; exit 2 ;;
esac
echo "SECKILL_STORM_SEED=$seed SECKILL_STORM_SECONDS=$SECKILL_STORM_SECONDS"
status=0
cargo test --locked --features fault-injection --test it -- "$which" --nocapture --test-threads 1 || status=1
ls "${CARGO_TARGET_DIR:-target}"/storm/report-"$seed"-*.md
exit $status
