#!/bin/sh
# Writes the images' requirements.lock anew: every package at one version, for Python 3.12 on Linux x86-64.
# Needs `pip install uv==0.13.9`. Run it after a change to requirements/ or to a requirements.in here.
set -eu
cd "$(dirname "$0")/.."
for image in triton frontend; do
    uv pip compile --quiet --upgrade --only-binary :all: --no-annotate \
        --custom-compile-command docker/lock.sh --python-version 3.12 --python-platform x86_64-manylinux_2_39 \
        --constraints requirements/serve.txt --constraints requirements/gpu.txt \
        "docker/$image/requirements.in" --output-file "docker/$image/requirements.lock"
done
