"""The step's process: no torch, no transformers, little memory, whatever was sent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden_cases import GOLDEN, RELEASE

ROOT = Path(__file__).parents[2]

SCRIPT = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from preprocess.errors import ServiceError
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings

def peak():
    # Not getrusage: its peak survives exec, so that it would be the tests' own.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

step = Preprocessor(Settings(release=Path({str(RELEASE)!r})))
for line in Path({str(GOLDEN / "cases.jsonl")!r}).read_text("utf-8").splitlines():
    step(json.dumps(json.loads(line)["request"]).encode(), None, {{}})
served = peak()

from tests.preprocess.pictures import png_of_zeros
refused = 0
for width, height in ((20_000, 20_000), (10_000, 10_000), (4_000, 4_000)):
    try:
        step(b'{{"state": 1, "questions": {{"q": {{"type": "noul"}}}}}}', [png_of_zeros(width, height)], {{}})
    except ServiceError:
        refused += 1
rooms = ("clef", "postprocess", "frontend", "launch", "perf")
print(json.dumps({{
    "served_mib": served,
    "bombed_mib": peak(),
    "refused": refused,
    "heavy": sorted({{"torch", "transformers", "fastapi", "tritonclient"}} & sys.modules.keys()),
    "rooms": sorted(set(rooms) & {{name.partition(".")[0] for name in sys.modules}}),
}}))
"""


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_nothing_heavy_is_imported(told: dict[str, Any]) -> None:
    assert told["heavy"] == []


def test_no_other_room_is_imported(told: dict[str, Any]) -> None:
    assert told["rooms"] == []


def test_the_process_stays_small(told: dict[str, Any]) -> None:
    assert told["served_mib"] < 200


def test_bombs_cost_little_memory(told: dict[str, Any]) -> None:
    assert told["refused"] == 2
    assert told["bombed_mib"] - told["served_mib"] < 500
