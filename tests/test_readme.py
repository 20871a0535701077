"""The README is held to the code: its tables of settings name every setting with its default."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic_settings import BaseSettings

from clef.settings import ModelSettings
from frontend.settings import Settings as FrontendSettings
from launch.example import BODY
from launch.settings import LaunchSettings
from preprocess.settings import Settings as RequestSettings

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
SETTINGS = (RequestSettings, ModelSettings, FrontendSettings, LaunchSettings)


def documented() -> dict[str, str]:
    """Default by variable, as the tables of the README's section on settings say it."""
    section = README.partition("## Settings")[2].partition("\n## ")[0]
    rows: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| (`.+?`) \| (.*?) \|", section, re.MULTILINE):
        values = [value.strip("` –") for value in defaults.split("`, `")]
        rows |= dict(zip(re.findall(r"[A-Z_]+", names), values, strict=True))
    return rows


def variables(settings: type[BaseSettings]) -> dict[str, str]:
    """Default by variable, as the code has it."""
    prefix = settings.model_config.get("env_prefix") or ""
    found = {}
    for name, field in settings.model_fields.items():
        default = "" if field.is_required() or field.default is None else field.default
        value = ",".join(default) if isinstance(default, tuple) else str(default)
        alias = settings.model_config.get("alias_generator")
        variable = alias.validation_alias(name) if alias else f"{prefix}{name}".upper()
        found[variable] = value
    return found


@pytest.mark.parametrize("settings", SETTINGS)
def test_every_setting_is_in_the_tables_with_its_default(settings):
    rows = documented()
    assert {name: rows.get(name) for name in variables(settings)} == variables(settings)


def test_the_tables_hold_no_setting_that_does_not_exist():
    assert documented().keys() == set().union(*(variables(settings) for settings in SETTINGS))


def test_the_first_request_is_the_one_that_the_launcher_prints():
    shown = re.search(r"/v1/systemone -d '(\{.*?\n\})'", README, re.DOTALL)
    assert shown is not None
    assert json.loads(shown[1]) == json.loads(BODY)
