#!/bin/sh
# Writes every version that is installed, packages of packages too: requirements/constraints.txt for `make` (Python 3.11
# and 3.12), and from it the images' requirements.lock (Python 3.12), all on Linux x86-64.
# Needs `pip install uv==0.13.9`. Run it after a change to requirements/ or to a requirements.in here; what is locked
# stays at its version unless the change moves it, or `docker/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."

lock() {
    uv pip compile --quiet --no-annotate --custom-compile-command docker/lock.sh "$@"
}

lock "$@" --universal --python-version 3.11 --constraints requirements/gpu.txt \
    requirements/serve.txt requirements/test.txt requirements/video.txt \
    docker/triton/requirements.in docker/frontend/requirements.in --output-file requirements/constraints.txt
for image in triton frontend; do
    lock "$@" --only-binary :all: --python-version 3.12 --python-platform x86_64-manylinux_2_39 \
        --constraints requirements/constraints.txt \
        "docker/$image/requirements.in" --output-file "docker/$image/requirements.lock"
done
