from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.adapter import triton

# Before anything of `adapter` is imported, which asks for it by this name.
sys.modules["triton_python_backend_utils"] = triton  # type: ignore[assignment]


class Outside:
    """What comes out of a step, in order: responses, and lines of its log."""

    def __init__(self) -> None:
        self.events: list[triton.InferenceResponse | dict[str, Any]] = []
        self.broken: Exception | None = None

    def request(self, **fields: Any) -> triton.InferenceRequest:
        return triton.InferenceRequest(self._send, **fields)

    def write(self, descriptor: int, line: bytes) -> int:
        if self.broken:
            raise self.broken
        assert descriptor == 2 and line.endswith(b"\n") and line.count(b"\n") == 1
        self.events.append(json.loads(line))
        return len(line)

    def _send(self, response: triton.InferenceResponse, flags: int) -> None:
        assert flags == triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
        self.events.append(response)

    @property
    def responses(self) -> list[triton.InferenceResponse]:
        return [event for event in self.events if isinstance(event, triton.InferenceResponse)]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [event for event in self.events if isinstance(event, dict)]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    made = Outside()
    monkeypatch.setattr("adapter.call.os", SimpleNamespace(write=made.write))
    return made
