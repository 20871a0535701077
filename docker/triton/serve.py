"""What the image runs: tritonserver, watched.

A step whose Python process has died leaves Triton's own ready endpoints at 200, and nothing brings it back. So the
ensemble is asked a small question all the time. While answers come, the file READY exists, which is what the image's
health check and Kubernetes' probe look at. Where they fail, Triton is killed and this process ends with 1, for Docker
or Kubernetes to start the container anew. Slow answers and refusals are what load looks like, and are no failure.

Arguments are further options of tritonserver. TRITON_HTTP_PORT, TRITON_GRPC_PORT and TRITON_METRICS_PORT move its
ports. It imports Python's standard library and `launch.restrictions` alone: what it watches may break, it may not.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path

from launch.restrictions import restrictions

ROOT = Path(__file__).resolve().parents[2]
READY = Path(tempfile.gettempdir()) / "triton-ready"
REGIONS = "clef_image_"

INTERVAL_S = 1.0
ANSWER_S = 30.0
FAILURES = 3
SILENCE_S = 120.0

_QUESTION = json.dumps({"state": "heartbeat", "questions": {"alive": {"type": "noul"}}})
# The id is a heartbeat's, which the steps neither log nor count: while this question waits, it is no load.
_BODY = json.dumps(
    {
        "id": "heartbeat",
        "inputs": [{"name": "REQUEST", "shape": [1, 1], "datatype": "BYTES", "data": [_QUESTION]}],
        "outputs": [{"name": "RESPONSE"}],
    }
).encode()
# Loopback is asked directly, whatever proxy the environment names.
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Sign(Enum):
    """What one question told."""

    LIFE = auto()
    NOTHING = auto()
    FAILURE = auto()


def ask(url: str) -> Sign:
    try:
        with _HTTP.open(urllib.request.Request(url, _BODY), timeout=ANSWER_S):
            return Sign.LIFE
    except urllib.error.HTTPError as error:
        return Sign.LIFE if error.code == 503 else Sign.FAILURE
    except TimeoutError:
        return Sign.NOTHING
    except OSError:
        return Sign.FAILURE


def response_cache_bytes() -> int:
    """0 where it is unset or empty. Raises SystemExit for what is no size."""
    told = os.environ.get("CLEF_RESPONSE_CACHE_BYTES") or "0"
    try:
        size = int(told)
    except ValueError:
        size = -1
    if size < 0:
        sys.exit(f"A setting is wrong: CLEF_RESPONSE_CACHE_BYTES={told}: it takes a whole number of bytes, or 0.")
    return size


def command(options: Sequence[str]) -> list[str]:
    """tritonserver's command line; `options` come last and win."""
    cache_bytes = response_cache_bytes()
    ports = {name: os.environ.get(f"TRITON_{name.upper()}_PORT") for name in ("http", "grpc", "metrics")}
    return [
        "tritonserver",
        f"--model-repository={ROOT / 'model_repository'}",
        "--model-control-mode=none",
        "--disable-auto-complete-config",
        f"--backend-config=python,shm-region-prefix-name={REGIONS}",
        *restrictions(),
        "--exit-timeout-secs=60",
        "--log-format=ISO8601",
        *([f"--cache-config=local,size={cache_bytes}"] if cache_bytes else []),
        *(f"--{name}-port={port}" for name, port in ports.items() if port),
        *options,
    ]


def watch(triton: subprocess.Popen[bytes], url: str) -> str:
    """Returns why Triton must end, or how it did."""
    failures, seen = 0, None
    while (status := triton.poll()) is None:
        sign = ask(url)
        if sign is Sign.LIFE:
            failures, seen = 0, time.monotonic()
            READY.touch()
        elif seen is not None:
            failures = failures + 1 if sign is Sign.FAILURE else 0
            if failures:
                READY.unlink(missing_ok=True)
            if failures == FAILURES:
                return f"Triton failed {FAILURES} times in a row: a step's process is gone"
            if time.monotonic() - seen > SILENCE_S:
                return f"Triton answered nothing for {SILENCE_S:.0f} s"
        time.sleep(INTERVAL_S)
    return f"Triton ended by itself with {status}"


def sweep() -> None:
    """Removes shared memory that a killed server left: in Kubernetes it outlives the container."""
    for region in Path("/dev/shm").glob(f"{REGIONS}*"):
        region.unlink(missing_ok=True)


def main(options: Sequence[str]) -> int:
    READY.unlink(missing_ok=True)
    sweep()
    triton = subprocess.Popen(command(options), start_new_session=True)

    def stop(number: int, frame: object) -> None:
        READY.unlink(missing_ok=True)
        triton.send_signal(signal.SIGTERM)
        sys.exit(triton.wait())

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        reason = watch(triton, f"http://127.0.0.1:{os.environ.get('TRITON_HTTP_PORT', '8000')}/v2/models/clef/infer")
        print(f"{reason}; ending, to be started anew", file=sys.stderr, flush=True)
        return 1
    finally:
        READY.unlink(missing_ok=True)
        if triton.poll() is None:
            os.killpg(triton.pid, signal.SIGKILL)
        sweep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
