# Read by the installers: one way to install packages where apt is the system's own.
# Not a program.

have_apt() {
    command -v apt-get >/dev/null 2>&1
}

# Installs the named packages, asking nothing. Uses sudo when not root. Services that come with them are not started: the shop and
# its tests start servers of their own.
apt_install() {
    if [ "$(id -u)" -eq 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    else
        echo "seckill: as root, run: apt-get install $*" >&2
        return 1
    fi
    echo "seckill: installing $*" >&2
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap '$as_root rm -f "$policy"' EXIT INT TERM
        printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
        $as_root chmod 755 "$policy"
    fi
    # A machine without package lists needs them first; one with old lists needs new ones.
    $as_root apt-get -q -o DPkg::Lock::Timeout=300 update >&2
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@" >&2
}
