from __future__ import annotations

import pytest

from preprocess.plan import Plan, PlannedQuestion, Truncated

QUESTIONS = (
    PlannedQuestion('é q"\n', "choice", ("10", "2", "b"), (2, 0, 1)),
    PlannedQuestion("s", "score", ("0", "1"), (0, 1), ("low", {"z": 1.0, "a": ["é"]})),
    PlannedQuestion("n", "noul", ("true", "false"), (0, 1)),
)


@pytest.mark.parametrize("truncated", [None, Truncated(kept=5, dropped=7)])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_plan_survives_json(truncated: Truncated | None, encoded: bool) -> None:
    plan = Plan("clef", QUESTIONS, tokens=12, truncated=truncated, confidence="typesafe", digits=6)
    text = plan.to_json()
    assert Plan.from_json(text.encode() if encoded else text) == plan


def test_a_legends_keys_keep_their_order() -> None:
    plan = Plan("clef", QUESTIONS, tokens=1, truncated=None, confidence="top", digits=4)
    legend = Plan.from_json(plan.to_json()).questions[1].legend
    assert legend is not None and list(legend[1]) == ["z", "a"]
