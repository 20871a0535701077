"""Cloudflare Workers AI: the hosted Clef's route, envelope and error codes around SystemOne.

As observed of the hosted service in October 2026, and documented at developers.cloudflare.com/workers-ai: we take what
it takes and more (unknown fields, missing instructions), and an answer inside the envelope is the ensemble's, byte for
byte.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from frontend.decisions import Decisions
from frontend.dialects import dumps, error_response, served, text_of, translated
from frontend.documents import REQUEST_EXAMPLES, SystemOneAnswer
from frontend.errors import NotFound
from frontend.systemone import answer_headers
from frontend.triton import Triton
from preprocess.errors import ServiceError, ValidationFailed

VENDOR = "@cf/cloudflare/"
IMAGE_FORMS = 'Image should be a data URL, base64, or an object {"content_type": media type, "base64": base64}'

# By the status of an error: the status and the code that the hosted service answers with.
_CODES: dict[int, tuple[int, int]] = {
    400: (400, 6003),
    401: (401, 10000),
    403: (403, 10000),
    404: (400, 7000),
    405: (405, 7001),
    408: (408, 3007),
    413: (413, 5021),
    415: (415, 6003),
    422: (422, 5012),
    429: (429, 3040),
    503: (429, 3040),
    504: (504, 3007),
}
_FAILED = (529, 5012)
_QUESTIONS = (400, 5006)


class CloudflareError(BaseModel):
    code: int
    message: str


class WorkersAIAnswer(BaseModel):
    result: SystemOneAnswer
    success: Literal[True]
    errors: Annotated[list[CloudflareError], Field(max_length=0)]
    messages: Annotated[list[str], Field(max_length=0)]


class WorkersAIError(BaseModel):
    """Always one error."""

    result: None
    success: Literal[False]
    errors: Annotated[list[CloudflareError], Field(min_length=1, max_length=1)]
    messages: Annotated[list[str], Field(max_length=0)]


def served_name(model: str, names: Sequence[str]) -> str:
    """What the server calls the path's model. Raises NotFound for a model that it does not serve."""
    for name in (model, VENDOR + model):
        if name in names:
            return name
    known = ", ".join(name for name in names if name.startswith(VENDOR))
    raise NotFound(f"No route for that URI. This server runs: {known}.")


def to_systemone(body: dict[str, Any], model: str, name: str) -> bytes:
    """The request for the ensemble; `model` is the path's, `name` what the server calls it.

    Raises ValidationFailed where the body names another model.
    """
    said = body.get("model")
    if said is not None and (not isinstance(said, str) or said.strip() not in (model, VENDOR + model)):
        raise ValidationFailed.at(["body", "model"], "The model should be the one that the path names", "model")
    request = body | {"model": name}
    if isinstance(body.get("images"), list):
        request["images"] = [_image(image) for image in body["images"]]
    return dumps(request)


def _image(image: Any) -> Any:
    return image["base64"] if isinstance(image, dict) and "base64" in image else image


def in_own_words(error: ValidationFailed) -> ValidationFailed:
    """The ensemble's issues, where they name the forms of this API."""
    issues = [issue for issue in error.detail if isinstance(issue, dict)]
    return ValidationFailed(
        issue | {"msg": IMAGE_FORMS} if issue["type"] == "image_type" else issue for issue in issues
    )


def from_systemone(response: bytes) -> bytes:
    """The ensemble's answer in the envelope of a success."""
    return b'{"result":' + response + b',"success":true,"errors":[],"messages":[]}'


def render(error: ServiceError, request_id: str) -> Response:
    """An error in the envelope of a failure, under the status and code that the hosted service would give."""
    status, code = _QUESTIONS if _no_questions(error) else _CODES.get(error.status, _FAILED)
    errors = [{"code": code, "message": text_of(error)}]
    content = {"result": None, "success": False, "errors": errors, "messages": []}
    return error_response(error, content, status=status, headers=_ids(request_id))


def _no_questions(error: ServiceError) -> bool:
    # The hosted service looks for questions of known types before it validates anything else.
    if not isinstance(error, ValidationFailed):
        return False
    missing = (["body", "questions"], ("missing", "dict_type", "too_short"))
    return any(
        issue["type"].startswith("union_tag") or (issue["loc"] == missing[0] and issue["type"] in missing[1])
        for issue in error.detail
        if isinstance(issue, dict)
    )


def _ids(request_id: str) -> dict[str, str]:
    return {"cf-ray": request_id, "cf-ai-req-id": request_id}


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": WorkersAIError, "description": description}
    for status, description in {
        400: "5006: no questions, or of an unknown type. 6003: not JSON. 7000: no such model.",
        401: "10000: a key is required and missing, or it is wrong.",
        408: "3007: the body did not arrive in time.",
        413: "5021: the body, its images or its tokens pass a limit.",
        415: "6003: a Content-Encoding other than gzip or zstd.",
        422: "5012: the request says something that it may not.",
        429: "3040: over the caller's rate, or full, starting or gone; Retry-After says when to come back.",
        504: "3007: the deadline passed.",
        529: "5012: ours to mend.",
    }.items()
}
REQUEST_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/WorkersAIRequest"},
            "examples": REQUEST_EXAMPLES,
        }
    },
}


def request_schema(systemone: dict[str, Any]) -> dict[str, Any]:
    """The schema of the body, from that of SystemOne's."""
    images = systemone["properties"]["images"]
    pair = {
        "type": "object",
        "properties": {"content_type": {"type": "string"}, "base64": {"type": "string"}},
        "required": ["base64"],
    }
    either = {"anyOf": [*images["anyOf"][0]["items"]["anyOf"], pair]}
    own = {
        "model": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "The path's, or left out."},
        "images": {"anyOf": [{"type": "array", "items": either}, {"type": "null"}]},
    }
    return systemone | {"properties": systemone["properties"] | own}


def router(decisions: Decisions, triton: Triton) -> APIRouter:
    routes = APIRouter(tags=["Workers AI"])

    @routes.post(
        "/client/v4/accounts/{account}/ai/run/" + VENDOR + "{model}",
        summary="Decide, as the hosted Clef does",
        response_model=WorkersAIAnswer,
        responses=_ERRORS,
        openapi_extra={"requestBody": REQUEST_BODY},
    )
    async def run(
        request: Request,
        account: Annotated[str, Path(description="Anything; it is not looked at.")],
        model: Annotated[str, Path(description="clef or clef-flash, or another name that is served.")],
    ) -> Response:
        async with decisions.admitted(request, "workers_ai"):
            name = served_name(model, served(triton).names)
            body = await decisions.read(request)
            asked = await translated(body, lambda value: to_systemone(value, model, name))
            try:
                decision = await decisions.decide(asked, request)
            except ValidationFailed as error:
                raise in_own_words(error) from None
        headers = answer_headers(request, decision) | _ids(request.state.request_id)
        return Response(from_systemone(decision.response), headers=headers, media_type="application/json")

    return routes
