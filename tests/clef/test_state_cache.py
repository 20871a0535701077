from __future__ import annotations

import random

import torch

from clef.prefix import Prefix
from clef.state_cache import Segment, StateCache
from tests.clef.test_prefix import of

SPACING = 8
EACH = 3 * 4 * 10


def segment() -> Segment:
    part = torch.zeros(1, 10)
    return Segment([(part, part)], part)


def segments(prefix: Prefix) -> list[Segment]:
    return [segment() for _ in prefix.keys]


def put(cache: StateCache, prefix: Prefix) -> None:
    found = cache.find(prefix)
    cache.put(prefix, [*found, *segments(prefix)[len(found) :]])


def test_the_longest_boundary_is_found() -> None:
    cache = StateCache(100 * EACH)
    old, grown, other = of([1] * 20), of([1] * 30), of([1] * 10 + [2] * 10)
    assert cache.find(old) == [] and old not in cache
    put(cache, old)
    assert old in cache and len(cache.find(old)) == 3
    assert cache.find(grown) == cache.find(old)[:2] and grown not in cache
    assert cache.find(other) == cache.find(old)[:1]
    assert cache.find(of([2] * 20)) == []


def test_what_begins_alike_is_kept_once() -> None:
    cache = StateCache(100 * EACH)
    put(cache, of([1] * 20))
    put(cache, of([1] * 30))
    assert cache.bytes == (3 + 2) * EACH


def test_the_least_recently_used_goes_first() -> None:
    cache = StateCache(3 * EACH)
    one, two, three, four = (of([number] * SPACING) for number in range(4))
    for prefix in (one, two, three):
        put(cache, prefix)
    cache.find(one)
    put(cache, four)
    assert [prefix in cache for prefix in (one, two, three, four)] == [True, False, True, True]
    assert cache.evictions == 1 and cache.bytes == 3 * EACH


def test_a_segment_outlives_all_that_continue_it() -> None:
    """Whatever is evicted, what is left of a prefix is a whole beginning, and the bytes are those that are held."""
    chance, cache = random.Random(0), StateCache(12 * EACH)
    for _ in range(500):
        ids = [chance.randint(0, 1)] * 8 + [chance.randint(0, 1)] * 8 + [chance.randint(0, 2)] * chance.randint(1, 20)
        put(cache, of(ids))
        held = cache._segments
        assert cache.bytes == sum(part.bytes for part in held.values()) <= cache.max_bytes
        assert of(ids) in cache
        for beginning in range(2):
            kept = [key in held for key in of([beginning] * 8 + [1] * 8 + [2] * 20).keys]
            assert kept == sorted(kept, reverse=True)
    assert cache.evictions > 100


def test_a_cleared_cache_holds_nothing() -> None:
    cache = StateCache(100 * EACH)
    put(cache, of([1] * 20))
    cache.clear()
    assert cache.bytes == 0 and cache.evictions == 3 and cache.find(of([1] * 20)) == []


def test_a_cache_of_no_bytes_keeps_nothing() -> None:
    cache = StateCache(0)
    put(cache, of([1] * 20))
    assert cache.bytes == 0 and of([1] * 20) not in cache
