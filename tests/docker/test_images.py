"""The images without an engine to build them: their Dockerfiles, what they copy and install."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml

from launch.triton import REPOSITORY_ROOT

DOCKER = REPOSITORY_ROOT / "docker"
IMAGES = ["triton", "frontend"]
# What each image's processes import first.
ENTRIES = {
    "triton": "launch.__main__, launch.doctor.examination, launch.download, launch.dev_release, launch.verify, "
    "clef.model, preprocess.preprocessor, postprocess.answers",
    "frontend": "frontend.__main__, frontend.app, frontend.keys, psycopg, uvloop, httptools",
}


def pins(path: Path) -> dict[str, str]:
    """Version by package, of the lines `name[extra]==version`."""
    lines = re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", path.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


@pytest.mark.parametrize("image", IMAGES)
def test_the_linter_finds_nothing(image: str) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKER / image / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("image", IMAGES)
def test_bases_are_pinned_and_nothing_runs_as_root(image: str) -> None:
    text = (DOCKER / image / "Dockerfile").read_text()
    assert all(re.search(r":\d+\.\d+", base) for base in re.findall(r"^ARG \w+=(\S+)", text, re.MULTILINE))
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["1000:1000"]


@pytest.mark.parametrize("image", IMAGES)
def test_every_package_is_locked_at_the_projects_version(image: str) -> None:
    locked = pins(DOCKER / image / "requirements.lock")
    wanted = re.findall(r"^([\w-]+)", (DOCKER / image / "requirements.in").read_text(), re.MULTILINE)
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in wanted} <= locked.keys()
    project = pins(REPOSITORY_ROOT / "requirements/serve.txt") | pins(REPOSITORY_ROOT / "requirements/gpu.txt")
    differing = {name for name, version in project.items() if locked.get(name, version) != version}
    assert not differing, "run docker/lock.sh"


@pytest.mark.parametrize("image", IMAGES)
def test_what_is_copied_and_locked_is_all_that_is_imported(image: str, tmp_path: Path) -> None:
    dockerfile = (DOCKER / image / "Dockerfile").read_text()
    ignored = (DOCKER / image / "Dockerfile.dockerignore").read_text().splitlines()
    for source, target in re.findall(r"^COPY (\S+) /opt/clef/(\S+)$", dockerfile, re.MULTILINE):
        assert any(source == line[1:] or source.startswith(f"{line[1:]}/") for line in ignored if line[0] == "!")
        place = tmp_path / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY_ROOT / source).is_dir():
            shutil.copytree(REPOSITORY_ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY_ROOT / source, place)
    _link_packages(pins(DOCKER / image / "requirements.lock"), tmp_path / "packages")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(tmp_path / 'packages')!r}]; import {ENTRIES[image]}"
    done = subprocess.run([sys.executable, "-ISBc", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def _link_packages(names: Iterable[str], folder: Path) -> None:
    """A folder with these packages alone, as far as they are installed here: CUDA's are not."""
    folder.mkdir()
    site = Path(sysconfig.get_path("purelib"))
    for name in names:
        with suppress(PackageNotFoundError):
            for file in distribution(name).files or ():
                top = folder / file.parts[0]
                if file.parts[0] not in ("..", "__pycache__") and not top.exists():
                    top.symlink_to(site / file.parts[0])


def test_compose_is_valid_pinned_and_hardened() -> None:
    file = DOCKER / "compose.yaml"
    check = Path(sys.executable).with_name("check-jsonschema")
    subprocess.run([check, "--builtin-schema", "vendor.compose-spec", file], check=True, capture_output=True)
    compose = yaml.safe_load(file.read_text())
    for name, service in compose["services"].items():
        assert service["read_only"], name
        assert service["image"] in ("clef-triton", "clef-frontend") or re.search(r":v?\d+\.\d+\.\d+", service["image"])
        assert name in ("edge", "grafana") or "ports" not in service
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in compose["volumes"] or source.startswith("${") or (DOCKER / source).exists(), volume
    assert compose["networks"]["inside"]["internal"]


def test_the_image_is_ready_when_the_file_is_there() -> None:
    dockerfile = (DOCKER / "triton/Dockerfile").read_text()
    command = json.loads(dockerfile.partition("HEALTHCHECK")[2].partition("CMD ")[2].splitlines()[0])
    assert command == ["test", "-e", "/tmp/triton-ready"]
