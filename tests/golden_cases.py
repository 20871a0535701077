"""The publisher's own answers, read from `tests/golden/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"
RELEASE = GOLDEN / "release"
CASES: dict[str, dict[str, Any]] = {
    case["name"]: case for case in map(json.loads, (GOLDEN / "cases.jsonl").read_text("utf-8").splitlines())
}
TRUNCATED: dict[str, Any] = json.loads((GOLDEN / "truncated_256.json").read_text("utf-8"))

# Its text was tokenized the publisher's way, where special tokens inside it become structure.
REFERENCE_MODE = "state-special-token-text"


def tolerance(name: str) -> float:
    """How far an answer may be off: the resized image was resized by torchvision, ours is resized by Pillow."""
    return 0.02 if name == "image-resized" else 1e-4
