"""Resident memory of every process over 2,000 mixed requests, on the development release, and what a start takes.

Requests of every kind and length, a tenth with pictures, from 16 callers. Memory is read every 100 requests; flat means
that the most of the last quarter is no more than the most of the quarter before it, give or take a little.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any

from perf import load_data
from perf.client import Caller
from perf.load_data import Request
from perf.side_by_side import table
from perf.stack import DEV_RELEASE, stack

TITLE = "Memory over 2,000 mixed requests, and the start"
REQUESTS = 2_000
QUICK_REQUESTS = 100
READINGS = 20
CALLERS = 16
LONGEST_WORDS = 1_000
MOST_QUESTIONS = 20
PICTURES = 0.1
FLAT_MIB = 16.0
START_S, STEP_MIB, STACK_MIB = 25.0, 200.0, 3072.0
PICTURE_SIDE = 320
STATE_CACHE_BYTES = 64 * 2**20


def measure(quick: bool) -> dict[str, Any]:
    """`readings`: resident MiB by process, first before any request; `start_s`."""
    count = QUICK_REQUESTS if quick else REQUESTS
    chance = random.Random(0)
    connections = local()
    settings = {"CLEF_STATE_CACHE_BYTES": f"{STATE_CACHE_BYTES}", "SYSTEMONE_REQUEST_TIMEOUT_MS": "300000"}
    with stack(settings, release=DEV_RELEASE) as running, ThreadPoolExecutor(CALLERS) as pool:

        def one(request: Request) -> None:
            if not hasattr(connections, "caller"):
                connections.caller = Caller(running.http)
            connections.caller.ask(load_data.body(request))

        readings = [running.resident_mib()]
        for _ in range(READINGS):
            list(pool.map(one, [any_request(chance) for _ in range(count // READINGS)]))
            readings.append(running.resident_mib())
        return {"requests": count, "start_s": running.start_s, "readings": readings}


def any_request(chance: random.Random) -> Request:
    """From a word to a thousand, from one question to twenty, fewer of the large ones; some with a picture."""
    words = round(LONGEST_WORDS ** chance.random())
    request = load_data.with_questions(round(MOST_QUESTIONS ** chance.random()), chance)
    if chance.random() < PICTURES:
        request |= {"images": load_data.with_images(1, PICTURE_SIDE, chance)["images"]}
    return request | {"state": load_data.text(words, chance)}


def growth(readings: list[float]) -> float:
    """MiB by which the most of the last quarter exceeds the most of the quarter before it."""
    quarter = max(1, len(readings) // 4)
    return max(readings[-quarter:]) - max(readings[-2 * quarter : -quarter])


def report(data: dict[str, Any]) -> str:
    readings = [{**reading, "the whole stack": sum(reading.values())} for reading in data["readings"]]
    columns = ("process", "after the start, MiB", "half way, MiB", "at the end, MiB", "growth in the last quarter, MiB")
    cells = [
        (
            name,
            readings[0][name],
            readings[len(readings) // 2][name],
            readings[-1][name],
            f"{growth([reading[name] for reading in readings]):+.1f}",
        )
        for name in readings[0]
    ]
    return (
        f"{data['requests']} requests. From the start of the processes to the first warm answer: "
        f"**{data['start_s']:.1f} s** (under {START_S:.0f} asked). Asked: preprocess and postprocess under "
        f"{STEP_MIB:.0f} MiB, the whole under {STACK_MIB:.0f} MiB, and flat: within {FLAT_MIB:.0f} MiB.\n\n"
        f"{table(columns, cells)}"
    )
