#!/bin/sh
# What `make test` needs: a Redis server, PostgreSQL's programs, a browser with its driver, nginx, openssl and a font with Chinese.
# Does nothing, quickly, when all of it is there. No server that a package starts is used: the tests start their own.
set -eu
cd "$(dirname "$0")"
. ./apt.sh

# Debian keeps some programs where no ordinary user looks.
PATH="$PATH:/usr/sbin:/sbin"
missing=
need() {
    package=$1
    shift
    for place in "$@"; do
        case $place in
            /*) [ -e "$place" ] && return ;;
            *) command -v "$place" >/dev/null 2>&1 && return ;;
        esac
    done
    missing="$missing $package"
}
need redis-server redis-server valkey-server
need postgresql initdb /usr/lib/postgresql/*/bin/initdb
need chromium chromium
need chromium-driver chromedriver
need nginx nginx
need openssl openssl
need fonts-noto-cjk /usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc

[ -n "$missing" ] || exit 0
if have_apt; then
    # shellcheck disable=SC2086 # a list of words
    apt_install $missing
else
    echo "seckill: some tests will be skipped; this system lacks what Debian calls:$missing" >&2
fi
