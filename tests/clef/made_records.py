"""Records out of thin air: any spans that a record may have, in the shapes that a test asks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from clef.batch import PATCH_BYTES, Record

VOCABULARY = 97


def made(length: int, option_counts: Sequence[int], seed: int = 0, vocabulary: int = VOCABULARY) -> Record:
    """A record of random ids, and of random spans that may overlap."""
    chance = np.random.default_rng(seed)

    def spans(count: int) -> np.ndarray:
        starts = chance.integers(0, length, count)
        ends = starts + 1 + chance.integers(0, 12, count)
        return np.stack([starts, np.minimum(ends, length)], axis=1).astype(np.int32)

    return Record(
        input_ids=chance.integers(0, vocabulary, length).astype(np.int32),
        question_spans=spans(len(option_counts)),
        question_types=chance.integers(0, 3, len(option_counts)).astype(np.int32),
        option_counts=np.array(option_counts, np.int32),
        option_spans=spans(sum(option_counts)),
        state_end=0,
        patches=np.empty((0, PATCH_BYTES), np.uint8),
        image_grid=np.empty((0, 3), np.int32),
    )


def record_lists(most: int = 5) -> st.SearchStrategy[list[Record]]:
    """Micro-batches of unequal records: a single token up to some dozens, one option up to more than tokens."""
    counts = st.lists(st.integers(1, 5) | st.integers(1, 40), min_size=1, max_size=6)
    records = st.builds(made, st.integers(1, 90), counts, st.integers(0, 2**16))
    return st.lists(records, min_size=1, max_size=most)
