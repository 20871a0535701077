"""Whether a release's weights are those that its configurations ask for, by names and shapes: no weight is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path

from clef.errors import ReleaseError
from clef.head_weights import Shape, check_head_shapes, misfits
from clef.release import HEAD_WEIGHTS, SHOWN_NAMES, Release, weight_files


@dataclass(frozen=True, slots=True)
class Inspected:
    """How many numbers the weights are."""

    trunk: int
    head: int

    def bytes(self, trunk_bytes: int) -> int:
        """In memory, with so many bytes for each number of the trunk; the head is float32."""
        return self.trunk * trunk_bytes + self.head * 4


def inspect(release: Release) -> Inspected:
    """Raises ReleaseError where a weight is missing, left over or wrongly shaped, as loading the release would."""
    head = _shapes([release.path / HEAD_WEIGHTS])
    check_head_shapes(head, release.head, HEAD_WEIGHTS)
    trunk = _shapes(weight_files(release.path))
    wanted, ignored = _trunk_shapes(release.path)
    held = {name: shape for name, shape in trunk.items() if not any(re.search(pattern, name) for pattern in ignored)}
    problems = misfits(held, wanted)
    if problems:
        more = f" and {len(problems) - SHOWN_NAMES} more" if len(problems) > SHOWN_NAMES else ""
        raise ReleaseError(f"the trunk's weights do not fit config.json: {'; '.join(problems[:SHOWN_NAMES])}{more}")
    return Inspected(_numbers(held), _numbers(head))


def _shapes(files: Iterable[Path]) -> dict[str, Shape]:
    """From the headers of safetensors files: a length in 8 bytes, then JSON."""
    shapes: dict[str, Shape] = {}
    for path in files:
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        shapes |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    return shapes


def _trunk_shapes(path: Path) -> tuple[dict[str, Shape], set[str]]:
    """What transformers makes of `config.json`, and patterns of names that it does not load."""
    import torch
    from transformers import AutoConfig, Qwen3_5ForConditionalGeneration

    try:
        with torch.device("meta"):
            model = Qwen3_5ForConditionalGeneration(AutoConfig.from_pretrained(path, local_files_only=True))
    except Exception as error:
        # transformers has no one way to say that a configuration makes no sense to it.
        raise ReleaseError(f"config.json makes no sense to transformers: {error}") from error
    shapes = {name: tuple(weight.shape) for name, weight in model.state_dict().items()}
    return shapes, set(model._keys_to_ignore_on_load_unexpected or ())


def _numbers(shapes: dict[str, Shape]) -> int:
    return sum(prod(shape) for shape in shapes.values())
