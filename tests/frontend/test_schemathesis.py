"""Schemathesis reads the published document and sends what it promises to take, and what it does not.

No response is one that the document does not have, no request gets a 5xx, and what the document refuses is refused. For
SystemOne the other way too: what the document takes is taken.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from schemathesis import GenerationMode, engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine.events import NonFatalError, ScenarioFinished
from schemathesis.engine.recorder import ScenarioRecorder
from schemathesis.python.asgi import shutdown_lifespans

from frontend.app import create_app
from frontend.model_info import ModelInfo
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded
from tests.frontend.fakes import FakeEnsemble, FakeTriton

# The same handlers as under their other names.
TWINS = ["/api/v1/systemone", "/healthz"]
BATCH = "/v1/systemone/batch"
CONFIG: dict[str, Any] = {
    "seed": 1,
    "generation": {"deterministic": True, "max-examples": 20, "database": "none"},
    "cache": {"enabled": False},
    "continue-on-failure": True,
    "checks": {
        "positive_data_acceptance": {"enabled": False},
        "negative_data_rejection": {"expected-statuses": ["400", "404", "413", "415", "422"]},
    },
    "operations": [
        {"include-path": TWINS, "enabled": False},
        # An item that is wrong is refused in its own place, under a 200.
        {"include-path": BATCH, "checks": {"negative_data_rejection": {"enabled": False}}},
    ],
}


@pytest.fixture
def triton(ensemble: FakeEnsemble) -> FakeTriton:
    return FakeTriton(ensemble, model=ModelInfo.parse(ensemble.preprocess.info()))


@pytest.fixture
def app(triton: FakeTriton) -> Iterator[FastAPI]:
    yield create_app(Settings(), triton)
    shutdown_lifespans()


def run(app: FastAPI, **changes: Any) -> list[ScenarioRecorder]:
    """What was sent and what came back. Fails on the first responses that break a promise, with the calls to repeat."""
    config = SchemathesisConfig.from_dict(CONFIG | changes)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    recorders, broken = [], []
    for event in engine.from_schema(schema).execute():
        assert not isinstance(event, NonFatalError), event
        if isinstance(event, ScenarioFinished):
            recorders.append(event.recorder)
            broken += list(_failures(event.recorder))
    assert not broken, "\n\n".join([f"{len(broken)} failures", *broken[:10]])
    return recorders


def _failures(recorder: ScenarioRecorder) -> Iterator[str]:
    for case_id, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is not None:
                case, response = recorder.cases[case_id].value, recorder.find_response(case_id=case_id)
                answer = None if response is None else (response.status_code, response.content[:500])
                failure = check.failure_info.failure
                yield f"{recorder.label}: {failure.title}: {failure.message}\n{case.as_curl_command()}\n{answer}"


@pytest.mark.timeout(300)  # some 2,000 calls: 16 s of a processor that it may have to share
def test_the_document_is_true(app: FastAPI) -> None:
    sent = Counter[str]()
    for recorder in run(app):
        sent[recorder.label] += len(recorder.interactions)
    for path in ("/v1/systemone", BATCH, "/v1/decisions", "/api/alpha/decisions", "/api/decide"):
        assert sent[f"POST {path}"] > 50


def test_the_document_takes_what_the_validator_takes(app: FastAPI) -> None:
    # Images cannot be made from a schema: a request that has some is refused for them, whatever else it says.
    document = copy.deepcopy(app.openapi())
    for name in ("images", "assets"):
        del document["components"]["schemas"]["Request"]["properties"][name]
    app.openapi = lambda: document  # type: ignore[method-assign]
    recorders = run(app, operations=[{"exclude-path": "/v1/systemone", "enabled": False}])
    exchanges = [exchange for recorder in recorders for exchange in recorder.interactions.values()]
    assert sum(exchange.response.status_code == 200 for exchange in exchanges if exchange.response is not None) > 50
    unsaid = [reason for recorder in recorders for reason in _refusals(recorder) if not _beyond_schemas(*reason)]
    assert not unsaid, unsaid[:10]


def _refusals(recorder: ScenarioRecorder) -> Iterator[tuple[int, Any]]:
    """Status and detail of what was refused although the document takes it."""
    for case_id, interaction in recorder.interactions.items():
        case, response = recorder.cases[case_id].value, interaction.response
        # What it calls a good multipart body may hold any text in place of the request.
        if case.meta is None or response is None or case.media_type != "application/json":
            continue
        if case.meta.generation.mode == GenerationMode.POSITIVE and response.status_code >= 400:
            yield response.status_code, json.loads(response.content)["detail"]


def _beyond_schemas(status: int, detail: Any) -> bool:
    """Sizes and the names of models."""
    return status == 413 or (status == 400 and detail["error_type"] == "api_usage_error")


@pytest.mark.parametrize(
    "fault", [Overloaded("full"), DeadlineExceeded("late"), InternalError()], ids=lambda e: e.status
)
def test_the_document_is_true_of_failures(app: FastAPI, triton: FakeTriton, fault: Exception) -> None:
    triton.fault = lambda call: fault
    phases = {name: {"enabled": name == "examples"} for name in ("examples", "coverage", "fuzzing", "stateful")}
    recorders = run(app, checks={**CONFIG["checks"], "not_a_server_error": {"enabled": False}}, phases=phases)
    met = {interaction.response.status_code for recorder in recorders for interaction in recorder.interactions.values()}
    assert fault.status in met
