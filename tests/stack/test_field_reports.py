"""What broke servers like this one in the field, on the real stack, by the numbers of the list of field reports.

Here are O05, O06, O07, O10, O12, O14, O22 (the last step), O23 and O24. O15 is in `test_batching.py`, more of O24 in
`test_errors.py` and `test_golden.py`. The others need no model and are in `tests/frontend/test_field_reports.py`, over
the real first and last step: O01 to O04, O08, O09, O11, O13, O21 (over sockets in `tests/frontend/test_main.py`), O22.
"""

from __future__ import annotations

import base64
import json
import random
import struct
import time
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc
from PIL import Image
from tritonclient.utils import InferenceServerException

from preprocess.errors import ServiceError
from preprocess.tokenizer import Tokenizer, Vocabulary
from tests.golden_cases import CASES, REFERENCE_MODE, RELEASE
from tests.invariants import assert_answer
from tests.stack.running import ask, bytes_input, response_of

MIB = 1024 * 1024
NOUL = {"q": {"type": "noul", "instructions": "Is a service down?"}}
WORDS = ["late", "refund", "パケット", "ünïcode", "Is it?", "10", "a\nb", "{}", "🙂", "the parcel", "no", "5 stars"]


def posted(http, request: dict[str, Any]) -> dict[str, Any]:
    answer = http.post("/v1/systemone", json=request)
    assert answer.status_code == 200, answer.text
    assert_answer(request, answer.json())
    return answer.json()


def choice(options: int) -> dict[str, Any]:
    criteria = dict.fromkeys(f"o{index}" for index in range(options))
    return {"state": "x", "questions": {"q": {"type": "choice", "instructions": "Which?", "criteria": criteria}}}


def score(levels: int) -> dict[str, Any]:
    criteria = [f"Level {index} of ünïcode" for index in range(levels)]
    return {"state": "x", "questions": {"q": {"type": "score", "instructions": "How?", "criteria": criteria}}}


def test_o05_options(http):
    answer = posted(http, choice(255))["answers"]["q"]
    assert len(answer["probabilities"]) == 255
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-3 + 255 * 0.5e-4)
    assert posted(http, choice(1))["answers"]["q"] == {
        "type": "choice",
        "choice": "o0",
        "confidence": 1.0,
        "probabilities": {"o0": 1.0},
    }
    for options in (0, 256):
        assert http.post("/v1/systemone", json=choice(options)).status_code == 422


def test_o06_levels(http):
    for levels in (1, 2, 10):
        answer = posted(http, score(levels))["answers"]["q"]
        assert list(answer["legend"].values()) == score(levels)["questions"]["q"]["criteria"]
        assert (levels > 1) or (answer["score"], answer["confidence"]) == (0.0, 1.0)
    for levels in (0, 11):
        assert http.post("/v1/systemone", json=score(levels)).status_code == 422


class Schemas:
    """Random requests, the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def request(self) -> dict[str, Any]:
        questions = {f"{self._word()} {index}": self._question() for index in range(self._random.choice([1, 1, 2]))}
        return {"state": self._value(), "questions": questions}

    def _question(self) -> dict[str, Any]:
        kind = self._random.choice(["noul", "choice", "score"])
        question: dict[str, Any] = {"type": kind}
        if self._random.random() < 0.7:
            question["instructions"] = self._word()
        if kind == "choice":
            names = self._random.sample([*WORDS, "Yes", "yes", "2", " yes", "1"], self._random.randint(1, 4))
            question["criteria"] = {name: self._random.choice([None, self._word(), [1, "x"]]) for name in names}
        if kind == "score":
            question["criteria"] = [self._word() for _ in range(self._random.randint(1, 4))]
        return question

    def _value(self) -> Any:
        return self._random.choice([None, 0, -0.5, "", self._word(), [self._word()], {self._word(): self._word()}])

    def _word(self) -> str:
        return self._random.choice(WORDS)


def test_o07_what_holds_for_every_answer(http):
    schemas = Schemas()
    requests = [schemas.request() for _ in range(500)]
    for start in range(0, len(requests), 32):
        asked = requests[start : start + 32]
        answers = http.post("/v1/systemone/batch", json=asked).json()
        assert [answer.pop("status") for answer in answers] == [200] * len(asked)
        for request, response in zip(asked, answers, strict=True):
            assert_answer(request, response)
            for answer in response["answers"].values():
                if answer["type"] == "noul":
                    continue
                values = answer["probabilities"]
                assert answer["confidence"] == max(values.values())
                if answer["type"] == "choice":
                    assert answer["choice"] == max(values, key=values.__getitem__), "the first on ties"


def test_o10_a_schema_over_the_context_costs_the_model_nothing(stack, http):
    criteria = {f"option {index}": f"{index} thirty words to say of it " * 4 for index in range(255)}
    question = {"type": "choice", "instructions": "Which?", "criteria": criteria}
    body = json.dumps({"state": "x", "questions": {f"q{index}": question for index in range(64)}}).encode()
    waits = []
    for attempt in range(2):
        start = time.monotonic()
        answer = http.post("/v1/systemone", content=body, headers={"x-request-id": f"o10-{attempt}"})
        waits.append(time.monotonic() - start)
        assert answer.status_code == 413
        assert "16384 are allowed" in answer.json()["detail"]["message"]
        assert [line["logger"] for line in stack.lines(f"o10-{attempt}")] == ["clef_preprocess"]
    assert min(waits) < 2


def png(width: int, height: int, bits: int, rows: bytes) -> bytes:
    """A grey PNG of these rows, each with its filter byte."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def data_url(file: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(file).decode()}"


def most_memory(process: psutil.Process) -> int:
    """Bytes that a process has ever held at once."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("side", [10_000, 20_000])
def test_o12_a_bomb_is_refused_by_its_header(stack, http, grpc, side):
    bomb = png(side, side, 1, bytes((side // 8 + 1) * side))
    assert len(bomb) < 60_000
    stub = stack.stub("clef_preprocess")
    before = most_memory(stub)
    answer = http.post("/v1/systemone", json={"state": "x", "questions": NOUL, "images": [data_url(bomb)]})
    assert answer.status_code == 413
    assert str(side * side) in answer.json()["detail"]["message"]
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, {"state": "x", "questions": NOUL}, images=[bomb])
    assert ServiceError.from_json(caught.value.message()).status == 413
    assert most_memory(stub) - before < 100 * MIB


def grey(levels: np.ndarray, bits: int) -> str:
    """A picture of 64 rows of these levels, each from 0 to 1."""
    row = (levels * (2**bits - 1)).round().astype(">u2" if bits == 16 else ">u1").tobytes()
    return data_url(png(len(levels), 64, bits, (b"\x00" + row) * 64))


def probabilities(grpc, image: str) -> np.ndarray:
    request = CASES["three-types"]["request"] | {"state": "x", "images": [image]}
    return ask(grpc, request).as_numpy("PROBABILITIES")[0]


def test_o14_sixteen_bits_read_as_eight(grpc):
    ramp, middle, white = np.linspace(0, 1, 256), np.full(256, 0.5), np.ones(256)
    for levels in (ramp, middle):
        assert np.abs(probabilities(grpc, grey(levels, 16)) - probabilities(grpc, grey(levels, 8))).max() <= 0.02
    apart = np.abs(probabilities(grpc, grey(middle, 16)) - probabilities(grpc, grey(white, 16))).max()
    same = np.abs(probabilities(grpc, grey(middle, 16)) - probabilities(grpc, grey(middle, 8))).max()
    assert apart > 10 * same, "a mid-grey reads as white"


def test_o22_a_failure_of_the_last_step_stays_inside(stack, grpc):
    plan = preprocessed(grpc, {"state": "swordfish", "questions": NOUL}).as_numpy("PLAN")[0, 0]
    logits = triton_grpc.InferInput("LOGITS", [1, 2], "FP32")
    logits.set_data_from_numpy(np.full((1, 2), np.nan, dtype=np.float32))
    with pytest.raises(InferenceServerException) as caught:
        grpc.infer("clef_postprocess", [bytes_input("PLAN", [plan]), logits], request_id="o22")
    text = caught.value.message()
    assert ServiceError.from_json(text).status == 500
    assert not any(inside in text for inside in (".py", "Traceback", "shm", "logits", "swordfish"))
    [line] = stack.lines("o22")
    assert (line["logger"], line["level"], line["exception"]) == ("clef_postprocess", "error", "ValueError")
    assert any("postprocess/answers.py" in place for place in line["at"])


def preprocessed(grpc: triton_grpc.InferenceServerClient, request: dict[str, Any], **parameters: Any):
    """What the first step makes of a request, by itself."""
    body = bytes_input("REQUEST", [json.dumps(request, ensure_ascii=False).encode()])
    return grpc.infer("clef_preprocess", [body], parameters=parameters)


TEXTS = {"NULs": "abc\x00\x00", "only NULs": "\x00\x00", "nothing": "", "a megabyte of emoji": "🙂" * (MIB // 4)}


@pytest.mark.parametrize("name", TEXTS)
def test_o23_text_comes_to_the_tokenizer_as_it_was_sent(grpc, name):
    text = TEXTS[name]
    tokenizer = Tokenizer(Vocabulary.load(RELEASE), "literal")
    expected = tokenizer.encode(text)
    tensors = preprocessed(grpc, {"state": text, "questions": NOUL}, overflow="truncate")
    start, end = len(tokenizer.prefix), int(tensors.as_numpy("RECORDS")[0, 0, 2])
    state = tensors.as_numpy("INPUT_IDS")[0, start:end].tolist()
    assert state == expected[: len(state)]
    truncated = json.loads(tensors.as_numpy("PLAN")[0, 0])["truncated"]
    assert len(state) + (truncated["dropped"] if truncated else 0) == len(expected)


def test_o23_files_of_a_tensor_keep_their_last_zeros(http, grpc):
    file = BytesIO()
    Image.effect_noise((64, 64), 80).convert("RGB").save(file, "png")
    # Nothing of a PNG may be lost: it ends in a checksum, and bytes behind that are not read.
    ended = file.getvalue() + bytes(3)
    inline = posted(http, {"state": "x", "questions": NOUL, "images": [data_url(ended)]})
    assert response_of(ask(grpc, {"state": "x", "questions": NOUL}, [ended, file.getvalue()]))["answers"]
    assert response_of(ask(grpc, {"state": "x", "questions": NOUL}, [ended])) == inline


SMALL = sorted(
    (name for name in CASES if name != REFERENCE_MODE),
    key=lambda name: CASES[name]["reference"]["response"]["usage"]["input_tokens"],
)[:8]


@pytest.mark.parametrize("name", [*SMALL, "two-images"])
def test_o24_a_gateway_and_the_ensemble_give_the_same_bytes(http, grpc, name):
    body = json.dumps(CASES[name]["request"], ensure_ascii=False).encode()
    answer = http.post("/v1/systemone", content=body)
    assert answer.status_code == 200
    assert answer.content == ask(grpc, body).as_numpy("RESPONSE")[0, 0]


def test_o24_the_order_is_the_requests(http, grpc):
    criteria = {"b": "x", "10": "y", "2": "z", "a": None}
    request = {"state": 1, "questions": {name: {"type": "choice", "criteria": criteria} for name in ("9", "1")}}
    answer = posted(http, request)
    for response in (answer, response_of(ask(grpc, request))):
        assert list(response["answers"]) == ["9", "1"]
        assert list(response["answers"]["9"]["probabilities"]) == ["b", "10", "2", "a"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","state":NaN}',
        b'{"state":1e400,"questions":{"q":{"type":"noul"}}}',
        b'{"state":"bad \\ud800 text","questions":{"q":{"type":"noul"}}}',
        b'{"state":1,"questions":{"q":{"type":"noul"}},"images":["data:image/png;base64,@@"]}',
        b"",
    ],
)
def test_o24_the_same_refusal(http, grpc, body):
    answer = http.post("/v1/systemone", content=body)
    with pytest.raises(InferenceServerException) as caught:
        ask(grpc, body)
    error = ServiceError.from_json(caught.value.message())
    assert 400 <= error.status < 500
    assert (answer.status_code, answer.json()) == (error.status, {"detail": error.detail})
