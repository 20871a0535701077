"""`python -m perf [SECTION...] [--quick]`: measures, keeps what was measured, and writes `perf/RESULTS.md`.

Each section runs in a process of its own, so that none inherits another's memory or threads, and for a bounded time.
Without names all of them run. `--quick` shows in a minute or two that they run, and leaves the kept results alone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from launch.triton import REPOSITORY_ROOT
from perf.machine import machine
from perf.sections import NAMES, section
from perf.store import RESULTS, Measurement

TIMEOUT_S = 600


def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="SECTION...", help=f"Of: {', '.join(NAMES)}.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few repeats, to see that it runs.")] = False,
    only_report: Annotated[bool, typer.Option("--report", help="Write RESULTS.md from what is kept.")] = False,
    into: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure, and write perf/RESULTS.md from what was measured."""
    chosen = names or list(NAMES)
    if unknown := set(chosen) - set(NAMES):
        raise typer.BadParameter(f"no such section: {', '.join(sorted(unknown))}")
    if into is not None:
        _measure(chosen[0], quick, into)
        return
    if not only_report:
        with TemporaryDirectory() as folder:
            failed = [name for name in chosen if not _in_its_process(name, quick, Path(folder) if quick else RESULTS)]
    if not quick:
        # Imported here: matplotlib is needed by nothing else.
        from perf.report import write_report

        print(f"wrote {write_report().relative_to(REPOSITORY_ROOT)}")
    if not only_report and failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        raise typer.Exit(1)


def _in_its_process(name: str, quick: bool, folder: Path) -> bool:
    print(f"measuring {name}", flush=True)
    command = [sys.executable, "-m", "perf", name, "--into", str(folder), *(["--quick"] if quick else [])]
    child = subprocess.Popen(command, cwd=REPOSITORY_ROOT)
    try:
        return child.wait(TIMEOUT_S) == 0
    except subprocess.TimeoutExpired:
        print(f"{name} took more than {TIMEOUT_S} s", file=sys.stderr)
        return False
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()


def _measure(name: str, quick: bool, folder: Path) -> None:
    found, before, start = section(name), machine(), time.monotonic()
    data = found.measure(quick)
    seconds = round(time.monotonic() - start, 1)
    Measurement(name, f"python -m perf {name}", before, seconds, quick, data).save(folder)
    print(f"\n## {found.TITLE}\n\n{found.report(data)}\n", flush=True)


if __name__ == "__main__":
    # Whoever ends it ends what it started: `finally` and context managers see to that.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(run)
    app()
