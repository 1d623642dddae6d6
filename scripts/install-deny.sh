#!/bin/sh
# cargo-deny for `make check`, into target/tools. Its own release profile would take many minutes; the unoptimised program does the same.
set -eu
cd "$(dirname "$0")/.."
[ -x target/tools/bin/cargo-deny ] && exit 0
command -v cargo-deny >/dev/null 2>&1 && exit 0
cargo install --quiet --locked --debug --root target/tools --version '^0.20' cargo-deny
