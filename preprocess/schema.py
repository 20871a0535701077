"""The one validator of the project: a SystemOne request, as the HTTP contract's "Request" section has it.

Laxer than the hosted services, never stricter: fields that are not named here are ignored, at the top and inside a
question. What is refused is refused with the place (`loc` as FastAPI writes it, a question's type after its id) and
never with the value.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from preprocess.assets import inline_assets
from preprocess.errors import InvalidRequest, RequestTooLarge, ValidationFailed
from preprocess.image_references import LEAST_FRAMES, check_image_count, check_video_counts
from preprocess.issues import issues
from preprocess.presets import with_preset
from preprocess.settings import Settings
from preprocess.strict_json import parse_json

MAX_OPTIONS = 255
MAX_LEVELS = 10
NO_VIDEOS = (
    "This server reads no videos: send their frames as images. "
    "To have it read videos: pip install -r requirements/video.txt, and CLEF_VIDEOS=1"
)


def _description(value: Any) -> Any:
    if isinstance(value, str | dict | list) or value is None:
        return value
    raise PydanticCustomError("description_type", "Description should be a string, an object, an array or null")


def _level(value: Any) -> Any:
    if isinstance(value, str | dict | list):
        return value
    raise PydanticCustomError("level_type", "Level should be a string, an object or an array")


def _instructions(value: Any) -> Any:
    if isinstance(value, str | dict | list) or value is None:
        return value
    raise PydanticCustomError("instructions_type", "Instructions should be a string, an object, an array or null")


def _noul_sides(value: Any) -> Any:
    return _at_most(2, value, "A noul may describe 'true' and 'false' alone")


def _options(value: Any, info: ValidationInfo) -> Any:
    limit = info.context["max_options"] if info.context else MAX_OPTIONS
    return _at_most(limit, value, f"A choice may have {limit} options")


def _levels(value: Any) -> Any:
    return _at_most(MAX_LEVELS, value, f"A score may have {MAX_LEVELS} levels")


def _at_most(limit: int, value: Any, message: str) -> Any:
    # Before the entries are looked at, since each of a million could be an issue.
    if isinstance(value, dict | list) and len(value) > limit:
        raise PydanticCustomError(
            "too_long", "{message}, this one has {count}", {"message": message, "count": len(value)}
        )
    return value


def _image(value: Any) -> Any:
    reference = value.get("url") if isinstance(value, dict) else value
    if isinstance(reference, str):
        return reference
    raise PydanticCustomError("image_type", 'Image should be a data URL, base64, or an object {"url": data URL}')


def _videos(value: Any, info: ValidationInfo) -> Any:
    if value is not None and value != [] and not (info.context and info.context["videos"]):
        raise PydanticCustomError("videos_unsupported", NO_VIDEOS)
    return value


def _video(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        message = "Video should be an array of its frames, which are images, or a data URL"
        raise PydanticCustomError("video_type", message)
    if len(value) < LEAST_FRAMES:
        raise PydanticCustomError("video_too_short", "Video should have two frames at least: send one as an image")
    return value


Description = Annotated[Any, AfterValidator(_description)]
Instructions = Annotated[Any, AfterValidator(_instructions)]
Level = Annotated[Any, AfterValidator(_level)]
Image = Annotated[str, BeforeValidator(_image)]
# Frames, two at least; or a file, alone: a union would write its branches into an error's place.
Video = Annotated[list[Image], BeforeValidator(_video)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class Noul(_Model):
    """Yes or no. `criteria` may describe either side; a null there takes the default description away."""

    type: Literal["noul"]
    instructions: Instructions = None
    criteria: Annotated[dict[Literal["true", "false"], Description] | None, BeforeValidator(_noul_sides)] = None


class Choice(_Model):
    """One of up to 255 named options; a null description is none."""

    type: Literal["choice"]
    instructions: Instructions = None
    criteria: Annotated[dict[str, Description], Field(min_length=1), BeforeValidator(_options)]


class Score(_Model):
    """A level out of up to ten, lowest first."""

    type: Literal["score"]
    instructions: Instructions = None
    criteria: Annotated[list[Level], Field(min_length=1), BeforeValidator(_levels)]


Question = Annotated[Noul | Choice | Score, Field(discriminator="type")]


class Request(_Model):
    """A request that may be encoded. `model` is as the client wrote it, or the server's own name; assets are images,
    and the questions of `x_preset` are among `questions`.
    """

    model: str
    state: Any
    questions: Annotated[dict[Annotated[str, Field(min_length=1)], Question], Field(min_length=1)]
    images: list[Image] | None = None
    videos: Annotated[list[Video] | None, BeforeValidator(_videos)] = Field(default=None, repr=False)
    x_independent: StrictBool | None = None
    x_truncate: StrictBool | None = None
    x_preset: str | None = None


def parse_request(body: bytes, settings: Settings) -> Request:
    """The request in `body`. Raises InvalidRequest (400), RequestTooLarge (413), ValidationFailed (422)."""
    if len(body) > settings.max_body_bytes:
        raise RequestTooLarge(f"The body has {len(body)} bytes; {settings.max_body_bytes} are allowed.")
    fields = parse_json(body)
    if not isinstance(fields, dict):
        raise InvalidRequest("The body is not a JSON object.")
    fields = with_preset(fields)
    _check_counts(fields, settings)
    fields = inline_assets(fields, settings)
    named = fields if fields.get("model") is not None else fields | {"model": settings.model_name}
    try:
        request = Request.model_validate(
            named, context={"max_options": settings.max_options, "videos": settings.videos}
        )
    except ValidationError as error:
        raise ValidationFailed(issues(error, "body")) from None
    if request.model not in settings.known_models:
        names = ", ".join(settings.known_models)
        raise InvalidRequest(f"Unknown model. This server answers to: {names}.", error_type="api_usage_error")
    return request


def _check_counts(body: dict[str, Any], settings: Settings) -> None:
    # Before anything inside is looked at, so that a body full of faults costs no more than its parse.
    questions, images, videos = body.get("questions"), body.get("images"), body.get("videos")
    if isinstance(questions, dict) and len(questions) > settings.max_questions:
        message = f"A request may have {settings.max_questions} questions, this one has {len(questions)}"
        raise ValidationFailed.at(["body", "questions"], message, "too_long")
    if isinstance(images, list):
        check_image_count(len(images), settings)
    if isinstance(videos, list) and settings.videos:
        check_video_counts(videos, settings)
