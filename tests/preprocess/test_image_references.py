"""Data URLs and base64 become bytes; everything that would have to be fetched or opened is refused."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preprocess.errors import RequestTooLarge, ServiceError, ValidationFailed
from preprocess.image_references import decode_reference
from preprocess.settings import Settings
from tests.golden_cases import RELEASE

DATA = bytes(range(256)) * 3
BASE64 = base64.b64encode(DATA).decode()


@pytest.mark.parametrize(
    "reference",
    [
        BASE64,
        f"data:image/png;base64,{BASE64}",
        f"data:image/jpeg;base64,{BASE64}",
        f"data:;base64,{BASE64}",
        f"DATA:IMAGE/PNG;BASE64,{BASE64}",
        f"data:image/png;charset=x;base64,{BASE64}",
        f"data:image/png;base64, {BASE64[:100]}\r\n{BASE64[100:]}\n",
        f" {BASE64[:76]}\n{BASE64[76:]}\n",
    ],
)
def test_the_forms_of_an_image(settings: Settings, reference: str) -> None:
    assert decode_reference(reference, 0, settings) == DATA


@pytest.fixture
def nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError("something was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr("io.open", refuse)


@pytest.mark.usefixtures("nothing_is_opened")
@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:8000/v2/health/ready",
        "https://example.com/secret.png",
        "HTTP://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "ftp://secret/x.png",
        "//secret/x.png",
        "/etc/passwd",
        "/etc/hostname",
        "./secret.png",
        "../secret.png",
        "C:\\secret.png",
        "~/secret.png",
        "secret.png",
        str(RELEASE / "tokenizer.json"),
    ],
)
def test_urls_and_paths_are_refused_and_never_opened(settings: Settings, reference: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        decode_reference(reference, 2, settings)
    (issue,) = caught.value.detail
    assert issue["loc"] == ["body", "images", 2]
    assert "URLs and paths are never opened" in issue["msg"]
    assert "secret" not in caught.value.to_json()


@pytest.mark.parametrize(
    "reference",
    [
        "data:image/png;base64",
        "data:image/png;base64,@@",
        "data:image/png,secret",
        "data:image/svg+xml,<svg/>",
        "data:,",
        "data:",
        "A",
        "AA",
        "AAA",
        "AA=A",
        "====",
        "AAA=AAAA",
        "A-_A",
        "é",
        "secret!",
    ],
)
def test_what_is_no_base64_is_refused(settings: Settings, reference: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        decode_reference(reference, 1, settings)
    assert caught.value.detail[0]["loc"] == ["body", "images", 1]
    assert "secret" not in caught.value.to_json()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
def test_an_image_has_its_limit_of_bytes_and_no_more(settings: Settings, size: int) -> None:
    reference = f"data:image/png;base64,{base64.b64encode(bytes(size)).decode()}"
    at_limit = settings.model_copy(update={"max_image_bytes": size})
    assert decode_reference(reference, 0, at_limit) == bytes(size)
    if size > 1:
        past = settings.model_copy(update={"max_image_bytes": size - 1})
        with pytest.raises(RequestTooLarge, match=rf"images\[3\] has {size} bytes; {size - 1} are allowed"):
            decode_reference(reference, 3, past)


def test_the_contracts_limit_of_bytes(settings: Settings) -> None:
    assert len(decode_reference(base64.b64encode(bytes(4 << 20)).decode(), 0, settings)) == 4 << 20
    with pytest.raises(RequestTooLarge, match="4194305 bytes; 4194304 are allowed"):
        decode_reference(base64.b64encode(bytes((4 << 20) + 1)).decode(), 0, settings)


@given(st.text(max_size=40) | st.text(alphabet="ABC+/= \n,:;data", max_size=60).map("data:".__add__))
def test_any_text_gives_bytes_or_a_clear_refusal(reference: str) -> None:
    try:
        assert isinstance(decode_reference(reference, 0, Settings(release=RELEASE)), bytes)
    except ServiceError as error:
        assert error.status in (413, 422)


def test_no_file_lies_where_a_path_would_be_read(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "AAAA").write_bytes(b"secret")
    with pytest.raises(ValidationFailed):
        decode_reference(str(tmp_path / "AAAA.png"), 0, settings)
    assert decode_reference("AAAA", 0, settings) == bytes(3)
