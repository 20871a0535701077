from __future__ import annotations

from preprocess.lru import Lru


def test_the_entry_that_was_used_longest_ago_goes_first() -> None:
    cache: Lru[str, int] = Lru(max_entries=2, max_weight=100)
    cache.put("a", 1, weight=1)
    cache.put("b", 2, weight=1)
    assert cache.get("a") == 1
    cache.put("c", 3, weight=1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_the_weight_is_bounded_too() -> None:
    cache: Lru[str, int] = Lru(max_entries=100, max_weight=10)
    for key in "abc":
        cache.put(key, 0, weight=4)
    assert (len(cache), cache.weight) == (2, 8)
    assert cache.get("a") is None
    cache.put("d", 0, weight=10)
    assert (len(cache), cache.weight) == (1, 10)


def test_what_is_heavier_than_the_bound_pushes_nothing_out() -> None:
    cache: Lru[str, int] = Lru(max_entries=2, max_weight=10)
    cache.put("a", 1, weight=1)
    cache.put("b", 2, weight=11)
    assert (cache.get("a"), cache.get("b"), cache.weight) == (1, None, 1)


def test_no_entries_means_no_cache() -> None:
    cache: Lru[str, int] = Lru(max_entries=0, max_weight=0)
    cache.put("a", 1, weight=0)
    assert cache.get("a") is None
