"""What JSON says once and can be written back is taken; anything else is a clear 4xx that repeats nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preprocess.errors import InvalidJson, InvalidRequest, ServiceError, ValidationFailed
from preprocess.strict_json import MAX_DEPTH, parse_json


def nested(levels: int, opening: str = "[", closing: str = "]", core: str = "") -> bytes:
    return (opening * levels + core + closing * levels).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 01}',
        b'{"a": +1}',
        b'{"a": "\n"}',
        b'{"a": "\\x"}',
        b'{"a": secret}',
        b'{"a": 1} secret',
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b"{}\xef\xbb\xbf",
        b"state=secret",
    ],
)
def test_what_does_not_parse_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse_json(body)
    assert caught.value.status == 422
    assert "secret" not in caught.value.to_json()


@pytest.mark.parametrize(
    "body",
    [
        "{}".encode("utf-16"),
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\xc0\x80"}',
        b'{"secret": NaN}',
        b"NaN",
        b"[Infinity]",
        b'{"a": -Infinity}',
        b'{"a": 1e400}',
        b"[-1e400]",
        b"[" + b"9" * 400 + b".0]",
        b"[" + b"9" * 5_000 + b"]",
        b'{"secret": -' + b"9" * 5_000 + b"}",
        rb'{"a": "secret \ud800"}',
        rb'{"a": "\udc00\ud800"}',
        rb'["\ud83d\u0041"]',
        rb'{"\uDFFF": 1}',
        rb'[[{"a": ["\\\ud800"]}]]',
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_json(body)
    assert caught.value.status == 400
    assert "secret" not in caught.value.to_json()


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"a": 1, "b": 2, "a": 1}', ["a"]),
        (b'{"state": {"x": [0, {"k": "secret", "k": "secret"}]}}', ["state", "x", 1, "k"]),
        (b'[{"a": {"a": 1}}, {"": 1, "": 2}]', [1, ""]),
        (rb'{"caf\u00e9": 1, "caf' + "é".encode() + b'": 2}', ["café"]),
        (b'{"' + b"k" * 1_000 + b'": 1, "' + b"k" * 1_000 + b'": 2}', ["k" * 59 + "…"]),
    ],
)
def test_a_repeated_key_is_refused_with_its_place(body: bytes, place: list[str | int]) -> None:
    with pytest.raises(ValidationFailed) as caught:
        parse_json(body)
    assert caught.value.detail[0]["loc"] == ["body", *place]
    assert "secret" not in caught.value.to_json()


def test_keys_that_differ_in_normal_form_or_case_are_not_repeated() -> None:
    assert len(parse_json('{"café": 1, "cafe\u0301": 2, "Café": 3, " café": 4}'.encode())) == 4


@pytest.mark.parametrize(
    ("opening", "closing", "core"), [("[", "]", ""), ('{"k":', "}", "1"), ('[{"k":', "}]", '"[[[{{{"')]
)
def test_nesting_is_taken_to_its_limit_and_no_further(opening: str, closing: str, core: str) -> None:
    per_unit = opening.count("[") + opening.count("{")
    units = MAX_DEPTH // per_unit

    def state(levels: int) -> bytes:
        return b'{"model": [], "state": ' + nested(levels, opening, closing, core) + b"}"

    assert parse_json(state(units))["state"]
    with pytest.raises(ValidationFailed) as caught:
        parse_json(state(units + 1))
    assert caught.value.detail[0]["loc"] == ["body", "state"]
    assert caught.value.detail[0]["type"] == "too_deep"


@pytest.mark.parametrize("levels", [260, 5_000, 100_000])
@pytest.mark.parametrize(
    ("opening", "closing", "core"), [("[", "]", ""), ('{"k":', "}", "1"), ("[", "", ""), ('{"k":', "", "")]
)
def test_deep_nesting_never_ends_the_process(levels: int, opening: str, closing: str, core: str) -> None:
    body = b'{"state": ' + nested(levels, opening, closing, core) + b"}"
    with pytest.raises((ValidationFailed, InvalidRequest)) as caught:
        parse_json(body)
    assert len(caught.value.to_json()) < 4_000
    if closing:
        assert caught.value.status == 422


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert len(parse_json(b"[" + b"[[[]]]," * 10_000 + b"1]")) == 10_001


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"null", None),
        (b' "\\u0000\\ud83d\\ude00" ', "\0😀"),
        (rb'"\\ud800"', r"\ud800"),
        (b"[1250.0, 1e22, -0.0, 5e-324, 1E2]", [1250.0, 1e22, -0.0, 5e-324, 100.0]),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"9" * 4_000, int("9" * 4_000)),
    ],
)
def test_values_keep_pythons_spelling(body: bytes, value: Any) -> None:
    assert repr(parse_json(body)) == repr(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.booleans())
def test_what_python_writes_is_read_back_in_order(value: Any, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert json.dumps(parse_json(body)) == json.dumps(value)


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:\\u0123456789dDeE+-.ntrufalsNI ').map(str.encode))
def test_any_bytes_give_a_value_or_a_clear_refusal(body: bytes) -> None:
    try:
        value = parse_json(body)
    except (InvalidRequest, ValidationFailed) as error:
        assert error.status in (400, 422)
    else:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("value", [{}, [1.0], {"a": "\ufeff"}, "\ufeffb"])
def test_a_byte_order_mark_before_the_json_is_no_part_of_it(value: Any) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(value, ensure_ascii=False).encode()
    assert parse_json(body) == value


@pytest.mark.parametrize(
    ("behind", "status"),
    [("}7", 422), (',"b":}', 422), (',"b":' + "[" * 100_000, 422), (',"b":' + "9" * 5_000 + "}", 400)],
)
def test_what_is_wrong_behind_a_repeated_key_is_no_failure_of_ours(behind: str, status: int) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_json(('{"a":1,"a":2' + behind).encode())
    assert caught.value.status == status
