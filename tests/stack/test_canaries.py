"""Hundreds of requests at once, each with ids, options and a state of its own: none gets another's answer."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.invariants import assert_close
from tests.stack.load import canary, counted, post_all

CANARIES = 200


def numbers_in(answers: dict[str, Any]) -> str:
    """What the model made of a request, without its ids."""
    return json.dumps(
        [answer["noul"] if "noul" in answer else [*answer["probabilities"].values()] for answer in answers.values()]
    )


async def test_no_answer_goes_to_another(stack):
    numbers = list(range(CANARIES))
    seen: list[dict[int, dict[str, Any]]] = []
    for seed in range(2):
        random.Random(seed).shuffle(numbers)
        outcomes = await post_all(stack.frontend, map(canary, numbers), clients=CANARIES)
        assert counted(outcomes) == {200: CANARIES}
        seen.append({number: outcome.answer() for number, outcome in zip(numbers, outcomes, strict=True)})
    # Scores that went astray within the model would differ from one order to the other.
    assert len({numbers_in(answers) for answers in seen[0].values()}) > CANARIES * 0.9, "too much alike to tell"
    for number in numbers:
        assert_close(seen[0][number], seen[1][number])
