#!/bin/sh
# What `make run` needs beside Rust, a C compiler and make: a Redis server, 7.0 or newer.
# Does nothing, quickly, when one is there or when the environment names another.
set -eu
cd "$(dirname "$0")"
. ./apt.sh

if [ -n "${REDIS_URL:-}${SECKILL_REDIS_SERVER:-}" ] || command -v valkey-server >/dev/null 2>&1 || command -v redis-server >/dev/null 2>&1; then
    exit 0
fi
if ! have_apt; then
    echo "seckill: a Redis server is needed: install the package redis (or valkey), 7.0 or newer, with the package manager of this system, and try again." >&2
    exit 1
fi
apt_install redis-server
