"""Records that share a prefix: the prefix is computed once, and the rest of each behind it.

A prefix is computed alone and at its exact length, since padding would spoil the states that continue it. The rests
of several records then run as one right-padded batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from clef.batch import Record
from clef.collate import collate
from clef.footprint import Footprint
from clef.head import JointHead
from clef.media import AXES, Media, rope_positions
from clef.prefix import Prefix, media_key, stands_apart
from clef.ragged import Index, upload
from clef.state_cache import Segment, StateCache
from clef.totals import Totals
from clef.trunk import Trunk


class States:
    """The computed prefixes of one model, and passes that continue them."""

    def __init__(self, trunk: Trunk, head: JointHead, totals: Totals, max_bytes: int, min_tokens: int) -> None:
        self._trunk, self._head, self._totals, self._min_tokens = trunk, head, totals, min_tokens
        self._device = trunk.vocabulary.device
        self.footprint = Footprint.of(trunk.config, head.width, trunk.vocabulary.element_size())
        self.cache = StateCache(max_bytes)
        self._hashed: tuple[Callable[[], object], Callable[[], object], bytes] = (lambda: None, lambda: None, b"")
        self.enabled = False
        """Whether `prefix` gives any; see `ClefModel.warm_up`."""

    def prefix(self, record: Record) -> Prefix | None:
        """What the record is continued from, or None where it is better, or has to be, computed whole."""
        length = record.state_end
        if not self.enabled or length < self._min_tokens or self.footprint.prefix(length) > self.cache.max_bytes:
            return None
        if not stands_apart(record, self._trunk.media_tokens):
            return None
        return Prefix.of(record, self.footprint.spacing, self._media_key(record))

    def _media_key(self, record: Record) -> bytes:
        # The records of a request come one after another and share their arrays: these are hashed once.
        patches, grid, key = self._hashed
        if patches() is not record.patches or grid() is not record.image_grid:
            key = media_key(record)
            self._hashed = (weakref.ref(record.patches), weakref.ref(record.image_grid), key)
        return key

    def logits(self, records: Sequence[Record], prefix: Prefix) -> Tensor:
        """Logits [O] of records that all have this prefix."""
        positions = rope_positions(records[0], self._trunk.media_tokens, self._trunk.merge)
        past = self._past(records[0], prefix, positions[:, : prefix.length])
        rests = [rest(record) for record in records]
        self._totals.add_batch([rest.length for rest in rests])
        batch = collate(rests, self._device)
        first, length = int(positions[0, prefix.length]), batch.input_ids.shape[1]
        places = torch.arange(first, first + length, device=self._device).expand(AXES, 1, -1)
        hidden, _ = self._trunk.extend(self._trunk.embed(batch.input_ids), places, past, prefix.length)
        remembered = torch.cat([segment.memory for segment in past])
        self._totals.hits += len(records) - 1
        self._totals.reused_tokens += (len(records) - 1) * prefix.length
        return self._head(hidden, batch.layout, self._trunk.vocabulary, remembered)

    def _past(self, record: Record, prefix: Prefix, positions: Index) -> list[Segment]:
        """The segments of the whole prefix; those that are not there are computed and kept."""
        past = self.cache.find(prefix)
        start = prefix.ends[len(past) - 1] if past else 0
        self._totals.reused_tokens += start
        if start == prefix.length:
            self._totals.hits += 1
            return past
        self._totals.misses += 1
        self._totals.tokens += prefix.length - start
        ids, places = upload([record.input_ids[None, : prefix.length], positions[:, None]], self._device)
        embedded = self._trunk.embed(ids, self._media(record, start, prefix.length))
        for end in prefix.ends[len(past) :]:
            hidden, layers = self._trunk.extend(embedded[:, start:end], places[..., start:end], past, start)
            past.append(Segment(layers, self._head.remember(hidden)))
            start = end
        self.cache.put(prefix, past)
        return past

    def _media(self, record: Record, start: int, end: int) -> Media | None:
        """The media up to `end`, where there is anything of them from `start` on."""
        if not self._trunk.media_tokens.shown_in(record, start, end):
            return None
        shown = replace(record, input_ids=record.input_ids[:end])
        return Media.of([shown], self._trunk.media_tokens, self._trunk.merge, self._device)


def rest(record: Record) -> Record:
    """The record without its prefix."""
    return replace(
        record,
        input_ids=record.input_ids[record.state_end :],
        question_spans=record.question_spans - record.state_end,
        option_spans=record.option_spans - record.state_end,
        state_end=0,
        patches=record.patches[:0],
        image_grid=record.image_grid[:0],
    )
