"""The CPU time of several ways to do one thing, in turns.

CPU time of the process, all its threads, so that what else the machine runs does not count; in turns, so that a slower
minute of it hits every way alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from time import process_time

ROUNDS = 25
SECONDS_PER_TURN = 0.02


def milliseconds(ways: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median CPU milliseconds of one call of each way, over `rounds` turns of each."""
    repeats = {name: _repeats(call) for name, call in ways.items()}
    turns: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            turns[name].append(_turn(call, repeats[name]) / repeats[name])
    return {name: statistics.median(values) * 1_000 for name, values in turns.items()}


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers with three significant digits or so."""
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return str(value)


def _repeats(call: Callable[[], object]) -> int:
    call()
    return max(1, round(SECONDS_PER_TURN / max(_turn(call, 1), 1e-7)))


def _turn(call: Callable[[], object], repeats: int) -> float:
    start = process_time()
    for _ in range(repeats):
        call()
    return process_time() - start
