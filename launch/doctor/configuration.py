"""The settings in the environment, the Python and the Triton that would be run."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from clef.settings import ModelSettings
from launch.doctor.finding import Finding, fail, ok, warn
from launch.errors import LaunchError
from launch.triton import TritonServer
from preprocess.settings import Settings as RequestSettings

PREFIXES = ("CLEF_", "SYSTEMONE_")
SHOWN_PACKAGES = ("numpy", "torch", "transformers")
HAS_FRONTEND = importlib.util.find_spec("frontend") is not None
RUN_S = 30


def settings(
    readers: Mapping[str, Callable[[], object]], environment: Mapping[str, str] = os.environ
) -> Iterator[Finding]:
    """`readers` read each table of settings and raise what they raise, naming the variable."""
    bad = False
    for reader in readers.values():
        try:
            reader()
        except (ValueError, LaunchError) as error:
            bad = True
            yield fail("settings", _sentence(error), "Change or unset it.")
    known = known_variables()
    # Without the frontend its variables are not known.
    prefixes = PREFIXES if HAS_FRONTEND else PREFIXES[:1]
    for name in sorted(environment):
        if name.startswith(prefixes) and name not in known:
            yield warn(
                "settings", f"{name} is set, and nothing reads it.", "Is it misspelt? README.md lists every setting."
            )
    if not bad:
        yield ok("settings", "every setting in the environment can be read")


def known_variables() -> set[str]:
    """Every variable that is a setting."""
    tables: list[type[BaseSettings]] = [RequestSettings, ModelSettings]
    if HAS_FRONTEND:
        from frontend.settings import Settings as FrontendSettings
        from launch.settings import LaunchSettings

        tables += [FrontendSettings, LaunchSettings]
    names: set[str] = set()
    for table in tables:
        alias, prefix = table.model_config.get("alias_generator"), table.model_config.get("env_prefix") or ""
        to_variable = getattr(alias, "validation_alias", None) or (
            lambda field, before=prefix: f"{before}{field}".upper()
        )
        names |= {str(to_variable(field)) for field in table.model_fields}
    return names


def python() -> Finding:
    """The environment that Triton's stubs take their packages from."""
    found = {name: _version(name) for name in SHOWN_PACKAGES}
    text = ", ".join([f"Python {platform.python_version()}", *(f"{name} {has}" for name, has in found.items() if has)])
    lacking = [name for name, has in found.items() if not has]
    if lacking:
        return fail(
            "Python", f"{text}; not installed: {', '.join(lacking)}", "Run `make serve` once: it installs everything."
        )
    if sys.prefix == sys.base_prefix:
        return fail(
            "Python",
            f"{text}, in no virtual environment",
            "Run it as .venv/bin/python -m launch doctor; `make serve` makes the environment.",
        )
    return ok("Python", text)


def triton(setting: str) -> Finding:
    """Whether there is a Triton, whose Python backend is made for this Python, and that its program runs."""
    try:
        server = TritonServer.find(setting)
    except LaunchError as error:
        sentence, _, advice = str(error).partition(". ")
        return fail("Triton", f"{sentence}.", advice)
    if server.embedded and int(_version("numpy").partition(".")[0] or 0) >= 2:
        return fail(
            "Triton",
            f"the stubs of the embedded Triton crash on strings with numpy {_version('numpy')}",
            f"{sys.executable} -m pip install -r requirements/serve.txt",
        )
    done = subprocess.run(
        [server.program, "--help"], env=server.environment(), capture_output=True, text=True, timeout=RUN_S, check=False
    )
    if "Usage" not in done.stdout + done.stderr:
        return fail(
            "Triton",
            f"{server.program} does not run: {' '.join(done.stderr.split())[:300]}",
            "Install the library that it names, or point CLEF_TRITON to another tritonserver.",
        )
    kind = "the server inside nvidia-pytriton" if server.embedded else str(server.program)
    return ok("Triton", f"{kind}, with a Python backend for this Python")


def _sentence(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
