"""Ollaya, an Ollama for decision models: `/api/decide`, and what its clients and Ollama's ask about models.

As Ollaya documents version 0.1 of its API and the package `ollama` 0.6.3 reads it. The one model is always loaded:
`keep_alive` changes nothing, and a request without state and questions, which loads a model, finds it there. A state
that is too long is cut, and the answer says so.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from frontend import ollaya_documents as documents
from frontend.decision import Decision
from frontend.decisions import Decisions
from frontend.dialects import dumps, error_response, served, text_of, translated
from frontend.health import Heartbeat
from frontend.model_info import ModelInfo
from frontend.routes import PlainRoute
from frontend.systemone import answer_headers
from frontend.triton import Triton
from preprocess.errors import MAX_JSON_BYTES, ServiceError, ValidationFailed, shorten

LATEST = ":latest"
# Ollama's command line shows a day in another age as "Forever", and none as "Stopping…".
NEVER = "2999-12-31T00:00:00Z"
TRUNCATE = {"overflow": "truncate"}

_CODES = {
    400: "INVALID_JSON",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "REQUEST_TIMEOUT",
    413: "REQUEST_TOO_LARGE",
    415: "UNSUPPORTED_ENCODING",
    422: "INVALID_REQUEST",
    429: "RATE_LIMITED",
    503: "QUEUE_FULL",
    504: "TIMEOUT",
}


class ModelNotFound(ServiceError):
    """404: no such model. Clients match on the words, which name the model as it was asked for."""

    status = 404
    error_type = "not_found_error"

    def __init__(self, name: str) -> None:
        super().__init__(f'model "{shorten(name, 100)}" not found, try pulling it first')


@dataclass(frozen=True, slots=True)
class Translation:
    """The request for the ensemble, None where it only loads the model; `model` in Ollaya's spelling."""

    body: bytes | None
    model: str


def canonical(name: str) -> str:
    """The name with its tag."""
    return name if ":" in name else name + LATEST


def served_name(value: Any, names: Sequence[str]) -> str:
    """Which of `names` the client means, whatever its case, `:latest` or not; the first one where it says nothing.

    Raises ValidationFailed, and ModelNotFound.
    """
    if value is None:
        return names[0]
    if not isinstance(value, str):
        raise ValidationFailed.at(["body", "model"], "Input should be a valid string", "string_type")
    wanted = value.strip().casefold()
    for name in names:
        if name.casefold() in (wanted, wanted.removesuffix(LATEST)):
            return name
    raise ModelNotFound(value)


def to_systemone(body: dict[str, Any], names: Sequence[str]) -> Translation:
    """The request for a server that answers to `names`. Raises ValidationFailed and ModelNotFound."""
    stream = body.get("stream")
    if stream is not None and stream is not False:
        raise ValidationFailed.at(["body", "stream"], "A decision is not streamed", "stream_unsupported")
    name = served_name(body.get("model"), names)
    if all(body.get(field) is None for field in ("state", "questions", "x_preset")):
        return Translation(None, canonical(name))
    request = body | {"model": name}
    if isinstance(body.get("questions"), dict):
        request["questions"] = {key: _question(question) for key, question in body["questions"].items()}
    return Translation(dumps(request), canonical(name))


def _question(question: Any) -> Any:
    """A choice may list its labels; a label that is listed twice is one."""
    if not isinstance(question, dict) or question.get("type") != "choice":
        return question
    labels = question.get("criteria")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        return question
    return question | {"criteria": dict.fromkeys(labels)}


def from_systemone(response: bytes, model: str, *, total_ns: int, eval_ns: int) -> dict[str, Any]:
    """The ensemble's answer with what Ollaya adds."""
    answer = json.loads(response)
    extra = {name: value for name, value in answer.items() if name.startswith("x_")}
    truncated = "x_state_truncated" in answer
    return _decided(model, answer["answers"], answer["usage"], truncated, "decide", total_ns, eval_ns) | extra


def loaded(model: str, *, total_ns: int) -> dict[str, Any]:
    """The answer to a request that only loads the model."""
    return _decided(model, {}, {"input_tokens": 0, "output_tokens": 0}, False, "load", total_ns, 0)


def _decided(
    model: str, answers: Any, usage: Any, truncated: bool, reason: str, total_ns: int, eval_ns: int
) -> dict[str, Any]:
    return {
        "model": model,
        "answers": answers,
        "usage": usage,
        "routing": None,
        "state_truncated": truncated,
        "done_reason": reason,
        "created_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "total_duration": total_ns,
        "load_duration": 0,
        "eval_duration": eval_ns,
    }


def tags(info: ModelInfo) -> dict[str, Any]:
    """Every name of the model, in Ollaya's spelling."""
    return {"models": [_model(info, name) for name in dict.fromkeys(map(canonical, info.names))]}


def running(info: ModelInfo) -> dict[str, Any]:
    """The one model, loaded for good."""
    more = {"expires_at": NEVER, "size_vram": 0, "context_length": info.limits["max_length"]}
    return {"models": [_model(info, canonical(info.name)) | more]}


def shown(info: ModelInfo) -> dict[str, Any]:
    """What there is to know of the model."""
    return {
        "license": "",
        "modelfile": f"FROM {canonical(info.name)}\n",
        "parameters": "\n".join(f"{name} {value}" for name, value in info.settings.items()),
        "template": "",
        "questions": None,
        "router": None,
        "details": _DETAILS,
        "model_info": {
            "general.architecture": "clef",
            "general.description": info.description,
            "general.revision": info.revision,
            "clef.context_length": info.limits["max_length"],
        },
        "capabilities": ["choice", "score", "noul", "vision"],
        "modified_at": _modified_at(info),
    }


# What the ensemble does not tell is left empty.
_DETAILS = {
    "parent_model": "",
    "format": "safetensors",
    "family": "clef",
    "families": ["clef"],
    "parameter_size": "",
    "quantization_level": "",
}


def _model(info: ModelInfo, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": _modified_at(info),
        "size": info.size_bytes,
        "digest": info.revision,
        "details": _DETAILS,
    }


def _modified_at(info: ModelInfo) -> str:
    return f"{info.release_date}T00:00:00Z"


def render(error: ServiceError, request_id: str) -> Response:
    """`{"error": text, "code": UPPER_SNAKE, "detail"?: issues}`; the text has all that the issues say."""
    code = "MODEL_NOT_FOUND" if isinstance(error, ModelNotFound) else _CODES.get(error.status, "INTERNAL")
    content: dict[str, Any] = {"error": text_of(error), "code": code}
    if isinstance(error.detail, list):
        detailed = content | {"detail": error.detail}
        content = detailed if len(dumps(detailed)) <= MAX_JSON_BYTES else content
    return error_response(error, content)


def router(decisions: Decisions, triton: Triton, heartbeat: Heartbeat) -> APIRouter:
    routes = APIRouter(tags=["Ollaya"], route_class=PlainRoute)

    @routes.post("/api/decide", **documents.DECIDE)
    async def decide(request: Request) -> Response:
        async with decisions.admitted(request, "ollaya"):
            names = served(triton).names
            body = await decisions.read(request)
            asked = await translated(body, lambda value: to_systemone(value, names))
            if asked.body is None:
                return JSONResponse(loaded(asked.model, total_ns=_total_ns(request)))
            decision = await decisions.decide(asked.body, request, parameters=TRUNCATE)
        content = from_systemone(
            decision.response, asked.model, total_ns=_total_ns(request), eval_ns=_eval_ns(decision)
        )
        return Response(dumps(content), headers=answer_headers(request, decision), media_type="application/json")

    @routes.post("/api/show", **documents.SHOW)
    async def show(request: Request) -> JSONResponse:
        info = served(triton)
        with decisions.place():
            name = await translated(await decisions.read(request), lambda body: body.get("model"))
        served_name(name, info.names)
        return JSONResponse(shown(info))

    @routes.get("/api/tags", **documents.TAGS)
    async def list_tags(_: Request) -> JSONResponse:
        return JSONResponse(tags(served(triton)))

    @routes.get("/api/ps", **documents.PS)
    async def list_running(_: Request) -> JSONResponse:
        return JSONResponse(running(served(triton)) if heartbeat.ready else {"models": []})

    @routes.get("/api/version", **documents.VERSION)
    async def version(request: Request) -> JSONResponse:
        return JSONResponse({"version": request.app.version})

    return routes


def _total_ns(request: Request) -> int:
    started: float = request.state.started
    return round((time.perf_counter() - started) * 1e9)


def _eval_ns(decision: Decision) -> int:
    return round((decision.preprocess_ms + decision.compute_ms + decision.postprocess_ms) * 1e6)
