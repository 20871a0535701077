"""Which waiting records make the next micro-batch. Pure: lengths in, positions out.

Padding is bounded twice: no record joins one that is much longer than itself, and the padded tokens of a micro-batch
stay within a budget, which also bounds its memory. Where records are packed there is none, and the budget is of their
own tokens; but a short one would still wait for a long one's forward, so that they are as alike, unless all are next
to nothing together.

Records with a prefix that is worth keeping go with those of the same prefix, which is then computed once, if at all.
What counts as their length is what stands behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clef.prefix import Prefix

STRETCH = 1.25
SLACK_TOKENS = 64
ENOUGH_TOKENS = 1024
"""A record of so many goes alone: it keeps a device busy by itself, so that company is computed no faster for it, and
would wait for it. `perf/RESULTS.md` has a CPU's cost of a token by length, `docs/gpu.md` the arithmetic of cards."""
FREE_TOKENS = 256
"""A card computes about as many while it reads the weights, which it does once for all (`docs/gpu.md`)."""
SHARE = 4
"""A token that is attended to, but not computed, takes about a quarter of the memory of one that is, in each row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one micro-batch; a record over the token budget goes alone."""

    tokens: int  # padded: records x the longest of them; packed: theirs
    records: int
    packed: bool = False
    """Whether records without a prefix come end to end."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the planner knows of a record."""

    length: int
    has_media: bool = False
    prefix: Prefix | None = None

    @property
    def rest(self) -> int:
        """Tokens that are this record's alone."""
        return self.length - (self.prefix.length if self.prefix else 0)

    def goes_with(self, other: Waiting) -> bool:
        """Media and text do not mix: text alone needs no image tower and no positions of its own."""
        return self.prefix == other.prefix and self.has_media == other.has_media


def alike(one: int, other: int) -> bool:
    """Whether records of these lengths may share a micro-batch."""
    shorter, longer = sorted((one, other))
    return longer <= STRETCH * shorter + SLACK_TOKENS


def next_batch(
    waiting: Sequence[Waiting],
    limits: Limits,
    oldest_leads: bool = False,
    holds: Callable[[Prefix], bool] = lambda prefix: False,
) -> list[int]:
    """Positions in `waiting` (oldest first, not empty) of the next micro-batch, shortest first.

    The record with the least to compute leads, or the oldest one on demand; those nearest to it in length join while
    all are alike, none is enough alone, and the tokens fit. `holds`: whether a prefix is computed already.
    """

    def work(place: int) -> int:
        record = waiting[place]
        return record.rest if record.prefix and holds(record.prefix) else record.length

    leader = 0 if oldest_leads else min(range(len(waiting)), key=work)
    first = waiting[leader]
    shared = (first.length - first.rest) // SHARE
    others = [place for place, record in enumerate(waiting) if place != leader and record.goes_with(first)]
    others.sort(key=lambda place: abs(waiting[place].rest - first.rest))
    packed = limits.packed and first.prefix is None
    chosen = [leader]
    shortest = longest = total = first.rest
    for place in others:
        if len(chosen) == limits.records:
            break
        length = waiting[place].rest
        low, high = min(shortest, length), max(longest, length)
        tokens = total + length if packed else (shared + high) * (len(chosen) + 1)
        together = alike(low, high) or (packed and tokens <= FREE_TOKENS)
        if together and high < ENOUGH_TOKENS and tokens <= limits.tokens:
            chosen.append(place)
            shortest, longest, total = low, high, total + length
    return sorted(chosen, key=lambda place: waiting[place].rest)
