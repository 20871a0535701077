"""The release: complete, of the right shapes, as published, and with a tokenizer of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from clef.errors import ReleaseError
from clef.inspection import Inspected, inspect
from clef.reading import check_reading
from clef.release import CONFIG, open_release
from launch.checksums import Checksum, check_files
from launch.doctor.finding import Finding, fail, ok, warn
from launch.download import REVISION_FILE
from launch.published import TextShape
from launch.releases import RELEASES, KnownRelease
from preprocess.release import RANDOM_WEIGHTS
from preprocess.release_tokens import check_tokens
from preprocess.tokenizer import TokenizerError, Vocabulary

SMALL_BYTES = 64 * 1024 * 1024
AGAIN = "Download it again: python -m launch download clef-flash --dir DIR keeps what is right."


def weights(folder: Path) -> tuple[Finding, Inspected | None]:
    """Whether every weight that the configurations ask for is there, by name and shape."""
    try:
        found = inspect(open_release(folder))
    except ReleaseError as error:
        return fail("release", f"{folder}: {error}", AGAIN), None
    return ok("release", f"{folder}: complete; {found.trunk + found.head:,} numbers, rightly shaped"), found


def text_shape(folder: Path) -> TextShape:
    """Of a release that was found complete."""
    config = json.loads((folder / CONFIG).read_text("utf-8"))["text_config"]
    return TextShape(**{field.name: config[field.name] for field in fields(TextShape) if field.name in config})


def origin(folder: Path) -> Iterator[Finding]:
    """Whether it is one of the published releases, to the byte where that is quick to tell."""
    if (folder / RANDOM_WEIGHTS).is_file():
        yield warn("origin", "random weights: its answers mean nothing", "For real answers download a release.")
        return
    recorded = (folder / REVISION_FILE).read_text("utf-8").strip() if (folder / REVISION_FILE).is_file() else None
    name, release = _known(folder, recorded)
    if release is None:
        said = f"revision {recorded}" if recorded else "no revision recorded"
        yield warn("origin", f"not a release that this version knows ({said})", "Compare it: python -m launch verify.")
        return
    small = {
        file: Checksum("sha256", digest)
        for file, digest in release.sha256.items()
        if not (folder / file).is_file() or (folder / file).stat().st_size < SMALL_BYTES
    }
    findings = check_files(folder, small, lambda count: None)
    label = f"{release.repository} at {release.revision[:12]}"
    if not findings.complete:
        names = ", ".join((*findings.missing, *findings.wrong))
        yield fail("origin", f"{label}, but missing or not as published: {names}", AGAIN.replace("clef-flash", name))
    elif recorded is None:
        advice = f"python -m launch download {name} --dir {folder} verifies every file, without fetching it anew."
        yield warn("origin", f"{label} by its configuration; its weights were never checked here", advice)
    else:
        yield ok("origin", f"{label}, every file checked when it was downloaded; the small ones again now")


def tokenizer(folder: Path) -> Finding:
    """Whether the preprocess step and the model step would take it."""
    try:
        vocabulary = Vocabulary.load(folder)
        check_tokens(vocabulary, folder)
        check_reading(folder)
    except (TokenizerError, ReleaseError) as error:
        return fail("tokenizer", str(error), AGAIN)
    return ok(
        "tokenizer", f"{vocabulary.last_id + 1} ids, each with a row in the model; media tokens as the model has them"
    )


def _known(folder: Path, recorded: str | None) -> tuple[str, KnownRelease | None]:
    for name, release in RELEASES.items():
        config = Checksum("sha256", release.sha256[CONFIG])
        if recorded == release.revision or config.matches(folder / CONFIG, lambda count: None):
            return name, release
    return "", None
