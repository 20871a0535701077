"""A release on disk: its two configurations, and whether its weight files are whole. Weights are loaded elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from clef.errors import ReleaseError

ARCHITECTURE = "Qwen3_5ForConditionalGeneration"
MODEL_TYPE = "qwen3_5"
SHOWN_NAMES = 8
CONFIG = "config.json"
HEAD_CONFIG = "joint_head_config.json"
HEAD_WEIGHTS = "joint_head.safetensors"
WEIGHTS = "model.safetensors"
WEIGHT_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """`joint_head_config.json`."""

    hidden_size: int
    width: int
    routing_layers: int
    layers: int
    heads: int
    feedforward: int


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose files are there and fit each other."""

    path: Path
    head: HeadConfig


def open_release(path: Path) -> Release:
    """Look the directory over. Raises ReleaseError with a sentence that names the file and what is wrong with it."""
    if not path.is_dir():
        raise ReleaseError(f"the release {path} is not a directory")
    config = _read_json(path / CONFIG)
    if config.get("architectures") != [ARCHITECTURE]:
        raise ReleaseError(f"{CONFIG}: architectures must be [{ARCHITECTURE!r}], not {config.get('architectures')!r}")
    if config.get("model_type") != MODEL_TYPE:
        raise ReleaseError(f"{CONFIG}: model_type must be {MODEL_TYPE!r}, not {config.get('model_type')!r}")
    head = _head_config(_read_json(path / HEAD_CONFIG))
    text = config.get("text_config")
    hidden = text.get("hidden_size") if isinstance(text, dict) else None
    if hidden != head.hidden_size:
        raise ReleaseError(f"{HEAD_CONFIG}: hidden_size is {head.hidden_size}, but {CONFIG} says {hidden}")
    _check_shards(path)
    _weight_names(path / HEAD_WEIGHTS)
    return Release(path, head)


def weight_files(path: Path) -> list[Path]:
    """The files that hold the trunk's weights. Raises ReleaseError."""
    index = path / WEIGHT_INDEX
    return sorted({path / place for place in _shards(index).values()}) if index.exists() else [path / WEIGHTS]


def shorten(names: Iterable[str]) -> str:
    """Some names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - SHOWN_NAMES} more" if len(ordered) > SHOWN_NAMES else ""
    return ", ".join(ordered[:SHOWN_NAMES]) + more


def _head_config(values: dict[str, Any]) -> HeadConfig:
    # Dropout acts in training alone; releases may name it.
    given = {name: value for name, value in values.items() if name != "dropout"}
    wanted = [field.name for field in fields(HeadConfig)]
    if set(given) != set(wanted):
        raise ReleaseError(f"{HEAD_CONFIG} must hold {', '.join(wanted)}; it holds {', '.join(sorted(values))}")
    for name, value in given.items():
        if type(value) is not int or value < 1:
            raise ReleaseError(f"{HEAD_CONFIG}: {name} must be a positive integer")
    config = HeadConfig(**given)
    if config.width % config.heads:
        raise ReleaseError(f"{HEAD_CONFIG}: width {config.width} is not a multiple of heads {config.heads}")
    return config


def _check_shards(path: Path) -> None:
    index = path / WEIGHT_INDEX
    if not index.exists():
        _weight_names(path / WEIGHTS)
        return
    places = _shards(index)
    for shard in sorted(set(places.values())):
        held = _weight_names(path / shard)
        listed = {name for name, place in places.items() if place == shard}
        if held != listed:
            raise ReleaseError(f"{shard} and {WEIGHT_INDEX} disagree about {shorten(held ^ listed)}")


def _shards(index: Path) -> dict[str, str]:
    """The file of each weight."""
    places = _read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ReleaseError(f"{WEIGHT_INDEX} has no weight_map")
    return places


def _weight_names(file: Path) -> set[str]:
    """Names in a safetensors file; opening it also holds its size against its header."""
    if not file.is_file():
        raise ReleaseError(f"{file.name} is missing from the release")
    try:
        with safe_open(file, "pt") as weights:
            return set(weights.keys())
    except (OSError, SafetensorError) as error:
        raise ReleaseError(f"{file.name} is cut short or damaged ({error}): download it again") from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        values = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ReleaseError(f"{file.name} is missing from the release") from None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{file.name} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ReleaseError(f"{file.name} must hold a JSON object")
    return values
