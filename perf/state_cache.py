"""What keeping computed states saves and costs, side by side in one run.

A state of 4,000 tokens, asked a first question set and then others; then eight question sets at once against one of
them alone, both on a state that was not seen before. By the state's length: what a question set costs where nothing is
kept, where the state is computed to be kept, and where it was seen, and the bytes that it takes. Scores are compared
with those computed whole before anything is timed. The model alone, on one thread: of several, those that wait for
each other count as busy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from clef.batch import Record
from clef.model import ClefModel
from clef.settings import ModelSettings
from launch.published import PUBLISHED
from perf.head import realistic
from perf.side_by_side import milliseconds, table
from perf.stack import BENCH_RELEASE, make_release

TITLE = "State cache"
STATE_TOKENS = 4_000
SETS = 8
REST_TOKENS = 185
LENGTHS = (128, 256, 512, 1_024, 2_048, STATE_TOKENS)
QUICK_LENGTHS = (128, 512)
AGREEMENT = 1e-5
ROUNDS = 3
VOCABULARY = 2_000
AT_LEAST, AT_MOST = 5, 2


class Asking:
    """Question sets on states, none of which was seen before unless it says so."""

    def __init__(self, model: ClefModel) -> None:
        self.model = model
        self._chance = np.random.default_rng(0)

    def records(self, state_tokens: int, sets: int) -> list[Record]:
        """Unlike question sets on one new state."""
        state = self._chance.integers(0, VOCABULARY, state_tokens)
        made = [realistic(REST_TOKENS, self._chance) for _ in range(sets)]
        return [_behind(state.astype(np.int32), record) for record in made]

    def new(self, state_tokens: int, sets: int = 1) -> None:
        self.score(self.records(state_tokens, sets))

    def whole(self, state_tokens: int) -> None:
        self.model.score(self.records(state_tokens, 1))

    def score(self, records: Sequence[Record]) -> list[Any]:
        prefix = self.model.prefix(records[0])
        if prefix is None:
            raise SystemExit("The state cache does not serve here: nothing was timed.")
        return self.model.score(records, prefix)

    def seen(self, state_tokens: int) -> Callable[[], object]:
        """Question set after question set on one state; the first was asked before this returns."""
        sets = self.records(state_tokens, SETS)
        for record, scores in zip(sets[:2], [self.score([sets[0]]), self.score([sets[1]])], strict=True):
            if np.abs(scores[0] - self.model.score([record])[0]).max() > AGREEMENT:
                raise SystemExit("Continued and whole scores differ: nothing was timed.")
        turns: Iterator[Record] = itertools.cycle(sets)
        return lambda: self.score([next(turns)])

    def kept_bytes(self, state_tokens: int) -> int:
        """What one state of this length takes."""
        self.model.states.cache.clear()
        self.new(state_tokens)
        return self.model.states.cache.bytes


def measure(quick: bool) -> dict[str, Any]:
    """CPU milliseconds, and bytes by the state's length."""
    make_release(BENCH_RELEASE)
    torch.set_num_threads(1)
    model = ClefModel.load(ModelSettings(release=BENCH_RELEASE, state_cache_min_tokens=1), "cpu")
    model.warm_up()
    asking, rounds = Asking(model), 1 if quick else ROUNDS
    ways: dict[str, Callable[[], object]] = {
        "first": lambda: asking.new(STATE_TOKENS),
        "another": asking.seen(STATE_TOKENS),
        "together": lambda: asking.new(STATE_TOKENS, SETS),
    }
    return {
        "state_tokens": STATE_TOKENS,
        "ms": milliseconds(ways, rounds),
        "by_length": [_by_length(asking, length, rounds) for length in (QUICK_LENGTHS if quick else LENGTHS)],
    }


def report(data: dict[str, Any]) -> str:
    first, another, together = (data["ms"][name] for name in ("first", "another", "together"))
    answers = [
        ("a question set on a new state", first, 1.0),
        ("another one on that state", another, first / another),
        (f"{SETS} at once on a new state", together, first / together),
    ]
    rows = [
        (
            row["tokens"],
            *(row["ms"][way] for way in ("whole", "new", "seen")),
            _mb(row["bytes"]),
            *(_mb(shape.footprint.prefix(row["tokens"])) for shape in PUBLISHED.values()),
        )
        for row in data["by_length"]
    ]
    columns = ("tokens of the state", "not kept, ms", "computed to be kept, ms", "seen, ms", "kept, MB")
    return (
        f"A state of {data['state_tokens']} tokens. Another question set on it: **{first / another:.1f} times** faster "
        f"than the first (at least {AT_LEAST} asked). {SETS} at once: **{together / first:.2f} times** one alone (at "
        f"most {AT_MOST} asked).\n\n{table(('', 'CPU ms', 'times faster than the first'), answers)}\n\n"
        "By the state's length. What is kept was counted on the release that is measured; what it is for the published "
        "ones, in bf16, is arithmetic from their shapes.\n\n"
        f"{table((*columns, *(f'of {name}, MB' for name in PUBLISHED)), rows)}"
    )


def _by_length(asking: Asking, length: int, rounds: int) -> dict[str, Any]:
    ways: dict[str, Callable[[], object]] = {
        "whole": lambda: asking.whole(length),
        "new": lambda: asking.new(length),
        "seen": asking.seen(length),
    }
    return {"tokens": length, "ms": milliseconds(ways, rounds), "bytes": asking.kept_bytes(length)}


def _behind(state: np.ndarray[Any, np.dtype[np.int32]], asked: Record) -> Record:
    moved = len(state) - asked.state_end
    return replace(
        asked,
        input_ids=np.concatenate([state, asked.input_ids[asked.state_end :]]),
        question_spans=asked.question_spans + moved,
        option_spans=asked.option_spans + moved,
        state_end=len(state),
    )


def _mb(count: int) -> float:
    return count / 1e6
