"""What keeping computed states saves, side by side in one run: `python -m perf.state_cache`.

A state of 4,000 tokens, asked a first question set and then others; then eight question sets at once against one of
them alone, both on a state that was not seen before; and by the state's length, what two passes cost when nothing is
found and when the state is. Scores are compared with those computed whole before anything is timed.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clef.batch import Record
from clef.model import ClefModel
from clef.settings import ModelSettings
from launch.dev_release import write_dev_release
from perf.head import realistic
from perf.side_by_side import milliseconds, table

STATE_TOKENS = 4_000
SETS = 8
REST_TOKENS = 185
LENGTHS = (64, 128, 256, 512, 1_024, 2_048)
AGREEMENT = 1e-5
ROUNDS = 3
VOCABULARY = 2_000


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

    def new(self, state_tokens: int, sets: int) -> None:
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


def _behind(state: np.ndarray[Any, np.dtype[np.int32]], asked: Record) -> Record:
    moved = len(state) - asked.state_end
    return replace(
        asked,
        input_ids=np.concatenate([state, asked.input_ids[asked.state_end :]]),
        question_spans=asked.question_spans + moved,
        option_spans=asked.option_spans + moved,
        state_end=len(state),
    )


def by_length(asking: Asking, length: int) -> tuple[float, float, float]:
    """Milliseconds of one question set on a state of this length: computed whole, in two passes, behind a seen one."""
    ways: dict[str, Callable[[], object]] = {
        "whole": lambda: asking.whole(length),
        "new": lambda: asking.new(length, 1),
        "seen": asking.seen(length),
    }
    taken = milliseconds(ways, ROUNDS)
    return taken["whole"], taken["new"], taken["seen"]


def measure(release: Path) -> str:
    """Both figures, and the curve by length, as Markdown."""
    model = ClefModel.load(ModelSettings(release=release, state_cache_min_tokens=1), "cpu")
    model.warm_up()
    asking = Asking(model)
    times = milliseconds(
        {
            "first": lambda: asking.new(STATE_TOKENS, 1),
            "seen": asking.seen(STATE_TOKENS),
            "eight": lambda: asking.new(STATE_TOKENS, SETS),
        },
        ROUNDS,
    )
    answers = [
        ("a question set on a new state", times["first"], 1.0),
        ("another one on that state", times["seen"], times["first"] / times["seen"]),
        (f"{SETS} at once on a new state", times["eight"], times["first"] / times["eight"]),
    ]
    rows = [(length, *by_length(asking, length), model.states.footprint.prefix(length)) for length in LENGTHS]
    return (
        f"CPU milliseconds, {torch.get_num_threads()} threads, a state of {STATE_TOKENS} tokens:\n\n"
        f"{table(('', 'ms', 'times faster than the first'), answers)}\n\n"
        f"Eight question sets cost {times['eight'] / times['first']:.2f} times one.\n\n"
        f"{table(('tokens of the state', 'whole', 'two passes, new', 'seen', 'bytes kept'), rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="threads that wait for each other count as busy")
    parser.add_argument("--release", type=Path, help="default: a bench release, written for the run")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        release = given.release
        if release is None:
            release = Path(folder) / "bench"
            write_dev_release(release, "bench")
        print(measure(release))


if __name__ == "__main__":
    main()
