"""What a request costs by its length, its questions, its options and its images: one caller over HTTP.

Every request has a state of its own, and the state cache is off: this is what a state costs the first time.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perf import load_data
from perf.client import Answer, Caller
from perf.load_data import Request
from perf.side_by_side import table
from perf.stack import stack

TITLE = "Cost by length, questions, options and images"
REPEATS = 5
IMAGE_SIDE = 512


def _of_words(words: int, chance: random.Random) -> Request:
    return load_data.short(chance) | {"state": load_data.text(words, chance)}


def _of_images(count: int, chance: random.Random) -> Request:
    return load_data.with_images(count, IMAGE_SIDE, chance) if count else load_data.short(chance)


CURVES: Mapping[str, tuple[Callable[[int, random.Random], Request], Sequence[int]]] = {
    "words of the state": (_of_words, (10, 100, 300, 1_000, 2_000)),
    "questions": (load_data.with_questions, (1, 4, 16, 64)),
    "options of one question": (load_data.with_options, (2, 16, 64, 255)),
    f"images of {IMAGE_SIDE} x {IMAGE_SIDE}": (_of_images, (0, 1, 2, 4)),
}


def measure(quick: bool) -> dict[str, list[dict[str, float]]]:
    """Curves by what grows; medians over a few requests, milliseconds."""
    repeats = 1 if quick else REPEATS
    chance = random.Random(0)
    with stack() as running, Caller(running.http) as caller:
        return {
            name: [
                {"value": value, **_median(_ask(caller, make, value, repeats, chance))}
                for value in (values[:2] if quick else values)
            ]
            for name, (make, values) in CURVES.items()
        }


def report(data: dict[str, list[dict[str, float]]]) -> str:
    parts = []
    for name, rows in data.items():
        columns = (name, "tokens", "compute, ms", "preprocess, ms", "HTTP, ms", "compute, ms a token")
        cells = [
            (
                f"{row['value']:.0f}",
                f"{row['tokens']:.0f}",
                row["compute"],
                row["preprocess"],
                row["ms"],
                row["compute"] / row["tokens"],
            )
            for row in rows
        ]
        parts.append(table(columns, cells))
    return "\n\n".join(parts)


def _ask(
    caller: Caller, make: Callable[[int, random.Random], Request], value: int, repeats: int, chance: random.Random
) -> list[Answer]:
    bodies = [load_data.body(make(value, chance)) for _ in range(repeats + 1)]
    return caller.ask_all(bodies)[1:]  # the first one tokenizes the schema


def _median(answers: Sequence[Answer]) -> dict[str, Any]:
    steps = {step: statistics.median(a.timing[step] for a in answers) for step in ("compute", "preprocess")}
    return {"tokens": answers[0].tokens, "ms": statistics.median(answer.ms for answer in answers), **steps}
