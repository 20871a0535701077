"""Texts of megabytes, tokenized part by part: no further than an answer or a refusal needs, and never all at once.

A token costs the tokenizer some 300 bytes and 2 µs while it works, so 12 MB of digits in one call would take 4 GB and
20 s. Parts end where one word ends and the next begins, which no byte-level BPE merges across; where a text has no such
place, the part is made so long that the ids that are kept stand far from its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

PART_CHARS = 65_536
# Tokens between the last id that is kept and a cut within a word.
MARGIN = 1_000

_SEAM = re.compile(r"[A-Za-z0-9](?= [A-Za-z])|\n(?=\w)")
# How far before the end of a part a seam is looked for.
_SEARCHED = 4_096


class Reading(NamedTuple):
    """`ids`: the first ones, as many as were asked for; `tokens`: counted in all; `whole`: to the text's end.

    The count of a text that has no seams may be off by a token a part, and never where `ids` are all of it.
    """

    ids: list[int]
    tokens: int
    whole: bool


def read(
    encode: Callable[[str], list[int]], text: str, keep: int, stop_at: int, part_chars: int = PART_CHARS
) -> Reading:
    """The first `keep` ids of `text`, and its tokens, counted until there are more than `stop_at` (at least `keep`)."""
    ids: list[int] = []
    tokens, start, size = 0, 0, part_chars
    while True:
        end, at_seam = _part(text, start, size)
        part = encode(text[start:end])
        if tokens <= keep and not at_seam and tokens + len(part) < keep + MARGIN:
            size *= 2
            continue
        if tokens <= keep:
            ids += part
        tokens, start, size = tokens + len(part), end, part_chars
        if end == len(text) or tokens > stop_at:
            return Reading(ids[:keep], tokens, whole=end == len(text))


def _part(text: str, start: int, size: int) -> tuple[int, bool]:
    """Where the part that begins at `start` ends, and whether nothing is cut there."""
    end = start + size
    if end >= len(text):
        return len(text), True
    # One character past the end is looked at, so that a seam may be the end itself.
    seams = list(_SEAM.finditer(text, max(start, end - _SEARCHED), end + 2))
    inside = [seam.end() for seam in seams if start < seam.end() <= end]
    return (inside[-1], True) if inside else (end, False)
