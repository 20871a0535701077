"""Every check, in the order in which faults explain each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from clef.settings import ModelSettings
from clef.settings import read_settings as read_model_settings
from launch.doctor import configuration, machine, release
from launch.doctor.finding import Finding, fail, ok
from launch.errors import LaunchError
from preprocess.settings import Settings as RequestSettings

NOWHERE = Path("/nonexistent")
"""Stands for a release where only the other settings count."""


def examine(folder: Path | None, triton_setting: str) -> Iterator[Finding]:
    """`folder` None: the development release, which is made at the first start."""
    yield from configuration.settings(_readers())
    yield configuration.python()
    yield configuration.triton(triton_setting)
    model, requests = _model_settings(), _request_settings()
    found, card = machine.card(model.device)
    yield found
    yield machine.kernels(card is not None, model.allow_slow_kernels)
    yield machine.shared_memory(requests)
    weights = None
    if folder is None:
        yield ok("release", "no CLEF_RELEASE: a development release with random weights is made at the first start")
    else:
        finding, weights = release.weights(folder)
        yield finding
        if finding.level == "ok":
            yield from release.origin(folder)
            yield release.tokenizer(folder)
    shape = release.text_shape(folder) if folder and weights else None
    yield machine.memory(weights, shape, model, card)
    if configuration.HAS_FRONTEND:
        yield _ports()


def _readers() -> dict[str, Callable[[], object]]:
    readers: dict[str, Callable[[], object]] = {
        "requests": lambda: RequestSettings(release=NOWHERE),
        "model": lambda: read_model_settings(release=NOWHERE),
    }
    if configuration.HAS_FRONTEND:
        from frontend.settings import read_settings as read_frontend_settings
        from launch.settings import read_settings as read_launch_settings

        readers |= {"frontend": read_frontend_settings, "launcher": read_launch_settings}
    return readers


def _model_settings() -> ModelSettings:
    """Those of the environment; the defaults where it holds something wrong, which was said already."""
    try:
        return read_model_settings(release=NOWHERE)
    except ValueError:
        return ModelSettings.model_construct(release=NOWHERE)


def _request_settings() -> RequestSettings:
    try:
        return RequestSettings(release=NOWHERE)
    except ValueError:
        return RequestSettings.model_construct(release=NOWHERE)


def _ports() -> Finding:
    from launch.ports import check_ports
    from launch.serve import is_healthy
    from launch.settings import read_settings

    try:
        settings = read_settings()
    except LaunchError:
        return fail("ports", "not looked at: a setting is wrong", "Its line above says which.")
    try:
        check_ports(settings.ports())
    except LaunchError as error:
        problem = str(error).replace("\n", " ")
    else:
        return ok("ports", ", ".join(f"{port} ({name})" for name, (_, port) in settings.ports().items()) + " are free")
    if "in use" in problem and is_healthy(settings.url):
        return ok("ports", f"in use by a service that runs already and is healthy: {settings.url}")
    return fail("ports", problem.partition(". ")[0] + ".", problem.partition(". ")[2] or "Change it.")
