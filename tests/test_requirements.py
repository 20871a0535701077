"""One list of versions for everything that is installed: by make, in the images, and here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
IMAGES = REQUIREMENTS.with_name("docker")
AGAIN = "run docker/lock.sh"


def listed(path: Path) -> dict[str, Requirement]:
    """The requirements of a file that count on this Python and platform."""
    lines = [line for line in path.read_text().splitlines() if re.match(r"\w", line)]
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(item.name): item for item in found if item.marker is None or item.marker.evaluate()}


CONSTRAINTS = listed(REQUIREMENTS / "constraints.txt")


@pytest.mark.parametrize("name", ["serve", "test", "video", "tracing"])
def test_what_is_asked_for_is_constrained_to_the_same_version(name: str) -> None:
    for package, wanted in listed(REQUIREMENTS / f"{name}.txt").items():
        assert CONSTRAINTS[package].specifier == wanted.specifier, AGAIN


@pytest.mark.parametrize("image", ["triton", "frontend"])
def test_an_image_holds_the_same_versions(image: str) -> None:
    for package, locked in listed(IMAGES / image / "requirements.lock").items():
        assert CONSTRAINTS[package].specifier == locked.specifier, AGAIN


def test_what_is_installed_here_is_what_is_listed() -> None:
    """`make` installed it from the same list. A local part (+cpu) is another build of the version."""
    wanted = [item for name in ("serve", "test", "tracing") for item in listed(REQUIREMENTS / f"{name}.txt").values()]
    differing = {
        name: version(name) for name in reached(wanted) if not CONSTRAINTS[name].specifier.contains(version(name))
    }
    assert not differing, AGAIN


def reached(wanted: list[Requirement]) -> Iterator[str]:
    """The packages, those that they need, and so on; those of other platforms are not installed."""
    seen: set[tuple[str, str]] = set()
    while wanted:
        item = wanted.pop()
        name = canonicalize_name(item.name)
        for extra in ("", *item.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            yield name
            for text in distribution(name).requires or ():
                needed = Requirement(text)
                if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                    wanted.append(needed)


def test_constraints_are_exact() -> None:
    assert all(re.fullmatch(r"==[^*]+", str(item.specifier)) for item in CONSTRAINTS.values())
    assert len(CONSTRAINTS) > 100
