"""Computed prefixes, bounded in bytes.

A prefix is kept as segments, one from each boundary to the next, each with what only its own tokens add (attention
keys and values, the head's memory) and the recurrent state at its end. So prefixes that begin alike share their
segments, and a boundary costs one recurrent state: as much as the keys, values and memory of 1,400 tokens of the 9B,
of 2,200 of the 27B.

Axes: A key-value heads, n tokens of a segment, D head size, C convolution channels, W the head's width.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from clef.prefix import Prefix

LayerState = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """What is kept of the tokens between two boundaries. Its tensors are never written to."""

    layers: Sequence[LayerState]
    """Attention: keys and values [1, A, n, D]. DeltaNet: its convolution's last inputs [1, C, k - 1] and its recurrent
    state [1, heads, key size, value size] at the end."""
    memory: Tensor
    """[n, W], see `clef.head`."""

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for layer in self.layers for tensor in layer) + self.memory.nbytes


class StateCache:
    """Segments by their boundary's key; the least recently used goes first."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.evictions = 0
        self._segments: OrderedDict[bytes, Segment] = OrderedDict()

    def __contains__(self, prefix: Prefix) -> bool:
        return prefix.key in self._segments

    def find(self, prefix: Prefix) -> list[Segment]:
        """The segments up to the longest stored boundary of the prefix, in order."""
        count = len(prefix.keys)
        while count and prefix.keys[count - 1] not in self._segments:
            count -= 1
        return self._use(prefix.keys[:count])

    def put(self, prefix: Prefix, segments: Sequence[Segment]) -> None:
        """Keep all segments of the prefix; what was not used for longest goes where they do not fit."""
        for key, segment in zip(prefix.keys, segments, strict=True):
            if key not in self._segments:
                self._segments[key] = segment
                self.bytes += segment.bytes
        self._use(prefix.keys)
        while self.bytes > self.max_bytes:
            _, segment = self._segments.popitem(last=False)
            self.bytes -= segment.bytes
            self.evictions += 1

    def clear(self) -> None:
        self.evictions += len(self._segments)
        self._segments.clear()
        self.bytes = 0

    def _use(self, keys: Sequence[bytes]) -> list[Segment]:
        # From the end: a segment is then always fresher than those that continue it, so that they go before it.
        for key in reversed(keys):
            self._segments.move_to_end(key)
        return [self._segments[key] for key in keys]
