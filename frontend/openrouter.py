"""OpenRouter's Decisions API: SystemOne's body and answer, images inside the state, errors of its own.

As its documentation has it in November 2026, and as its Python package 1.3.84 reads it: a validation error is a 400,
the only one of its statuses that says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from frontend import errors
from frontend.decisions import Decisions
from frontend.dialects import Loc, dumps, error_response, moved, served, text_of, translated
from frontend.documents import REQUEST_EXAMPLES, SystemOneAnswer
from frontend.routes import PlainRoute
from frontend.systemone import answer_headers
from frontend.triton import Triton
from preprocess.errors import InvalidRequest, ServiceError, ValidationFailed


class OpenRouterErrorDetail(BaseModel):
    code: int = Field(description="The HTTP status.")
    message: str


class OpenRouterError(BaseModel):
    error: OpenRouterErrorDetail


@dataclass(frozen=True, slots=True)
class Translation:
    """The request for the ensemble, and the place in the state of each of its images."""

    body: bytes
    places: tuple[int, ...]

    def move(self, loc: Loc) -> Loc:
        """From a place in the ensemble's request to the one in the client's."""
        match loc:
            case ["body", "images", int(k), *_] if k < len(self.places):
                return ["body", "state", self.places[k], "image_url"]
        return loc


def to_systemone(body: dict[str, Any], names: Sequence[str]) -> Translation:
    """The request for a server that answers to `names`. Raises InvalidRequest for images outside the state."""
    if body.get("images") is not None:
        message = 'Images are items of the state array here: {"type": "image_url", "image_url": {"url": data URL}}.'
        raise InvalidRequest(message)
    request = dict(body)
    if isinstance(body.get("model"), str):
        request["model"] = served_name(body["model"], names)
    places: list[int] = []
    if isinstance(body.get("state"), list):
        state = list(body["state"])
        places = [index for index, item in enumerate(state) if _is_image(item)]
        if places:
            request["images"] = [state[index].get("image_url") for index in places]
        for k, index in enumerate(places, 1):
            state[index] = f"image {k}"
        request["state"] = state
    return Translation(dumps(request), tuple(places))


def served_name(model: str, names: Sequence[str]) -> str:
    """`vendor/name` is `name` here, where the server does not know it as it stands; `~` marks a moving name."""
    if model in names:
        return model
    name = model.removeprefix("~").partition("/")[2]
    return name if name in names else model


def _is_image(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "image_url"


def render(error: ServiceError, request_id: str) -> Response:
    """`{"error": {"code", "message"}}`."""
    status = 400 if error.status == 422 else error.status
    return error_response(error, {"error": {"code": status, "message": text_of(error)}}, status=status)


def render_both(error: ServiceError, request_id: str) -> Response:
    """SystemOne's error, and OpenRouter's beside it: both vendors' clients ask under /api/v1/.

    A validation error is SystemOne's alone, since OpenRouter has no status for it there.
    """
    if error.status == 422:
        return errors.render(error, request_id)
    content = {"detail": error.detail, "error": {"code": error.status, "message": text_of(error)}}
    return error_response(error, content)


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": OpenRouterError, "description": description}
    for status, description in {
        400: "Not JSON, an unknown model, images outside the state, or something that the request may not say.",
        401: "A key is required and missing, or it is wrong.",
        408: "The body did not arrive in time.",
        413: "The body, its images, their pixels or its tokens pass a limit.",
        415: "A Content-Encoding other than gzip or zstd.",
        429: "Over the caller's rate; Retry-After says when to come back.",
        500: "Ours to mend; the message has the request's id.",
        503: "Full, starting or gone; Retry-After says when to come back.",
        504: "The deadline passed.",
    }.items()
}
_RED_SQUARE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP8z4AdMDEMKQkAzUEBD7t4NqoAAAAASUVORK5C"
    "YII="
)
EXAMPLES: dict[str, Any] = {
    **REQUEST_EXAMPLES,
    "image": {
        "summary": "An image beside a text",
        "value": {
            "state": ["The light shows:", {"type": "image_url", "image_url": {"url": _RED_SQUARE}}],
            "questions": {"stop": {"type": "noul", "instructions": "Should a driver stop?"}},
        },
    },
}


def router(decisions: Decisions, triton: Triton) -> APIRouter:
    routes = APIRouter(tags=["OpenRouter"], route_class=PlainRoute)

    @routes.post(
        "/api/alpha/decisions",
        summary="Decide, as OpenRouter does",
        description="SystemOne's body without `images`: an image is an item of the state array. "
        "`provider`, `session_id`, `trace` and `user` are ignored.",
        response_model=SystemOneAnswer,
        responses=_ERRORS,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {
                        "schema": {"$ref": "#/components/schemas/Request"},
                        "examples": EXAMPLES,
                    }
                },
            }
        },
    )
    async def decide(request: Request) -> Response:
        async with decisions.admitted(request, "openrouter"):
            names = served(triton).names
            body = await decisions.read(request)
            asked = await translated(body, lambda value: to_systemone(value, names))
            try:
                decision = await decisions.decide(asked.body, request)
            except ValidationFailed as error:
                raise moved(error, asked.move) from None
        return Response(decision.response, headers=answer_headers(request, decision), media_type="application/json")

    return routes
