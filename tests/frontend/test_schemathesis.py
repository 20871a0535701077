"""Schemathesis reads the published document and sends what it promises to take, and what it does not.

Three promises: no response is one that the document does not have, no request gets a 5xx, and what the document refuses
is refused. For SystemOne a fourth: what the document takes is taken, but for what no schema can say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
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
def triton(ensemble: FakeEnsemble) -> Iterator[FakeTriton]:
    yield FakeTriton(ensemble, model=ModelInfo.parse(ensemble.preprocess.info()))
    shutdown_lifespans()


def run(triton: FakeTriton, **changes: Any) -> list[ScenarioRecorder]:
    """What was sent and what came back. Fails on the first responses that break a promise, with the calls to repeat."""
    config = SchemathesisConfig.from_dict(CONFIG | changes)
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(Settings(), triton), config=config)
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


def test_the_document_is_true(triton: FakeTriton) -> None:
    recorders = run(triton)
    sent = Counter({recorder.label: 0 for recorder in recorders})
    for recorder in recorders:
        sent[recorder.label] += len(recorder.interactions)
    for path in ("/v1/systemone", BATCH, "/v1/decisions", "/api/alpha/decisions", "/api/decide"):
        assert sent[f"POST {path}"] > 50
    unsaid = [reason for recorder in recorders for reason in _refusals(recorder) if not _beyond_schemas(*reason)]
    assert not unsaid, unsaid[:10]


def _refusals(recorder: ScenarioRecorder) -> Iterator[tuple[int, Any]]:
    """Status and detail of what was refused although the document takes it."""
    if recorder.label != "POST /v1/systemone":
        return
    for case_id, interaction in recorder.interactions.items():
        meta, response = recorder.cases[case_id].value.meta, interaction.response
        if meta is None or response is None or meta.generation.mode != GenerationMode.POSITIVE:
            continue
        if response.status_code >= 400:
            yield response.status_code, json.loads(response.content)["detail"]


def _beyond_schemas(status: int, detail: Any) -> bool:
    """Sizes, the names of models, and whether images are images and belong to what refers to them."""
    if status == 413:
        return True
    if status == 400:
        return detail["error_type"] == "api_usage_error"
    return all(issue["loc"][1] in ("images", "assets") or issue["type"] == "asset_part" for issue in detail)


@pytest.mark.parametrize(
    "fault", [Overloaded("full"), DeadlineExceeded("late"), InternalError()], ids=lambda e: e.status
)
def test_the_document_is_true_of_failures(triton: FakeTriton, fault: Exception) -> None:
    triton.fault = lambda call: fault
    phases = {name: {"enabled": name == "examples"} for name in ("examples", "coverage", "fuzzing", "stateful")}
    recorders = run(triton, checks={**CONFIG["checks"], "not_a_server_error": {"enabled": False}}, phases=phases)
    met = {interaction.response.status_code for recorder in recorders for interaction in recorder.interactions.values()}
    assert fault.status in met
