"""What `POST /v1/decisions` of OpenAI takes and gives, as its Python package 3.57.0 types it; laxer where that is safe.

Unknown fields are ignored. Lists stop at their first fault, since each of a million could be one.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictStr,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from frontend.documents import Probability, StateTruncated
from preprocess import schema

# The most that any server can be set to.
MAX_QUESTIONS = 255


# A union by hand, so that a fault is named once. Tags in brackets are no part of a place.
TEXT, ARRAY = "(text)", "(array)"


def _text_or_array(value: Any) -> str:
    return TEXT if isinstance(value, str) else ARRAY


def _string_or_boolean(value: Any) -> Any:
    if isinstance(value, str | bool):
        return value
    raise PydanticCustomError("value_type", "Value should be a string or a boolean")


def _object_or_array(value: Any) -> Any:
    if isinstance(value, dict | list):
        return value
    raise PydanticCustomError("data_type", "Data should be an object or an array")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class InputText(_Model):
    type: Literal["input_text"]
    text: StrictStr


class InputImage(_Model):
    type: Literal["input_image"]
    image_url: StrictStr = Field(description="A data URL. Nothing is fetched.", repr=False)


class InputJson(_Model):
    type: Literal["input_json"]
    data: Annotated[
        Any, AfterValidator(_object_or_array), WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "array"}]})
    ]


class OutputText(_Model):
    type: Literal["output_text"]
    text: StrictStr


class Refusal(_Model):
    type: Literal["refusal"]
    refusal: StrictStr


Part = Annotated[InputText | InputImage | InputJson | OutputText | Refusal, Field(discriminator="type")]
Parts = Annotated[list[Part], Field(fail_fast=True)]
Content = Annotated[Annotated[StrictStr, Tag(TEXT)] | Annotated[Parts, Tag(ARRAY)], Discriminator(_text_or_array)]


class Message(_Model):
    type: Literal["message"] = "message"
    role: Literal["user", "developer", "system", "assistant"]
    content: Content


class FunctionCall(_Model):
    type: Literal["function_call"]
    name: StrictStr
    arguments: StrictStr
    call_id: StrictStr


class FunctionCallOutput(_Model):
    type: Literal["function_call_output"]
    call_id: StrictStr
    output: Content


class CustomToolCall(_Model):
    type: Literal["custom_tool_call"]
    name: StrictStr
    input: StrictStr
    call_id: StrictStr


class CustomToolCallOutput(_Model):
    type: Literal["custom_tool_call_output"]
    call_id: StrictStr
    output: Content


def _item_type(value: Any) -> Any:
    return value.get("type", "message") if isinstance(value, dict) else getattr(value, "type", None)


Item = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[CustomToolCall, Tag("custom_tool_call")]
    | Annotated[CustomToolCallOutput, Tag("custom_tool_call_output")],
    Discriminator(_item_type),
]
Items = Annotated[list[Item], Field(fail_fast=True)]
Input = Annotated[Annotated[StrictStr, Tag(TEXT)] | Annotated[Items, Tag(ARRAY)], Discriminator(_text_or_array)]
ChoiceValue = Annotated[
    Any, AfterValidator(_string_or_boolean), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "boolean"}]})
]


class _Question(_Model):
    name: StrictStr | None = Field(default=None, description="Returned with the answer; no two are equal.")
    instructions: Content | None = None


class PredicateQuestion(_Question):
    """How likely a statement about the input is true."""

    type: Literal["predicate"]


class ChoiceOption(_Model):
    value: ChoiceValue = Field(description="A string and a boolean of the same text are two values.")
    description: StrictStr | None = None


class ChoiceQuestion(_Question):
    """One of the given values."""

    type: Literal["choice"]
    choices: Annotated[list[ChoiceOption], Field(min_length=1, max_length=schema.MAX_OPTIONS, fail_fast=True)]


class ScoreLevel(_Model):
    label: StrictStr
    description: StrictStr | None = None


class ScoreQuestion(_Question):
    """A level out of up to ten, lowest first."""

    type: Literal["score"]
    levels: Annotated[list[ScoreLevel], Field(min_length=1, max_length=schema.MAX_LEVELS, fail_fast=True)]


Question = Annotated[PredicateQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class DecisionRequest(_Model):
    """An input and the questions about it."""

    model: StrictStr | None = None
    input: Input
    questions: Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS, fail_fast=True)]


class PredicateAnswer(BaseModel):
    type: Literal["predicate"]
    name: str | None
    probability: Probability


class ChoiceProbability(BaseModel):
    value: str | bool
    probability: Probability


class ChosenAnswer(BaseModel):
    type: Literal["choice"]
    name: str | None
    choice: str | bool
    confidence: Probability
    probabilities: list[ChoiceProbability]


class LevelProbability(BaseModel):
    label: str
    value: int = Field(description="The level's index.")
    probability: Probability


class ScoredAnswer(BaseModel):
    type: Literal["score"]
    name: str | None
    score: float = Field(ge=0, description="The expected level, Σ i·p.")
    confidence: Probability
    probabilities: list[LevelProbability]


class InputTokensDetails(BaseModel):
    cache_write_tokens: Literal[0]
    cached_tokens: Literal[0]


class OutputTokensDetails(BaseModel):
    reasoning_tokens: Literal[0]


class DecisionUsage(BaseModel):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: Literal[0]
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class DecisionAnswer(BaseModel):
    """One answer a question, in the request's order."""

    answers: list[Annotated[PredicateAnswer | ChosenAnswer | ScoredAnswer, Field(discriminator="type")]]
    model: str
    usage: DecisionUsage
    x_state_truncated: StateTruncated | None = Field(
        default=None, description="Tokens of the input kept and dropped; only where it was cut."
    )


class OpenAIErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = Field(description="Where the request is wrong: `questions[0].choices`.")
    code: str | None


class OpenAIError(BaseModel):
    error: OpenAIErrorDetail


EXAMPLE: dict[str, Any] = {
    "summary": "OpenAI's shape: an input and an array of questions",
    "value": {
        "input": "Our checkout started returning errors and orders are blocked.",
        "questions": [
            {"type": "predicate", "name": "outage", "instructions": "A service is down."},
            {
                "type": "choice",
                "name": "team",
                "instructions": "Which team should handle it?",
                "choices": [{"value": "billing"}, {"value": "technical", "description": "Bugs or outages"}],
            },
            {
                "type": "score",
                "instructions": "How urgent is it?",
                "levels": [{"label": "Can wait"}, {"label": "This week"}, {"label": "Today"}],
            },
        ],
    },
}
