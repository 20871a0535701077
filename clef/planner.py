"""Which waiting records make the next micro-batch. Pure: lengths in, positions out.

Padding is bounded twice: no record joins one that is much longer than itself, and the padded tokens of a micro-batch
stay within a budget, which also bounds its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STRETCH = 1.25
SLACK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one micro-batch; a record over the token budget goes alone."""

    tokens: int  # padded: records x the longest of them
    records: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the planner knows of a record."""

    length: int
    has_media: bool = False


def alike(one: int, other: int) -> bool:
    """Whether records of these lengths may share a micro-batch."""
    shorter, longer = sorted((one, other))
    return longer <= STRETCH * shorter + SLACK_TOKENS


def next_batch(waiting: Sequence[Waiting], limits: Limits, oldest_leads: bool = False) -> list[int]:
    """Positions in `waiting` (oldest first, not empty) of the next micro-batch, shortest first.

    The shortest record leads, or the oldest one on demand; those nearest to it in length join while all are alike and
    the padded tokens fit. Media and text do not mix: text alone needs no image tower and no positions of its own.
    """
    leader = 0 if oldest_leads else min(range(len(waiting)), key=lambda place: waiting[place].length)
    length, has_media = waiting[leader].length, waiting[leader].has_media
    others = [place for place, record in enumerate(waiting) if record.has_media == has_media and place != leader]
    others.sort(key=lambda place: abs(waiting[place].length - length))
    chosen = [leader]
    shortest = longest = length
    for place in others:
        if len(chosen) == limits.records:
            break
        low, high = min(shortest, waiting[place].length), max(longest, waiting[place].length)
        if alike(low, high) and high * (len(chosen) + 1) <= limits.tokens:
            chosen.append(place)
            shortest, longest = low, high
    return sorted(chosen, key=lambda place: waiting[place].length)
