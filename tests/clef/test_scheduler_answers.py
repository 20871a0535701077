"""The answers themselves, with the real model."""

from __future__ import annotations

import random
import threading
import time

import numpy as np

from clef.model import ClefModel
from clef.settings import ModelSettings
from tests.clef.desk import Answer, Desk
from tests.clef.golden_records import SHORT_CASES, expected, record
from tests.golden_cases import tolerance


def test_eight_threads_get_each_of_their_answers_once(model: ClefModel, settings: ModelSettings) -> None:
    desk = Desk(model, settings)

    def submit(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(6):
            names = chance.choices(SHORT_CASES, k=chance.choice([1, 1, 1, 3]))
            asked.append((names, desk.ask(*(record(name) for name in names))))
            time.sleep(chance.random() * 0.01)

    asked: list[tuple[list[str], Answer]] = []
    threads = [threading.Thread(target=submit, args=[seed]) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.close()
    assert len(asked) == 48
    for names, answer in asked:
        wanted = np.concatenate([expected(name) for name in names])
        atol = max(tolerance(name) for name in names)
        np.testing.assert_allclose(answer.scores().logits, wanted, atol=atol, rtol=0)
    assert max(answer.scores().batch_size for _, answer in asked) > 1
