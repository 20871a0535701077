"""The shapes of answers and errors as OpenAPI documents them, with examples.

Answers themselves are never built from these: what the ensemble wrote goes to the client byte for byte.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0, le=1)]


class NoulAnswer(BaseModel):
    type: Literal["noul"]
    noul: Probability = Field(description="The probability that the proposition is true.")


class ChoiceAnswer(BaseModel):
    type: Literal["choice"]
    choice: str = Field(description="The first most probable option, in the request's order.")
    confidence: Probability
    probabilities: dict[str, Probability] = Field(description="By option, in the request's order.")


class ScoreAnswer(BaseModel):
    type: Literal["score"]
    score: float = Field(ge=0, description="The expected level, Σ i·p.")
    confidence: Probability
    legend: dict[str, str | dict[str, Any] | list[Any]] = Field(description="Each level's description as it was sent.")
    probabilities: dict[str, Probability]


class Usage(BaseModel):
    input_tokens: int
    output_tokens: Literal[0]


class StateTruncated(BaseModel):
    kept: int
    dropped: int


class SystemOneAnswer(BaseModel):
    """One answer a question, under its id and in the request's order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "clef-flash",
                    "answers": {
                        "department": {
                            "type": "choice",
                            "choice": "technical",
                            "confidence": 0.9646,
                            "probabilities": {"billing": 0.0354, "technical": 0.9646},
                        },
                        "urgency": {
                            "type": "score",
                            "score": 1.8911,
                            "confidence": 0.9,
                            "legend": {"0": "Can wait", "1": "This week", "2": "Today"},
                            "probabilities": {"0": 0.0089, "1": 0.0911, "2": 0.9},
                        },
                        "outage": {"type": "noul", "noul": 0.9318},
                    },
                    "usage": {"input_tokens": 468, "output_tokens": 0},
                }
            ]
        }
    )

    model: str
    answers: dict[str, Annotated[NoulAnswer | ChoiceAnswer | ScoreAnswer, Field(discriminator="type")]]
    usage: Usage
    x_state_truncated: StateTruncated | None = Field(
        default=None, description="Tokens of the state kept and dropped; only where the state was cut."
    )


class ErrorDetail(BaseModel):
    error_type: str
    message: str


class ErrorBody(BaseModel):
    detail: ErrorDetail


class Issue(BaseModel):
    loc: list[str | int]
    msg: str
    type: str


class ValidationErrorBody(BaseModel):
    """Where the request is wrong, and how. What was sent is never repeated."""

    detail: list[Issue]


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "Not UTF-8, not an object, does not unpack, or names an unknown model."},
    401: {"model": ErrorBody, "description": "A key is required and missing, or it is wrong."},
    408: {"model": ErrorBody, "description": "The body did not arrive in time."},
    413: {"model": ErrorBody, "description": "The body, its images, their pixels or its tokens pass a limit."},
    415: {"model": ErrorBody, "description": "A Content-Encoding other than gzip or zstd."},
    422: {"model": ValidationErrorBody, "description": "Not JSON, or the request says something that it may not."},
    429: {"model": ErrorBody, "description": "Over the caller's rate; Retry-After says when to come back."},
    500: {"model": ErrorBody, "description": "Ours to mend; the message has the request's id."},
    503: {"model": ErrorBody, "description": "Full, starting or gone; Retry-After says when to come back."},
    504: {"model": ErrorBody, "description": "The deadline passed."},
}


class BatchAnswer(SystemOneAnswer):
    """The answer that the item would have had alone, and its status."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": 200,
                    "model": "clef-flash",
                    "answers": {"outage": {"type": "noul", "noul": 0.9318}},
                    "usage": {"input_tokens": 97, "output_tokens": 0},
                }
            ]
        }
    )

    status: Literal[200]


class BatchError(BaseModel):
    """The error that the item would have had alone, and its status."""

    status: Literal[400, 413, 422, 500, 503, 504]
    detail: ErrorDetail | list[Issue]


class ModelEntry(BaseModel):
    name: str
    description: str
    release_date: str = Field(description="YYYY-MM-DD")
    x_revision: str = Field(description="The pinned revision, or a digest of a local release's weight index.")


class ModelList(BaseModel):
    """Every name that `model` may say. The settings are those that change an answer."""

    models: list[ModelEntry]
    x_revision: str
    x_settings: dict[str, Any]
    x_limits: dict[str, Any]


class HealthReport(BaseModel):
    status: Literal["ready", "unavailable"]
    model: str | None = Field(description="null until the first answer has come.")
    revision: str | None
    fingerprint: str = Field(description="Equal where the settings of frontend and steps are.")


REQUEST_EXAMPLES: dict[str, Any] = {
    "three types": {
        "summary": "All three question types over one state",
        "value": {
            "model": "clef-flash",
            "state": "Our checkout started returning errors and orders are blocked.",
            "questions": {
                "department": {
                    "type": "choice",
                    "instructions": "Which team should handle it?",
                    "criteria": {"billing": "Payments or invoices", "technical": "Bugs or outages"},
                },
                "urgency": {
                    "type": "score",
                    "instructions": "How urgent is it?",
                    "criteria": ["Can wait", "This week", "Today"],
                },
                "outage": {"type": "noul", "instructions": "Is a service down?"},
            },
        },
    },
    "noul": {
        "summary": "Yes or no, with what either means",
        "value": {
            "state": {"subject": "You won!", "body": "Click here."},
            "questions": {
                "spam": {
                    "type": "noul",
                    "instructions": "Is this spam?",
                    "criteria": {"true": "Unsolicited advertising", "false": "A real conversation"},
                }
            },
        },
    },
    "choice": {
        "summary": "One of several options, one of them without a description",
        "value": {
            "state": "Where is my parcel?",
            "questions": {"intent": {"type": "choice", "criteria": {"delivery": "Where a parcel is", "other": None}}},
        },
    },
    "score": {
        "summary": "A level on a scale",
        "value": {
            "state": "It works, mostly.",
            "questions": {"satisfaction": {"type": "score", "criteria": ["Unhappy", "Neutral", "Happy"]}},
        },
    },
}

MULTIPART_REQUEST: dict[str, Any] = {
    "schema": {
        "type": "object",
        "description": "The request, and the files of its images. Each file is named by the `part` of one asset: "
        '`curl URL -F \'request={"state": "See IMAGE", "questions": {"red": {"type": "noul"}}, '
        '"assets": {"IMAGE": {"part": "photo"}}}\' -F photo=@photo.png`',
        "properties": {"request": {"$ref": "#/components/schemas/Request"}},
        "required": ["request"],
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "string", "format": "binary"},
    },
    "encoding": {"request": {"contentType": "application/json"}},
}

BATCH_EXAMPLE: list[dict[str, Any]] = [
    {"state": state, "questions": {"outage": {"type": "noul", "instructions": "Is a service down?"}}}
    for state in ("Our checkout returns errors.", "All is well.")
]
