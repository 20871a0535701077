"""Settings come from `CLEF_*`; a request's parameters may change answers, and may only lower limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from preprocess.errors import ValidationFailed
from preprocess.settings import Settings, deadline


def test_the_defaults_are_the_contracts() -> None:
    settings = Settings(release=Path("r"))
    assert (settings.semantics, settings.confidence, settings.overflow) == ("joint", "top", "reject")
    assert (settings.special_tokens, settings.image_mode, settings.digits) == ("literal", "faithful", 4)
    assert (settings.max_length, settings.max_questions, settings.max_options) == (16_384, 64, 255)
    assert (settings.max_images, settings.max_image_pixels) == (4, 16_000_000)
    assert (settings.max_image_bytes, settings.max_images_bytes) == (4 << 20, 8 << 20)
    assert settings.max_body_bytes == 13 << 20
    names = {"jev-latest", "clef", "clef-flash", "@cf/cloudflare/clef-flash", "clef:flash"}
    assert names <= set(settings.known_models)
    assert settings.known_models[0] == "clef-flash"


def test_every_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, Any] = {
        "release": Path("/models/clef"),
        "model_name": "clef",
        "model_aliases": ("a", "b"),
        "semantics": "independent",
        "confidence": "typesafe",
        "overflow": "truncate",
        "digits": 6,
        "special_tokens": "reference",
        "image_mode": "release",
        "videos": True,
        "max_length": 65_536,
        "max_questions": 255,
        "max_options": 10,
        "max_images": 8,
        "max_image_bytes": 1,
        "max_image_pixels": 2,
        "max_images_bytes": 3,
        "max_video_frames": 7,
        "max_video_pixels": 8,
        "max_video_cpu_s": 9,
        "max_patches_bytes": 4,
        "max_body_bytes": 5,
        "schema_cache_entries": 0,
        "response_cache_bytes": 6,
    }
    assert values.keys() == Settings.model_fields.keys()
    for name, value in values.items():
        monkeypatch.setenv(f"CLEF_{name.upper()}", ", ".join(value) if isinstance(value, tuple) else str(value))
    settings = Settings()
    assert settings.model_dump() == values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLEF_MAX_LENGTH", "many"),
        ("CLEF_MAX_LENGTH", "0"),
        ("CLEF_MAX_QUESTIONS", "256"),
        ("CLEF_SEMANTICS", "both"),
        ("CLEF_DIGITS", "0"),
        ("CLEF_MODEL_NAME", ""),
    ],
)
def test_an_error_names_the_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("CLEF_RELEASE", "/r")
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=name):
        Settings()


def test_a_missing_release_is_named() -> None:
    with pytest.raises(ValidationError, match="CLEF_RELEASE"):
        Settings()


def test_settings_are_frozen(settings: Settings) -> None:
    with pytest.raises(ValidationError):
        settings.digits = 5


def test_parameters_override_what_changes_an_answer(settings: Settings) -> None:
    changed = settings.overridden(
        {
            "semantics": "independent",
            "confidence": "typesafe",
            "overflow": "truncate",
            "digits": "6",
            "special_tokens": "reference",
        }
    )
    assert (changed.semantics, changed.confidence, changed.overflow) == ("independent", "typesafe", "truncate")
    assert (changed.digits, changed.special_tokens) == (6, "reference")
    assert changed.max_length == settings.max_length
    assert settings.semantics == "joint"


@pytest.mark.parametrize("name", ["max_questions", "max_images", "max_length", "max_body_bytes"])
def test_parameters_lower_a_limit_and_never_raise_it(settings: Settings, name: str) -> None:
    own = getattr(settings, name)
    assert getattr(settings.overridden({name: 1}), name) == 1
    assert getattr(settings.overridden({name: own}), name) == own
    raised = own + 1 if name != "max_questions" else 255
    assert getattr(settings.overridden({name: raised}), name) == own


def test_other_parameters_are_ignored(settings: Settings) -> None:
    parameters = {"deadline_ms": 5, "release": "/etc", "max_options": 1, "model_name": "x", "image_mode": "release"}
    assert settings.overridden(parameters) == settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("semantics", "secret"),
        ("confidence", 5),
        ("overflow", True),
        ("special_tokens", ""),
        ("digits", "secret"),
        ("digits", True),
        ("digits", 11),
        ("digits", 1.5),
        ("max_length", 0),
        ("max_length", False),
        ("max_images", -1),
        ("max_questions", 256),
        ("max_body_bytes", None),
    ],
)
def test_a_wrong_parameter_is_refused_by_name_alone(settings: Settings, name: str, value: object) -> None:
    with pytest.raises(ValidationFailed) as caught:
        settings.overridden({name: value})
    assert [issue["loc"] for issue in caught.value.detail] == [["parameters", name]]
    assert "secret" not in caught.value.to_json()


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [({}, None), ({"deadline_ms": 1_500}, 1.5), ({"deadline_ms": "1500"}, 1.5), ({"deadline_ms": -1, "x": 1}, -0.001)],
)
def test_a_deadline_is_a_whole_number_of_milliseconds(parameters: dict[str, object], seconds: float | None) -> None:
    assert deadline(parameters) == seconds


@pytest.mark.parametrize(
    "value",
    [True, False, 1.5, "1.5", "secret", "", None, float("inf"), float("nan"), 2**63, "9" * 400, "-" + "9" * 400],
)
def test_any_other_deadline_is_refused(value: object) -> None:
    with pytest.raises(ValidationFailed) as caught:
        deadline({"deadline_ms": value})
    assert [issue["loc"] for issue in caught.value.detail] == [["parameters", "deadline_ms"]]
    assert "secret" not in caught.value.to_json()


def test_images_are_bounded_by_the_tokens_too(settings: Settings) -> None:
    assert settings.images_allowed == 4
    small = settings.overridden({"max_length": 130})
    assert (small.images_allowed, small.pixels_together) == (2, 130 * 1_024)
