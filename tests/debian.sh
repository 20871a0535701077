#!/bin/sh
# Installs the Debian packages whose servers the tests start for themselves, where they are missing.
# Usage: debian.sh PACKAGE...
set -eu

missing=
for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "error: the tests need$missing: sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing Debian packages:$missing"
apt-get update -qq
# In run level 1 no package starts its server: the tests start their own, on free ports.
# shellcheck disable=SC2086  # one word a package
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
