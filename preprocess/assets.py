"""A request's `assets`: images that stand under placeholders inside its texts, as TypeSafe's clients send them.

As `typesafe-sdk` 0.7.5 sends and documents them: `{"assets": {placeholder: {"type": "image", ...}}}`, the image either
as base64 or as a part of a multipart body. An image is known to the model by its place in the request alone, so every
placeholder becomes the words `image k`, k from 1 in the order of `assets`. Only values are read for placeholders:
the keys of an object, option ids among them, and question ids are names that go back to the client as they came.
A placeholder that no asset declares is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr, TypeAdapter, ValidationError

from preprocess.errors import RequestTooLarge, ValidationFailed
from preprocess.image_references import check_image_count
from preprocess.issues import issues
from preprocess.settings import Settings

# Each placeholder gets a mark of one character that no text can hold: JSON with half a surrogate pair is refused.
_FIRST_MARK = 0xD800
_MARKS = 0x800


class Asset(BaseModel):
    """One image. The format is read from its bytes, whatever `format` says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["image"] | None = None
    format: Literal["png", "jpg", "jpeg", "webp"] | None = None
    data_base64: StrictStr | None = Field(default=None, description="The image's file in base64.", repr=False)
    part: StrictStr | None = Field(
        default=None, description="In a multipart body: the name of the part that holds the file, instead of base64."
    )


Assets = Annotated[dict[Annotated[str, Field(min_length=1)], Asset], Field(min_length=1)]
_ASSETS: TypeAdapter[dict[str, Asset]] = TypeAdapter(Assets)


def inline_assets(body: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The request with `images` in place of `assets`, and its texts with `image k` in place of placeholders.

    Raises ValidationFailed (422) and RequestTooLarge (413).
    """
    if body.get("assets") is None:
        return body
    resolved, images = resolve_assets(body, {}, settings)
    return resolved | {"images": images}


def resolve_assets(
    body: dict[str, Any], parts: Mapping[str, bytes], settings: Settings
) -> tuple[dict[str, Any], list[bytes | str]]:
    """The request with its texts resolved, and its images in order: a part's bytes, or base64 not decoded yet.

    `parts` are those of a multipart body; each belongs to exactly one asset.
    Raises ValidationFailed (422) and RequestTooLarge (413).
    """
    if body.get("assets") is None:
        _check_claims({}, parts)
        return body, []
    assets = _read(body["assets"], settings)
    if body.get("images"):
        raise ValidationFailed.at(["body", "images"], "Images stand in 'images' or in 'assets', not in both", "images")
    _check_claims(assets, parts)
    images = [_source(placeholder, asset, parts) for placeholder, asset in assets.items()]
    placeholders = _Placeholders(list(assets), settings.max_body_bytes)
    resolved = {name: _field(name, value, placeholders) for name, value in body.items() if name != "assets"}
    if unused := [placeholder for placeholder in assets if placeholder not in placeholders.used]:
        message = "Nothing in the state, the instructions or the criteria refers to this asset"
        raise ValidationFailed(
            {"loc": ["body", "assets", placeholder], "msg": message, "type": "asset_unused"} for placeholder in unused
        )
    return resolved, images


def _read(value: Any, settings: Settings) -> dict[str, Asset]:
    if isinstance(value, dict):
        check_image_count(len(value), settings)
        if len(value) > _MARKS:
            raise RequestTooLarge(f"The request has {len(value)} assets; {_MARKS} are allowed.")
    try:
        return _ASSETS.validate_python(value)
    except ValidationError as error:
        raise ValidationFailed(issues(error, "body", "assets")) from None


def _check_claims(assets: Mapping[str, Asset], parts: Mapping[str, bytes]) -> None:
    claimed: set[str] = set()
    for placeholder, asset in assets.items():
        if asset.part is None:
            continue
        if asset.part in claimed:
            raise _refused(placeholder, "part", "Another asset has this part: each belongs to exactly one")
        if asset.part not in parts:
            raise _refused(placeholder, "part", "The body has no such part: parts come as multipart/form-data")
        claimed.add(asset.part)
    if unclaimed := [name for name in parts if name not in claimed]:
        message = "No asset names this part"
        raise ValidationFailed({"loc": ["body", name], "msg": message, "type": "asset_part"} for name in unclaimed)


def _source(placeholder: str, asset: Asset, parts: Mapping[str, bytes]) -> bytes | str:
    if asset.part is not None:
        return parts[asset.part]
    if asset.data_base64 is None:
        raise _refused(placeholder, "data_base64", "An asset has 'data_base64', or 'part' in a multipart body")
    return asset.data_base64


def _refused(placeholder: str, field: str, message: str) -> ValidationFailed:
    return ValidationFailed.at(["body", "assets", placeholder, field], message, f"asset_{field}")


class _Placeholders:
    """From texts with placeholders to texts with `image k`; `used` are those that were met."""

    def __init__(self, placeholders: Sequence[str], max_growth: int) -> None:
        words = [(name, chr(_FIRST_MARK + k), f"image {k + 1}") for k, name in enumerate(placeholders)]
        # Longest first: one that stands inside another is no placeholder there.
        self._words = sorted(words, key=lambda word: -len(word[0]))
        self._room = max_growth
        self.used: set[str] = set()

    def replaced(self, value: Any) -> Any:
        """The JSON value, with every text in it replaced."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.replaced(item) for item in value]
        if isinstance(value, dict):
            return {key: self.replaced(item) for key, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        # Marks first and words last, so that no placeholder is found in the words of another.
        met = []
        for name, mark, word in self._words:
            if count := text.count(name):
                self._room -= count * (len(word) - len(name))
                text = text.replace(name, mark)
                met.append((mark, word))
                self.used.add(name)
        # Placeholders of a letter or two would make a text many times as long as what was sent.
        if self._room < 0:
            raise RequestTooLarge("With its placeholders replaced, the request is longer than a body may be.")
        for mark, word in met:
            text = text.replace(mark, word)
        return text


def _field(name: str, value: Any, placeholders: _Placeholders) -> Any:
    if name == "state":
        return placeholders.replaced(value)
    if name == "questions" and isinstance(value, dict):
        return {question_id: _question(question, placeholders) for question_id, question in value.items()}
    return value


def _question(question: Any, placeholders: _Placeholders) -> Any:
    if not isinstance(question, dict):
        return question
    texts = ("instructions", "criteria")
    return {name: placeholders.replaced(value) if name in texts else value for name, value in question.items()}
