"""Loading a model and warming it up, in a thread that ends with it.

OpenMP gives each thread that computes a team of threads of its own, which lives as long as that thread. Where the teams
together have more threads than the machine has cores, all of them sleep at every barrier in place of spinning: with a
team left behind by the loading, a micro-batch took three times as long on two cores.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from clef.model import ClefModel
from clef.settings import ModelSettings


def start(settings: ModelSettings, device: str) -> tuple[ClefModel, float]:
    """The model, warm, and the seconds that its warm-up took. Raises ReleaseError."""
    with ThreadPoolExecutor(1, "clef-start") as thread:
        return thread.submit(_start, settings, device).result()


def _start(settings: ModelSettings, device: str) -> tuple[ClefModel, float]:
    model = ClefModel.load(settings, device)
    loaded = time.monotonic()
    model.warm_up()
    return model, time.monotonic() - loaded
