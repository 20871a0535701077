"""A few threads: the order of what they make, whose error is raised, and when they end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from preprocess.threads import ALONE, MOST, Threads

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("items", [0, 1, 2, 9])
def test_results_have_the_order_of_the_items(count: int, items: int) -> None:
    def square(item: int) -> int:
        time.sleep(0.002 * (items - item))
        return item * item

    assert Threads(count).map(square, range(items)) == [item * item for item in range(items)]


def test_all_threads_work_the_calling_one_among_them() -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(_: int) -> int:
        together.wait()
        return threading.get_ident()

    seen = Threads(3).map(meet, range(3))
    assert len(set(seen)) == 3
    assert threading.get_ident() in seen


def test_alone_is_the_calling_thread() -> None:
    assert set(ALONE.map(lambda _: threading.get_ident(), range(3))) == {threading.get_ident()}


@pytest.mark.parametrize("first", range(4))
def test_the_error_of_the_first_wrong_item_is_raised_once_nothing_runs(first: int) -> None:
    started, ended = [], []

    def wrong(item: int) -> None:
        started.append(item)
        # The first wrong one is the last to say so.
        time.sleep(0.05 if item == first else 0)
        ended.append(item)
        if item >= first:
            raise ValueError(item)

    with pytest.raises(ValueError, match=f"^{first}$"):
        Threads(3).map(wrong, range(6))
    assert sorted(started) == sorted(ended)
    assert set(ended) >= set(range(first + 1))


def test_the_same_threads_work_again_and_end_with_their_owner() -> None:
    others = set(threading.enumerate())
    threads = Threads(4)
    assert set(threading.enumerate()) <= others, "started before there was work"
    for _ in range(20):
        threads.map(lambda _: time.sleep(0.001), range(8))
    own = set(threading.enumerate()) - others
    assert 1 <= len(own) <= 3
    del threads
    for thread in own:
        thread.join(20)
        assert not thread.is_alive()


def test_a_process_ends_with_its_threads() -> None:
    script = "from preprocess.threads import Threads; import time; t = Threads(4); t.map(time.sleep, [0.01] * 8)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=30, check=True)


@pytest.mark.parametrize(("processors", "count"), [(1, 1), (2, 2), (64, MOST)])
def test_as_many_as_this_process_may_use(monkeypatch: pytest.MonkeyPatch, processors: int, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(7, 7 + processors)))
    assert Threads().count == count


def test_what_a_wrong_call_held_is_gone_with_its_error() -> None:
    class Picture:
        pass

    held: list[weakref.ref[Picture]] = []

    def wrong(_: int) -> None:
        picture = Picture()
        held.append(weakref.ref(picture))
        raise ValueError(picture)

    gc.disable()
    try:
        with pytest.raises(ValueError, match="Picture"):
            Threads(2).map(wrong, range(2))
        assert held and [each() for each in held] == [None] * len(held)
    finally:
        gc.enable()
