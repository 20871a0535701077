"""OpenAI's Decisions API, which shares `POST /v1/decisions` with SystemOne: the body's shape says which one speaks.

As OpenAI documents it and its Python package 3.57.0 types it (November 2026).
"""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from frontend import errors
from frontend.decision import Decision
from frontend.decisions import Decisions
from frontend.dialects import Loc, error_response, moved, text_of, translated
from frontend.documents import REQUEST_EXAMPLES, ErrorBody, SystemOneAnswer, ValidationErrorBody
from frontend.openai_translation import Translation, from_systemone, speaks, to_systemone
from frontend.openai_types import EXAMPLE, DecisionAnswer, OpenAIError
from frontend.routes import PlainRoute
from frontend.systemone import answer_headers
from preprocess.errors import ServiceError, ValidationFailed


def render(error: ServiceError, request_id: str) -> Response:
    """`{"error": {"message", "type", "param", "code"}}`."""
    return error_response(error, {"error": _error(error)})


def render_unread(error: ServiceError, request_id: str) -> Response:
    """An error from before the body's shape is known: the clients of SystemOne and of OpenAI both read it."""
    return error_response(error, {"detail": error.detail, "error": _error(error)})


def _error(error: ServiceError) -> dict[str, Any]:
    param: str | None = None
    if isinstance(error.detail, list):
        param = _param(error.detail[0]["loc"]) or None
    unknown_model = error.error_type == "api_usage_error"
    return {
        "message": text_of(error, _param),
        "type": "invalid_request_error" if error.status in (400, 422) else error.error_type,
        "param": "model" if unknown_model else param,
        "code": "model_not_found" if unknown_model else None,
    }


def _param(loc: Loc) -> str:
    """`questions[0].choices[1].value`."""
    steps = (f"[{item}]" if isinstance(item, int) else f".{item}" for item in loc if item != "body")
    return "".join(steps).removeprefix(".")


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenAIError | shape, "description": description}
    for status, shape, description in (
        (400, ErrorBody, "Not JSON, not an object, does not unpack, or names an unknown model."),
        (401, ErrorBody, "A key is required and missing, or it is wrong."),
        (408, ErrorBody, "The body did not arrive in time."),
        (413, ErrorBody, "The body, its images, their pixels or its tokens pass a limit."),
        (415, ErrorBody, "A Content-Encoding other than gzip or zstd."),
        (422, ValidationErrorBody, "The request says something that it may not."),
        (429, ErrorBody, "Over the caller's rate; Retry-After says when to come back."),
        (500, ErrorBody, "Ours to mend; the message has the request's id."),
        (503, ErrorBody, "Full, starting or gone; Retry-After says when to come back."),
        (504, ErrorBody, "The deadline passed."),
    )
}


def router(decisions: Decisions) -> APIRouter:
    routes = APIRouter(tags=["OpenAI Decisions"], route_class=PlainRoute)

    @routes.post(
        "/v1/decisions",
        summary="Decide, as OpenAI's Decisions API does",
        description="A body with `input` and an array of questions, or with `input` and neither questions nor `state`, "
        "is OpenAI's; any other is SystemOne's, and so are its answer and its errors. Before the body is read an error "
        "has both shapes.",
        response_model=DecisionAnswer | SystemOneAnswer,
        responses=_ERRORS,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {
                            "anyOf": [
                                {"$ref": "#/components/schemas/DecisionRequest"},
                                {"$ref": "#/components/schemas/Request"},
                            ]
                        },
                        "examples": {"openai": EXAMPLE, **REQUEST_EXAMPLES},
                    }
                },
            }
        },
    )
    async def decide(request: Request) -> Response:
        def translate(body: dict[str, Any]) -> Translation | None:
            spoken = speaks(body)
            request.state.render = render if spoken else errors.render
            request.state.log["dialect"] = "openai" if spoken else "systemone"
            return to_systemone(body) if spoken else None

        async with decisions.admitted(request, "openai"):
            body, images = await decisions.read_request(request)
            asked = await translated(body, translate)
            if asked is None:
                decision = await decisions.decide(body, request, images=images)
                content = decision.response
            else:
                decision = await _decide(decisions, asked, request)
                content = from_systemone(decision.response, asked)
        return Response(content, headers=answer_headers(request, decision), media_type="application/json")

    return routes


async def _decide(decisions: Decisions, asked: Translation, request: Request) -> Decision:
    try:
        return await decisions.decide(asked.body, request)
    except ValidationFailed as error:
        raise moved(error, asked.move) from None
