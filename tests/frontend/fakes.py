"""A Triton without a server: the real first and last step around constant logits.

`FakeEnsemble` is one function from a request to the ensemble's outputs. `FakeTriton` gives it the interface of
`TritonClient`; `kserve_server` puts it behind a real gRPC server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from frontend.decision import Decision
from frontend.kserve import Parameter
from frontend.model_info import ModelInfo
from postprocess.answers import answer
from preprocess.errors import DeadlineExceeded, Overloaded
from preprocess.plan import Plan
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings as RequestSettings
from tests.golden_cases import RELEASE


class FakeEnsemble:
    """The ensemble `clef` with logits 0.0, 0.1, 0.2, … in head order, and times that a test can recognise."""

    def __init__(self, **settings: object) -> None:
        self.preprocess = Preprocessor(RequestSettings.model_validate({"release": RELEASE, **settings}))
        self.model = ModelInfo.parse(self.preprocess.info())

    def __call__(self, body: bytes, images: Sequence[bytes], parameters: Mapping[str, Parameter]) -> Decision:
        tensors = self.preprocess(body, list(images) or None, parameters)
        plan = Plan.from_json(bytes(tensors["PLAN"][0]))
        logits = np.arange(int(tensors["QUESTIONS"][:, 3].sum()), dtype=np.float32) / 10
        response, _ = answer(plan, logits)
        return Decision(
            response=response,
            model=self.model,
            queue_ms=0.5,
            preprocess_ms=1.25,
            compute_ms=2.5,
            postprocess_ms=0.25,
            batch_size=3,
            images=len(tensors["IMAGE_GRID"]),
        )


@dataclass(frozen=True)
class Call:
    """One decision as Triton was asked for it."""

    body: bytes
    request_id: str
    deadline: float
    parameters: Mapping[str, Parameter]
    images: Sequence[bytes]
    account: str | None


@dataclass
class FakeTriton:
    """`TritonClient` over a FakeEnsemble. Set `fault` to make it fail, `latency_s` to make it slow."""

    ensemble: FakeEnsemble
    up: bool = True
    latency_s: float = 0.0
    fault: Callable[[Call], Exception | None] = lambda call: None
    calls: list[Call] = field(default_factory=list)
    started: bool = False
    model: ModelInfo | None = None
    step_failure: Exception | None = None
    step_asks: int = 0
    waiting: int = 0
    answered: int = 0

    async def start(self) -> None:
        self.started = True

    async def close(self) -> None:
        self.started = False

    async def ready(self, timeout_s: float) -> bool:
        return self.up

    def info(self) -> ModelInfo | None:
        return self.model

    async def decide(
        self,
        body: bytes,
        *,
        request_id: str,
        deadline: float,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
        account: str | None = None,
    ) -> Decision:
        call = Call(body, request_id, deadline, dict(parameters or {}), images, account)
        self.calls.append(call)
        if not self.up:
            raise Overloaded("the model server is not available at the moment")
        left_s = deadline - time.time()
        self.waiting += call.request_id != "heartbeat"
        try:
            await asyncio.sleep(max(0.0, min(self.latency_s, left_s)))
        finally:
            self.waiting -= call.request_id != "heartbeat"
        if self.latency_s > left_s:
            raise DeadlineExceeded("the deadline passed before the answer came")
        failure = self.fault(call)
        if failure is not None:
            raise failure
        decision = self.ensemble(body, images, call.parameters)
        self.model = decision.model
        self.answered += 1
        return decision

    async def answers(self, timeout_s: float) -> int:
        if not self.up:
            raise Overloaded("the model server is not available at the moment")
        return self.answered

    async def ask_steps(self, body: bytes, *, request_id: str, timeout_s: float) -> int:
        self.step_asks += 1
        if not self.up:
            raise Overloaded("the model server is not available at the moment")
        if self.step_failure is not None:
            raise self.step_failure
        return self.waiting

    @property
    def real_calls(self) -> list[Call]:
        """The calls that were no heartbeat."""
        return [call for call in self.calls if call.request_id != "heartbeat"]
