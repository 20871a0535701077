"""What a model has done since its start, for whoever watches it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Totals:
    """Written by the thread that computes; others may read at any time."""

    micro_batches: Counter[int] = field(default_factory=Counter)
    """By records, rounded up to a power of two."""
    records: int = 0
    tokens: int = 0
    """Computed, without padding."""
    padding_tokens: int = 0
    """Computed for nothing."""
    hits: int = 0
    """Records whose prefix was there, or was computed for another record of their micro-batch."""
    misses: int = 0
    """Records whose prefix was computed, or the end of it."""
    reused_tokens: int = 0
    """Not computed, since they were there."""

    def add_batch(self, lengths: list[int], packed: bool = False) -> None:
        """A forward pass of records, padded to the longest unless they were packed."""
        self.micro_batches[1 << (len(lengths) - 1).bit_length()] += 1
        self.records += len(lengths)
        self.tokens += sum(lengths)
        if not packed:
            self.padding_tokens += len(lengths) * max(lengths) - sum(lengths)
