"""Settings of the preprocess step: everything that changes an answer, and every limit on a request.

Read from the environment, prefix `CLEF_`. An error names the variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AliasGenerator, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from preprocess.errors import ValidationFailed
from preprocess.plan import Confidence

MIB = 1024 * 1024

# One image is at least 64 tokens, and one token is 32 x 32 of its pixels: bounds that follow from max_length.
TOKENS_PER_IMAGE = 64
PIXELS_PER_TOKEN = 1_024


Semantics = Literal["joint", "independent"]
Overflow = Literal["reject", "truncate"]
SpecialTokens = Literal["literal", "reference"]
ImageMode = Literal["faithful", "release"]
Digits = Annotated[int, Field(ge=1, le=10)]
Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
UpTo255 = Annotated[int, Field(ge=1, le=255)]
Model = TypeVar("Model", bound=BaseModel)


def _env_name(field: str) -> str:
    return f"CLEF_{field.upper()}"


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class Settings(BaseSettings):
    """Frozen; each default is written here and nowhere else."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        validate_default=True,
        validate_by_name=True,
        validate_by_alias=True,
        alias_generator=AliasGenerator(validation_alias=_env_name),
        protected_namespaces=(),
    )

    release: Path
    model_name: Annotated[str, Field(min_length=1)] = "clef-flash"
    model_aliases: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = (
        "jev-latest",
        "jev-1.13",
        "jev-1.13.0",
        "clef",
        "clef-flash",
        "clef:flash",
        "@cf/cloudflare/clef",
        "@cf/cloudflare/clef-flash",
        "gpt-6-luna",
    )

    semantics: Semantics = "joint"
    confidence: Confidence = "top"
    overflow: Overflow = "reject"
    digits: Digits = 4
    special_tokens: SpecialTokens = "literal"
    image_mode: ImageMode = "faithful"
    videos: bool = False

    max_length: Positive = 16_384
    max_questions: UpTo255 = 64
    max_options: UpTo255 = 255
    max_images: NotNegative = 4
    max_image_bytes: Positive = 4 * MIB
    max_image_pixels: Positive = 16_000_000
    max_images_bytes: Positive = 8 * MIB
    max_video_frames: Positive = 256
    max_video_pixels: Positive = 256_000_000
    max_video_cpu_s: Positive = 4
    # Of one request's images, resized and cut. None: as many as its tokens allow. The adapter lowers it to what the
    # shared memory between the steps holds.
    max_patches_bytes: Positive | None = None
    max_body_bytes: Positive = 13 * MIB
    schema_cache_entries: NotNegative = 512
    # Of Triton's response cache, which whoever starts the server gives it; told here so that frontends know of it.
    response_cache_bytes: NotNegative = 0

    @property
    def images_allowed(self) -> int:
        """The number of images that a request may hold: never more than its tokens have room for."""
        return min(self.max_images, self.max_length // TOKENS_PER_IMAGE)

    @property
    def pixels_together(self) -> int:
        """Source pixels that the images of one request may hold together."""
        return self.max_length * PIXELS_PER_TOKEN

    @property
    def known_models(self) -> tuple[str, ...]:
        """The model's name and its aliases, each once, the name first."""
        return tuple(dict.fromkeys((self.model_name, *self.model_aliases)))

    def overridden(self, parameters: Mapping[str, Any]) -> Self:
        """These settings under a request's Triton parameters; parameters that are not settings are ignored.

        A limit can only be lowered: a higher value than the operator's has no effect.
        Raises ValidationFailed with loc `["parameters", name]` for a value that the setting does not take.
        """
        overrides = _read(_Overrides, parameters)
        update = overrides.model_dump(exclude_unset=True)
        for name in _LIMITS & update.keys():
            update[name] = min(update[name], getattr(self, name))
        return self.model_copy(update=update) if update else self


def deadline(parameters: Mapping[str, Any]) -> float | None:
    """A request's parameter `deadline_ms` in Unix seconds. Raises ValidationFailed where it is no whole number."""
    if "deadline_ms" not in parameters:
        return None
    return _read(_Deadline, parameters).deadline_ms / 1e3


def _read(model: type[Model], parameters: Mapping[str, Any]) -> Model:
    try:
        return model.model_validate(parameters)
    except ValidationError as error:
        issues = error.errors(include_input=False, include_url=False, include_context=False)
        raise ValidationFailed([issue | {"loc": ["parameters", *issue["loc"]]} for issue in issues]) from None


def _not_bool(value: object) -> object:
    # Pydantic reads True as 1; Triton sends a parameter as bool, int or str, so a bool is a mistake of the caller's.
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


class _Overrides(BaseModel):
    # A default here only means "not sent": nothing reads it.
    semantics: Semantics = "joint"
    confidence: Confidence = "top"
    overflow: Overflow = "reject"
    special_tokens: SpecialTokens = "literal"
    digits: Annotated[Digits, BeforeValidator(_not_bool)] = 1
    max_length: Annotated[Positive, BeforeValidator(_not_bool)] = 1
    max_questions: Annotated[UpTo255, BeforeValidator(_not_bool)] = 1
    max_images: Annotated[NotNegative, BeforeValidator(_not_bool)] = 1
    max_body_bytes: Annotated[Positive, BeforeValidator(_not_bool)] = 1


class _Deadline(BaseModel):
    # Triton's own width; what is wider would be no double.
    deadline_ms: Annotated[int, Field(ge=-(2**63), lt=2**63), BeforeValidator(_not_bool)]


_LIMITS = {"max_length", "max_questions", "max_images", "max_body_bytes"}
