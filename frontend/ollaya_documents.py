"""Ollaya's requests and answers as OpenAPI documents them, one mapping a route."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from frontend.documents import REQUEST_EXAMPLES, Issue, StateTruncated, SystemOneAnswer


class OllayaError(BaseModel):
    error: str
    code: str = Field(description="UPPER_SNAKE_CASE; new ones may come.")


class OllayaValidationError(OllayaError):
    """Where the request is wrong; without `detail` where all of it would be too long, since `error` says the same."""

    detail: list[Issue] | None = None


class DecideAnswer(SystemOneAnswer):
    """SystemOne's answer and what Ollaya adds; durations in nanoseconds."""

    model: str = Field(description="The model's name with its tag.")
    usage: dict[Literal["input_tokens", "output_tokens"], int]  # type: ignore[assignment]
    routing: None
    state_truncated: bool = Field(description="Whether the state was cut to what the model takes.")
    done_reason: Literal["decide", "load"]
    created_at: str
    total_duration: int
    load_duration: Literal[0]
    eval_duration: int
    x_state_truncated: StateTruncated | None = None


class Details(BaseModel):
    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class TaggedModel(BaseModel):
    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: Details


class Tags(BaseModel):
    models: list[TaggedModel]


class RunningModel(TaggedModel):
    expires_at: str
    size_vram: int
    context_length: int


class RunningModels(BaseModel):
    """The one model while answers come."""

    models: list[RunningModel]


class ShownModel(BaseModel):
    license: str
    modelfile: str
    parameters: str
    template: str
    questions: None
    router: None
    details: Details
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class Version(BaseModel):
    version: str


_STARTING: dict[int | str, dict[str, Any]] = {
    503: {"model": OllayaError, "description": "Full, starting or gone; Retry-After says when to come back."}
}
_READ: dict[int | str, dict[str, Any]] = {
    400: {"model": OllayaError, "description": "Not JSON, not an object, or does not unpack."},
    404: {"model": OllayaError, "description": "The model is not served here."},
    408: {"model": OllayaError, "description": "The body did not arrive in time."},
    413: {"model": OllayaError, "description": "The body, its images, their pixels or its tokens pass a limit."},
    415: {"model": OllayaError, "description": "A Content-Encoding other than gzip or zstd."},
    422: {"model": OllayaValidationError, "description": "The request says something that it may not."},
    **_STARTING,
}
_ANSWERED: dict[int | str, dict[str, Any]] = {
    401: {"model": OllayaError, "description": "A key is required and missing, or it is wrong."},
    429: {"model": OllayaError, "description": "Over the caller's rate; Retry-After says when to come back."},
    500: {"model": OllayaError, "description": "Ours to mend; the message has the request's id."},
    504: {"model": OllayaError, "description": "The deadline passed."},
}

_LABELS_EXAMPLE = {
    "summary": "A choice among labels",
    "value": {
        "model": "clef-flash:latest",
        "state": "Where is my parcel?",
        "questions": {"intent": {"type": "choice", "criteria": ["delivery", "payment", "other"]}},
    },
}


def _body(schema: dict[str, Any], examples: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema, "examples": examples}}
    return {"requestBody": {"required": True, "content": content}}


DECIDE: dict[str, Any] = {
    "summary": "Decide, as Ollaya does",
    "description": "SystemOne's body, where a choice may also list its labels. A state that is too long is cut.",
    "response_model": DecideAnswer,
    "responses": _READ | _ANSWERED,
    "openapi_extra": _body(
        {"$ref": "#/components/schemas/DecideRequest"}, {"labels": _LABELS_EXAMPLE, **REQUEST_EXAMPLES}
    ),
}
SHOW: dict[str, Any] = {
    "summary": "What there is to know of the model",
    "response_model": ShownModel,
    "responses": _READ,
    "openapi_extra": _body(
        {"type": "object", "properties": {"model": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"model": {"value": {"model": "clef-flash:latest"}}},
    ),
}
TAGS: dict[str, Any] = {"summary": "The model under each of its names", "response_model": Tags, "responses": _STARTING}
PS: dict[str, Any] = {"summary": "The model, while it answers", "response_model": RunningModels}
VERSION: dict[str, Any] = {"summary": "The server's version", "response_model": Version}


def decide_request(systemone: dict[str, Any]) -> dict[str, Any]:
    """The schema of `/api/decide`'s body, from that of SystemOne's."""
    labels = {
        "type": "object",
        "required": ["type", "criteria"],
        "properties": {
            "type": {"const": "choice"},
            "criteria": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 255},
        },
    }
    fields = systemone["properties"]
    questions = fields["questions"]
    question = {"anyOf": [questions["additionalProperties"], labels]}
    own = {
        "questions": questions | {"additionalProperties": question},
        "keep_alive": {"description": "Accepted; the model is always loaded."},
        "stream": {"enum": [False, None]},
    }
    return {"type": "object", "description": systemone["description"], "properties": fields | own}
