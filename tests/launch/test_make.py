"""The commands of the Makefile, over a stand-in for Python that writes down what it was asked to do."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launch.triton import REPOSITORY_ROOT

# Answers as Python does where the set-up asks; makes an environment that holds itself; else notes its arguments.
STAND_IN = """#!/bin/sh
case "$*" in
*version_info*print* | "-c import sys; print"*) echo 3.11 ;;
*base_prefix*) echo /opt/python ;;
-c*) ;;
"-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*)
    echo "$* ${CLEF_RELEASE:+release=$CLEF_RELEASE}" >>calls
    case "$*" in *"$(cat failing 2>/dev/null || echo none)"*) exit 3 ;; esac
    ;;
esac
"""

Make = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "launch").mkdir()
    for path in ("Makefile", "launch/venv.sh"):
        shutil.copy(REPOSITORY_ROOT / path, tmp_path / path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "debian.sh").touch()  # installs for the whole machine
    shutil.copytree(REPOSITORY_ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(0o755)
    return tmp_path


@pytest.fixture
def make(checkout: Path) -> Make:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("CLEF_", "MAKE", "MFLAGS"))}
        return subprocess.run(
            ["make", *arguments, f"PYTHON={checkout / 'stand-in'}"],
            cwd=checkout,
            env=clean | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def calls(checkout: Path) -> list[str]:
    """What Python was asked to do since the last time, without pip's options."""
    path = checkout / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.replace(" --disable-pip-version-check --progress-bar off", "").strip() for line in lines]


SERVE_INSTALLS = [
    "-m pip install -c requirements/constraints.txt -r requirements/serve.txt",
    "-m pip install --no-deps -r requirements/embedded-triton.txt",
]
TEST_INSTALLS = [
    "-m pip install -c requirements/constraints.txt -r requirements/test.txt",
    "-m pip install --no-deps -r requirements/test-no-deps.txt",
]
LINTS = ["-m ruff check", "-m ruff format --check", "-m mypy"]


def test_serve_installs_once_and_serves(checkout: Path, make: Make) -> None:
    assert make("serve").returncode == 0
    assert calls(checkout) == [*SERVE_INSTALLS, "-m launch serve"]
    again = make("serve")
    assert (again.returncode, again.stdout) == (0, "")
    assert calls(checkout) == ["-m launch serve"]


def test_serve_installs_anew_when_the_requirements_have_changed(checkout: Path, make: Make) -> None:
    make("serve")
    calls(checkout)
    stamp = (checkout / ".venv" / ".serve").stat().st_mtime
    os.utime(checkout / "requirements" / "serve.txt", (stamp + 1, stamp + 1))
    make("serve")
    assert calls(checkout) == [*SERVE_INSTALLS, "-m launch serve"]


def test_serve_passes_the_release_on(checkout: Path, make: Make) -> None:
    make("serve", "RELEASE=/models/a release")
    assert calls(checkout)[-1] == "-m launch serve release=/models/a release"


def test_a_failed_installation_fails_and_is_tried_again(checkout: Path, make: Make) -> None:
    (checkout / "failing").write_text("serve.txt")
    assert make("serve").returncode != 0
    assert calls(checkout) == SERVE_INSTALLS[:1]
    (checkout / "failing").unlink()
    assert make("serve").returncode == 0
    assert calls(checkout) == [*SERVE_INSTALLS, "-m launch serve"]


def test_no_triton_is_installed_where_there_is_one(checkout: Path, make: Make) -> None:
    (checkout / "bin").mkdir()
    (checkout / "bin" / "tritonserver").touch(0o755)
    assert make("serve", PATH=f"{checkout / 'bin'}:{os.environ['PATH']}").returncode == 0
    assert calls(checkout) == [SERVE_INSTALLS[0], "-m launch serve"]
    shutil.rmtree(checkout / ".venv")
    assert make("serve", CLEF_TRITON="/opt/mine").returncode == 0
    assert calls(checkout) == [SERVE_INSTALLS[0], "-m launch serve"]


def test_test_lints_and_runs_every_test(checkout: Path, make: Make) -> None:
    assert make("test").returncode == 0
    assert calls(checkout) == [*SERVE_INSTALLS, *TEST_INSTALLS, *LINTS, "-m pytest -n 2 --dist loadgroup"]


@pytest.mark.parametrize("failing", ["ruff check", "ruff format", "mypy", "pytest"])
def test_test_fails_with_any_of_its_parts(checkout: Path, make: Make, failing: str) -> None:
    (checkout / "failing").write_text(failing)
    assert make("test").returncode != 0
    assert calls(checkout)[-1].startswith(f"-m {failing}")


def test_help_names_every_command(make: Make) -> None:
    said = make("help").stdout
    assert len({len(line) - len(line[19:].lstrip()) for line in said.splitlines()}) == 1, "one column of explanations"
    assert [line.split()[1] for line in said.splitlines()] == [
        *("help", "serve", "test", "test-clients", "test-videos", "test-kernels"),
        *("lint", "bench", "fuzz", "audit", "sbom", "clean"),
    ]


def venv(checkout: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "launch/venv.sh", *arguments],
        cwd=checkout,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_of_another_version_is_refused_with_a_sentence(checkout: Path) -> None:
    old = checkout / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = venv(checkout, str(old))
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: Python 3.11 or 3.12 is needed (looked for {old})")
    assert not (checkout / ".venv").exists()


def test_no_python_at_all(checkout: Path) -> None:
    refused = venv(checkout, path=str(checkout))
    assert refused.returncode == 1
    assert "error: Python 3.11 or 3.12 is needed" in refused.stderr
    assert "apt-get install python3 python3-venv" in refused.stderr


def test_a_working_environment_is_left_alone_and_a_broken_one_made_anew(checkout: Path) -> None:
    stand_in = str(checkout / "stand-in")
    assert venv(checkout, stand_in).stdout == "making .venv with Python 3.11\n"
    mark = checkout / ".venv" / "mark"
    mark.touch()
    assert venv(checkout, stand_in).stdout == ""
    assert mark.exists()
    (checkout / ".venv" / "bin" / "python").unlink()
    assert venv(checkout, stand_in).stdout == "making .venv with Python 3.11\n"
    assert not mark.exists()


@pytest.mark.parametrize(("user", "installs"), [("0", True), ("1000", False)])
def test_a_debian_python_without_venv(checkout: Path, user: str, installs: bool) -> None:
    stand_in, programs = checkout / "stand-in", checkout / "bin"
    stand_in.write_text(STAND_IN.replace("-c*) ;;", "*ensurepip*) [ -e installed ] ;;\n-c*) ;;"))
    programs.mkdir()
    (programs / "id").write_text(f"#!/bin/sh\necho {user}\n")
    (programs / "apt-get").write_text('#!/bin/sh\necho "$*" >>installed\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    done = venv(checkout, str(stand_in), path=f"{programs}:{os.environ['PATH']}")
    if installs:
        assert done.returncode == 0
        assert (checkout / "installed").read_text() == "update -qq\ninstall -y -qq python3.11-venv\n"
        assert (checkout / ".venv").exists()
    else:
        assert done.returncode == 1
        assert "sudo apt-get install python3.11-venv" in done.stderr
        assert not (checkout / ".venv").exists()
