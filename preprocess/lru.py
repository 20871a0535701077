"""A least-recently-used cache, bounded by its number of entries and by their weight together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Not for several threads at once. A weight over the whole bound is not kept at all."""

    def __init__(self, max_entries: int, max_weight: int) -> None:
        self.max_entries = max_entries
        self.max_weight = max_weight
        self.weight = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which is now the last to go; None where there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep `value` under a key that `get` did not find."""
        if weight > self.max_weight:
            return
        self._entries[key] = (value, weight)
        self.weight += weight
        while len(self._entries) > self.max_entries or self.weight > self.max_weight:
            _, (_, gone) = self._entries.popitem(last=False)
            self.weight -= gone
