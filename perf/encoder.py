"""Our encoder beside the publisher's `encode_record`, on the golden release.

The publisher's encoder runs as published, with transformers' tokenizer of the release. Ids are compared before
anything is timed.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from perf.publisher import publisher
from perf.side_by_side import ROUNDS, milliseconds, table
from preprocess.encoder import Encoder
from preprocess.preprocessor import Preprocessor
from preprocess.prompt import render
from preprocess.schema import parse_request
from preprocess.settings import Settings
from preprocess.tokenizer import Tokenizer, Vocabulary

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
STATE_CHARACTERS = (100, 1_000, 4_000)

TITLE = "Encoder"
QUICK_ROUNDS = 3


def three_types() -> dict[str, Any]:
    """The request of the golden case of that name."""
    with (GOLDEN / "cases.jsonl").open(encoding="utf-8") as lines:
        request: dict[str, Any] = json.loads(next(lines))["request"]
    return request


def state_of(characters: int) -> str:
    """English-like text without a period: words of the golden requests in a seeded order."""
    with (GOLDEN / "cases.jsonl").open(encoding="utf-8") as lines:
        words = sorted({word for line in lines for word in json.dumps(json.loads(line)["request"]).split()})
    words = [word for word in words if word.isascii() and len(word) < 20]
    chance = random.Random(characters)
    return " ".join(chance.choice(words) for _ in range(characters))[:characters]


class Encoders:
    """Both encoders on one release, as calls without arguments that can be timed."""

    def __init__(self, release: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers import AutoTokenizer

            self._theirs: Any = AutoTokenizer.from_pretrained(release)
        vocabulary = Vocabulary.load(release)
        self._settings = Settings(release=release)
        self.tokenizer = Tokenizer(vocabulary, "literal")
        self._warm = Encoder(self.tokenizer, 64)
        self._cold = Encoder(self.tokenizer, 0)
        self._step = Preprocessor(self._settings)

    def ways(self, body: dict[str, Any]) -> dict[str, Callable[[], Any]]:
        """`publisher`, `warm` (schema seen before), `cold`, `state` (its tokens alone), `step` (from JSON bytes)."""
        data = json.dumps(body).encode()
        request = parse_request(data, self._settings)
        images = np.zeros((0, 3), dtype=np.int32)
        state = render(request.state)

        def ours(encoder: Encoder) -> Any:
            return encoder.encode(request, images, max_length=16_384, semantics="joint", overflow="reject")

        ways: dict[str, Callable[[], Any]] = {
            "publisher": lambda: publisher().encode_record(self._theirs, body),
            "warm": lambda: ours(self._warm),
            "cold": lambda: ours(self._cold),
            "state": lambda: self.tokenizer.encode(state),
            "step": lambda: self._step(data, None, {}),
        }
        expected = list(ways["publisher"]().input_ids)
        for name in ("warm", "cold"):
            if ways[name]().input_ids.tolist() != expected:
                raise SystemExit("The encoders disagree: nothing was timed.")
        return ways


def measure(quick: bool) -> dict[str, Any]:
    """CPU milliseconds of each way on `three-types`, and on the same questions over states of several lengths."""
    release, rounds = GOLDEN / "release", QUICK_ROUNDS if quick else ROUNDS
    encoders = Encoders(release)
    body = three_types()
    curve = []
    for characters in STATE_CHARACTERS:
        state = state_of(characters)
        times = milliseconds(encoders.ways(body | {"state": state}), rounds)
        curve.append({"characters": characters, "state_tokens": len(encoders.tokenizer.encode(state)), **times})
    return {"release": release.name, "three_types": milliseconds(encoders.ways(body), rounds), "curve": curve}


def report(measured: dict[str, Any]) -> str:
    """The measurement as two Markdown tables."""
    times = measured["three_types"]
    golden = [
        (f"{label}", times[name], times["publisher"] / times[name])
        for label, name in (
            ("publisher's `encode_record`", "publisher"),
            ("ours, schema seen before", "warm"),
            ("ours, schema new", "cold"),
            ("ours from JSON bytes to tensors, schema seen before", "step"),
        )
    ]
    curve = [
        (
            row["characters"],
            row["state_tokens"],
            row["publisher"],
            row["warm"],
            row["publisher"] / row["warm"],
            row["publisher"] / row["cold"],
            f"{row['state'] / row['warm']:.0%}",
        )
        for row in measured["curve"]
    ]
    columns = (
        "state, characters",
        "its tokens",
        "publisher, CPU ms",
        "ours, CPU ms",
        "times",
        "times cold",
        "share of the state",
    )
    return (
        f"Golden case `three-types`, release `{measured['release']}`:\n\n"
        f"{table(('encoder', 'CPU ms', 'times faster'), golden)}\n\n"
        f"The same questions, seen before, over longer states; the last column is what tokenizing the state itself "
        f"takes of our time:\n\n{table(columns, curve)}"
    )
