"""As much of Triton's `pb_utils` as requests and responses take, outside of a stub.

In a stub these classes come out of Triton's own program; `tests/stack/` has them, this fake is for what does not happen
there at will.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class TritonError:
    INTERNAL, UNAVAILABLE, INVALID_ARG = "INTERNAL", "UNAVAILABLE", "INVALID_ARG"

    def __init__(self, message: str, code: str) -> None:
        self.message, self.code = message, code


@dataclass
class Tensor:
    tensor_name: str
    array: np.ndarray[Any, Any]

    def name(self) -> str:
        return self.tensor_name

    def as_numpy(self) -> np.ndarray[Any, Any]:
        return self.array


@dataclass
class InferenceResponse:
    output_tensors: list[Tensor] = field(default_factory=list)
    error: TritonError | None = None


@dataclass
class InferenceRequest:
    """`send` is told each response and its flags."""

    send: Callable[[InferenceResponse, int], None]
    tensors: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    id: str = "mine"
    told: dict[str, Any] | None = None

    def request_id(self) -> str:
        return self.id

    def inputs(self) -> list[Tensor]:
        return [Tensor(name, array) for name, array in self.tensors.items()]

    def parameters(self) -> str:
        return json.dumps(self.told) if self.told else ""

    def get_response_sender(self) -> Sender:
        return Sender(self.send)


@dataclass
class Sender:
    told: Callable[[InferenceResponse, int], None]

    def send(self, response: InferenceResponse, flags: int) -> None:
        self.told(response, flags)

    def is_cancelled(self) -> bool:
        return False
