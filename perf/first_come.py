"""The planner switched off, to compare with: first come, first served, whatever waits in one padded batch.

It keeps to the same budget of padded tokens, which bounds memory.

A model repository like ours, whose model step plans this way. It is what a batch of Triton's dynamic batcher is
without a planner behind it.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launch.serve import MODEL_REPOSITORY

MODEL = "clef_model"
_SWITCH = """

import clef.scheduler
from perf.first_come import next_batch

clef.scheduler.next_batch = next_batch
"""


def next_batch(waiting: Sequence[Any], limits: Any, *_: Any, **__: Any) -> list[int]:
    """In place of `clef.planner.next_batch`: the oldest ones, as many as fit under the same limits."""
    longest, count = waiting[0].length, 1
    for record in waiting[1 : limits.records]:
        longest = max(longest, record.length)
        if longest * (count + 1) > limits.tokens:
            break
        count += 1
    return list(range(count))


def write_repository(folder: Path) -> Path:
    """Our model repository, with this planner in its model step."""
    repository = Path(shutil.copytree(MODEL_REPOSITORY, folder / "model_repository"))
    adapter = repository / MODEL / "1" / "model.py"
    adapter.write_text(adapter.read_text() + _SWITCH)
    return repository
