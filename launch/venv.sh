#!/bin/sh
# Makes the virtual environment .venv, or leaves a working one alone.  Usage: venv.sh [PYTHON]
# What it cannot do itself it says in a sentence. It runs before any package is there, hence a shell script.
set -eu

fail() {
    echo "error: $*" >&2
    exit 1
}

suits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null
}

# Installs Debian packages where that is ours to do; else says what to type.
need_packages() {
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing Debian packages: $*"
        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
    else
        fail "$python lacks a part that Debian and Ubuntu ship apart: sudo apt-get install $*"
    fi
}

[ -x .venv/bin/python ] && suits .venv/bin/python && exit 0

python=
for candidate in ${1:-python3 python3.12 python3.11}; do
    if suits "$candidate"; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or 3.12 is needed (looked for ${1:-python3, python3.12, python3.11}). " \
    "Install one (Debian: apt-get install python3 python3-venv) or name it: make serve PYTHON=/path/to/python3"

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import ensurepip, venv' 2>/dev/null || need_packages "python$version-venv"
# The embedded Triton's Python backend loads the interpreter as a library, which Debian ships in a package of its own.
case $("$python" -c 'import sys; print(sys.base_prefix)') in
/usr) ldconfig -p | grep -q "libpython$version.so.1.0" || need_packages "libpython$version" ;;
esac

echo "making .venv with Python $version"
rm -rf .venv
"$python" -m venv .venv
