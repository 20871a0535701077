"""The time of several ways to do one thing, in turns, so that a slower minute of the machine hits every way alike.

By default the CPU time of the process, all its threads, so that what else the machine runs does not count. Where
several threads compute, those that wait for each other would count as busy: there it is the time on the clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from time import process_time

ROUNDS = 25
SECONDS_PER_TURN = 0.02
Clock = Callable[[], float]
"""Seconds."""


def milliseconds(
    ways: Mapping[str, Callable[[], object]], rounds: int = ROUNDS, clock: Clock = process_time
) -> dict[str, float]:
    """The median milliseconds of one call of each way, over `rounds` turns of each."""
    repeats = {name: _repeats(call, clock) for name, call in ways.items()}
    turns: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            turns[name].append(_turn(call, repeats[name], clock) / repeats[name])
    return {name: statistics.median(values) * 1_000 for name, values in turns.items()}


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; numbers with three significant digits or so."""
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:.1f}"
    return str(value)


def _repeats(call: Callable[[], object], clock: Clock) -> int:
    call()
    return max(1, round(SECONDS_PER_TURN / max(_turn(call, 1, clock), 1e-7)))


def _turn(call: Callable[[], object], repeats: int, clock: Clock) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return clock() - start
