"""Independent records: one a question, which know nothing of one another."""

from __future__ import annotations

from typing import Any

from preprocess import prompt
from tests.golden_cases import CASES
from tests.preprocess.checks import per_record
from tests.preprocess.encoding import (
    BODY,
    Encoders,
    encode,
    state_tokens,
)


def test_independent_records_are_one_a_question(encoders: Encoders) -> None:
    body = CASES["three-types"]["request"]
    encoder = encoders["literal"]
    records = per_record(encode(encoder, body, semantics="independent"))
    assert [record["question_types"] for record in records] == [[1], [2], [0]]
    for record, question in zip(records, body["questions"].values(), strict=True):
        alone = encode(encoder, body | {"questions": {prompt.NEUTRAL_ID: question}})
        assert record == per_record(alone)[0]


def test_independent_records_do_not_know_their_ids_or_neighbours(encoders: Encoders) -> None:
    body = CASES["three-types"]["request"]
    encoder = encoders["literal"]
    renamed = {f"other {name}": question for name, question in reversed(body["questions"].items())}
    renamed["new"] = {"type": "noul", "instructions": "x" * 500}
    records = per_record(encode(encoder, body, semantics="independent"))
    others = per_record(encode(encoder, body | {"questions": renamed}, semantics="independent"))
    assert records == others[2::-1]


def test_an_id_still_stands_in_for_missing_instructions(encoders: Encoders) -> None:
    def record(name: str, **question: Any) -> dict[str, Any]:
        questions = {name: {"type": "noul"} | question}
        return per_record(encode(encoders["literal"], BODY | {"questions": questions}, semantics="independent"))[0]

    assert record("Is it red?") == record("other", instructions="Is it red?")
    assert record("Is it red?") != record("Is it blue?")


def test_each_independent_record_keeps_as_much_state_as_it_can(encoders: Encoders) -> None:
    short, long = {"type": "noul", "instructions": "x"}, {"type": "noul", "instructions": "x " * 50}
    encoder = encoders["literal"]
    options: dict[str, Any] = {"semantics": "independent", "overflow": "truncate", "max_length": 400}
    body = BODY | {"state": "state " * 300}
    together = encode(encoder, body | {"questions": {"a": short, "b": long}}, **options)
    alone = encode(encoder, body | {"questions": {"b": short}}, **options)
    assert together.records[:, 0].tolist() == [400, 400]
    assert per_record(together)[0] == per_record(alone)[0]
    assert together.truncated is not None and alone.truncated is not None
    assert together.truncated.kept < alone.truncated.kept
    assert state_tokens(together.truncated) == state_tokens(alone.truncated)
