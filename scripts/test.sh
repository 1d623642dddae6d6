#!/usr/bin/env bash
# Builds and runs every test, and closes with one plain line: N passed, N failed, N skipped.
# SECKILL_TEST_DATABASE=postgres moves every test that names no database from SQLite and the managed Redis to PostgreSQL and a Redis
# that the shop does not manage.
# A test that cannot run where it is (a program is missing) says so by a line in target/tmp/skipped; on Debian that is a failure.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${CARGO_TARGET_DIR:-target}
log=$target/test.log
skips=$target/tmp/skipped
mkdir -p "$target/tmp"
rm -f "$skips"

cargo test --locked --features fault-injection --no-run || exit 1
cargo test --locked --features fault-injection --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# `test result: ok. 10 passed; 0 failed; 0 ignored; …`, one for each test binary.
read -r passed failed ignored < <(
    awk '/^test result: / { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$log"
)
missed=$(sort -u "$skips" 2>/dev/null | wc -l)
# A skipped test returned early, which the runner counts as passed.
passed=$((passed - missed))
skipped=$((ignored + missed))
# A test binary that died told nothing.
[ "$status" -ne 0 ] && [ "$failed" -eq 0 ] && failed=1
[ -s "$skips" ] && sort -u "$skips" | sed 's/^/skipped: /'
if [ "$skipped" -gt 0 ] && [ -e /etc/debian_version ]; then
    echo "nothing may be skipped on Debian" >&2
    status=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$status" -eq 0 ] && [ "$failed" -eq 0 ]
