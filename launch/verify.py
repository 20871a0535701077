"""`python -m launch verify`: a release's own code beside ours, on the same requests, weights and device.

Each side loads the release for itself, one after the other, so that no more memory is needed than to serve it. Ours
reads text and images as the publisher does (`reference`, `release`); each request is computed alone, and in company.
"""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from launch.errors import LaunchError
from launch.release_code import MODULE, SHA256, load_model, load_module, sha256

Floats = NDArray[np.float32]
MAX_LENGTH = 16_384
COMPANY = 4
"""Requests of one micro-batch at most."""
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05}
"""In float32 of the logits. In bfloat16 of the probabilities: the release computes its head in bfloat16, ours stays in
float32, and kernels are chosen by the batch's shape."""


@dataclass(frozen=True)
class Side:
    """What one side makes of a request: ids [T], options of each question [Q], logits [O] in head order."""

    ids: list[int]
    options: list[int]
    logits: Floats


@dataclass(frozen=True)
class Compared:
    """The largest differences over one request; `ids`: the first token that differs, None where none does."""

    name: str
    tokens: int
    ids: int | None
    logits: float = float("inf")
    probabilities: float = float("inf")

    def within(self, dtype: str) -> bool:
        off = self.logits if dtype == "float32" else self.probabilities
        return self.ids is None and off <= TOLERANCE[dtype]


def verify(
    release: Path, bodies: Mapping[str, dict[str, Any]], device: str, dtype: str, say: Callable[[str], None]
) -> None:
    """Says a line a request. Raises LaunchError where a request differs by more than the tolerance, or cannot be run.

    Executes the release's `joint_schema_model.py`: whoever calls this has agreed to it.
    """
    module = release / MODULE
    if not module.is_file():
        raise LaunchError(f"{release} has no {MODULE}, so there is nothing to compare with.")
    digest = sha256(module)
    known = "as published with Clef and Clef-Flash" if digest == SHA256 else "NOT the file that Cloudflare published"
    say(f"running {module}: sha256 {digest[:16]}…, {known}")
    theirs = list(_theirs(release, bodies, device, dtype))
    gc.collect()
    ours = _ours(release, bodies, device, dtype)
    say(f"on {device}, {dtype}; largest differences, alone or in company:\n")
    say(f"{'request':26} {'tokens':>6} {'logits':>9} {'probabilities':>13}")
    found = [compare(*sides) for sides in zip(bodies, theirs, ours, strict=True)]
    for row in found:
        say(_line(row, row.within(dtype)))
    bad = [row.name for row in found if not row.within(dtype)]
    kind = "logits" if dtype == "float32" else "probabilities"
    if bad:
        raise LaunchError(
            f"{len(bad)} of {len(found)} requests differ by more than {TOLERANCE[dtype]:g} in {kind}: "
            f"{', '.join(bad)}. Do not serve this release with this version: its answers are not those of its "
            "publisher's code."
        )
    say(f"\nall {len(found)} requests agree: within {TOLERANCE[dtype]:g} in {kind}")


def read_bodies(file: Path) -> dict[str, dict[str, Any]]:
    """SystemOne bodies, one a line, named by their lines. Raises LaunchError."""
    try:
        lines = [line for line in file.read_text("utf-8").splitlines() if line.strip()]
        bodies = {f"line {number}": json.loads(line) for number, line in enumerate(lines, start=1)}
    except (OSError, ValueError) as error:
        raise LaunchError(f"{file} cannot be read as one JSON request a line: {error}.") from None
    if not bodies or not all(isinstance(body, dict) for body in bodies.values()):
        raise LaunchError(f"{file} must hold one JSON object a line.")
    if any(body.get("videos") for body in bodies.values()):
        raise LaunchError(
            "Requests with videos are not compared: the publisher's processor needs torchvision for them."
        )
    return bodies


def compare(name: str, theirs: Side, ours: list[Side]) -> Compared:
    """One request; `ours` is what it was alone, and what it was in company."""
    tokens = len(theirs.ids)
    for side in ours:
        if side.ids != theirs.ids:
            pairs = zip(side.ids, theirs.ids, strict=False)
            first = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(side.ids), tokens))
            return Compared(name, tokens, first)
        if side.options != theirs.options or not np.isfinite(side.logits).all():
            return Compared(name, tokens, None)
    expected = _probabilities(theirs)
    return Compared(
        name,
        tokens,
        None,
        logits=max(float(np.abs(side.logits - theirs.logits).max()) for side in ours),
        probabilities=max(float(np.abs(_probabilities(side) - expected).max()) for side in ours),
    )


def _line(row: Compared, good: bool) -> str:
    mark = "" if good else "  DIFFERS"
    if row.ids is not None:
        return f"{row.name:26} {row.tokens:6}   token ids differ, from token {row.ids} on{mark}"
    return f"{row.name:26} {row.tokens:6} {row.logits:9.1e} {row.probabilities:13.1e}{mark}"


def _probabilities(side: Side) -> Floats:
    parts = np.split(side.logits.astype(np.float64), np.cumsum(side.options)[:-1])
    exponents = [np.exp(part - part.max()) for part in parts]
    made: Floats = np.concatenate([part / part.sum() for part in exponents]).astype(np.float32)
    return made


def _theirs(release: Path, bodies: Mapping[str, dict[str, Any]], device: str, dtype: str) -> Iterator[Side]:
    import torch

    module = load_module(release / MODULE)
    model, processor = load_model(module, release, device, dtype)
    for body in bodies.values():
        request = {**body, "images": _pictures(release, body)}
        record = module.encode_record(processor.tokenizer, request, max_length=MAX_LENGTH, processor=processor)
        with torch.inference_mode():
            logits = model(module.collate_records([record], 0, torch.device(device)))[0]
        yield Side(
            list(record.input_ids),
            [len(question.option_spans) for question in record.questions],
            torch.cat(logits).float().cpu().numpy(),
        )


def _pictures(release: Path, body: Mapping[str, Any]) -> list[Any]:
    from PIL import Image

    from preprocess.image_references import decode_reference

    files = [decode_reference(image, index, _settings(release)) for index, image in enumerate(body.get("images") or ())]
    return [Image.open(io.BytesIO(file)).convert("RGB") for file in files]


def _ours(release: Path, bodies: Mapping[str, dict[str, Any]], device: str, dtype: str) -> list[list[Side]]:
    from clef.batch import Record, split_records
    from clef.model import ClefModel
    from clef.settings import read_settings
    from preprocess.preprocessor import Preprocessor

    preprocess = Preprocessor(_settings(release))
    records: list[Record] = []
    for body in bodies.values():
        records += split_records(preprocess(json.dumps(body).encode(), None, {}))
    model = ClefModel.load(read_settings(release=release, device=device, dtype=dtype, state_cache_bytes=0), device)
    model.warm_up()  # which decides whether records are packed, as where it serves
    for record in records:
        model.check(record)
    alone = [model.score([record])[0] for record in records]
    company: list[Floats] = []
    for start in range(0, len(records), COMPANY):
        company += model.score(records[start : start + COMPANY])
    return [
        [Side(record.input_ids.tolist(), record.option_counts.tolist(), logits) for logits in both]
        for record, *both in zip(records, alone, company, strict=True)
    ]


def _settings(release: Path) -> Any:
    """As the publisher reads a request, whatever this machine's settings are."""
    from preprocess.settings import Settings

    return Settings(
        release=release,
        semantics="joint",
        special_tokens="reference",
        image_mode="release",
        overflow="truncate",
        max_length=MAX_LENGTH,
    )
