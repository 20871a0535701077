# Each command makes what it needs: the environment in .venv, the packages in it, the development release in .cache.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?=
RELEASE ?=
ARGS ?=
RUN := .venv/bin/python
# pip says which large files it downloads and what went wrong, not what else it looks at, nor that the wheel with
# Triton was installed without its own dependencies.
NOISE := Collecting|Looking|Requirement|Using cached|Processing|Created|Downloading .*( kB|metadata)|Attempting|Found|\
Uninstalling|Successfully|WARNING: Location|\[notice|ERROR: pip.s dependency resolver|nvidia-pytriton .*requires|$$
PIP_OPTIONS := --disable-pip-version-check --progress-bar off
PIP = $(RUN) -m pip install $(PIP_OPTIONS)
PINNED := -c requirements/constraints.txt
AUDIT := .cache/audit
TERSE = 2>&1 | sed -uE '/^ *($(NOISE))/d; s/^(Installing collected packages).*/\1/'

.PHONY: help serve test test-clients test-videos test-kernels lint bench fuzz audit sbom clean

help:  ## Show this
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

serve: .venv/.serve  ## Serve on http://127.0.0.1:8080 until Ctrl-C; RELEASE=DIR serves a real release
	@exec $(if $(RELEASE),env CLEF_RELEASE='$(RELEASE)') $(RUN) -m launch serve $(ARGS)

test: lint  ## Lint, and run every test; ARGS='-k name' runs some
	@$(RUN) -m pytest -n 2 --dist loadgroup $(ARGS)

test-clients: .venv/.test  ## Run every client against a real stack, those that install slowly too
	@EVERY_CLIENT=1 $(RUN) -m pytest tests/clients $(ARGS)

test-videos: .venv/.test  ## Compare videos with the publisher's code, in an environment of several gigabytes of their own
	@WITH_VIDEOS=1 $(RUN) -m pytest tests/videos $(ARGS)

test-kernels: .venv/.test  ## Run the GPU's DeltaNet kernels in an interpreter, in an environment of two gigabytes of their own
	@WITH_KERNELS=1 $(RUN) -m pytest tests/kernels $(ARGS)

lint: .venv/.test  ## Check style and types
	@$(RUN) -m ruff check
	@$(RUN) -m ruff format --check
	@$(RUN) -m mypy

bench: .venv/.bench  ## Measure; the figures go to perf/
	@exec $(RUN) -m perf $(ARGS)

fuzz: .venv/.test  ## Look for inputs that break a parser or a decoder; ARGS=SECONDS for each, 60 without
	@exec $(RUN) -m tests.fuzz $(ARGS)

audit: $(AUDIT)/.made  ## Look up known vulnerabilities of every pinned version
	@$(AUDIT)/bin/python requirements/audit.py $(AUDIT)/bin/pip-audit $(ARGS)

sbom: $(AUDIT)/.made .venv/.serve  ## Write what is installed here and in the images, as CycloneDX, to .cache/sbom/
	@mkdir -p .cache/sbom
	@$(AUDIT)/bin/cyclonedx-py environment --output-reproducible --of JSON -o .cache/sbom/machine.cdx.json .venv
	@for image in triton frontend; do $(AUDIT)/bin/cyclonedx-py requirements --output-reproducible --of JSON \
		-o .cache/sbom/$$image-image.cdx.json docker/$$image/requirements.lock; done
	@ls .cache/sbom/*

clean:  ## Remove the environment, the development release and every cache; keys.json and usage.sqlite3 stay
	rm -rf .venv .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/.serve: requirements/serve.txt requirements/constraints.txt requirements/embedded-triton.txt
	@sh launch/venv.sh '$(PYTHON)'
	@echo 'installing packages into .venv: a minute or several, 1.5 GB on disk (more with PyTorch for CUDA)'
	@$(PIP) $(PINNED) -r requirements/serve.txt $(TERSE)
	@if [ -z "$${CLEF_TRITON:-}" ] && ! PATH="$$PATH:/opt/tritonserver/bin" command -v tritonserver >/dev/null; then \
		case "$$(uname -sm)" in \
		'Linux x86_64') $(PIP) --no-deps -r requirements/embedded-triton.txt $(TERSE) ;; \
		*) echo "error: no tritonserver here, and the one in a wheel runs on Linux x86-64 alone: use NVIDIA's image" \
			"(README.md), or set CLEF_TRITON" >&2; exit 1 ;; \
		esac; \
	fi
	@touch $@

.venv/.test: .venv/.serve requirements/test.txt requirements/tracing.txt requirements/test-no-deps.txt tests/debian.sh
	@echo 'installing what the tests need'
	@sh tests/debian.sh postgresql redis-server haproxy prometheus systemd
	@$(PIP) $(PINNED) -r requirements/test.txt $(TERSE)
	@$(PIP) --no-deps -r requirements/test-no-deps.txt $(TERSE)
	@touch $@

.venv/.bench: .venv/.test
	@sh tests/debian.sh wrk libb64-0d
	@touch $@

$(AUDIT)/.made: requirements/audit.txt | .venv/.serve
	@$(RUN) -m venv --clear $(AUDIT)
	@$(AUDIT)/bin/python -m pip install $(PIP_OPTIONS) -r requirements/audit.txt $(TERSE)
	@touch $@
