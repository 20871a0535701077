"""`perf/RESULTS.md`, from the kept measurements and nothing else: no figure of it is written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib.figure import Figure

from perf import plots
from perf.sections import NAMES, section
from perf.store import RESULTS, Measurement

REPORT = RESULTS.parent / "RESULTS.md"
HEAD = """# Results

Written by `make bench` (`python -m perf --report` from what is kept in [results/](results/)). Ratios are of one run on
one machine, side by side; absolute times are that machine's.
"""
PLOTS: Mapping[str, Callable[[Figure, Any], None]] = {
    "sweeps": plots.sweeps,
    "cost": plots.cost,
    "mixed_lengths": plots.mixed_lengths,
    "memory": plots.memory,
    "state_cache": plots.state_cache,
    "encoder": plots.encoder,
    "overhead": plots.overhead,
    "throughput": plots.throughput,
}
SIZE = (8, 3.6)


def write_report(folder: Path = RESULTS, report: Path = REPORT) -> Path:
    """Writes the report and its plots; sections that have not been measured are left out."""
    kept = [measurement for name in NAMES if (measurement := Measurement.load(name, folder))]
    parts = [HEAD, *(_part(measurement, folder, report.parent) for measurement in kept)]
    report.write_text("\n".join(parts), encoding="utf-8")
    return report


def _part(measurement: Measurement, folder: Path, base: Path) -> str:
    found = section(measurement.section)
    picture = _plot(measurement, folder)
    shown = f"\n\n![{found.TITLE}]({picture.relative_to(base)})" if picture else ""
    return f"## {found.TITLE}\n\n{_how(measurement)}\n\n{found.report(measurement.data)}{shown}\n"


def _how(measurement: Measurement) -> str:
    where = measurement.machine
    hasty = " **Few repeats: these figures mean little.**" if measurement.quick else ""
    return (
        f"`{measurement.command}`, {measurement.seconds:.0f} s, at {where['commit']}, on {where['cores']} cores of "
        f"{where['processor']}, {where['memory_gib']} GiB, {where['system']}, Python {where['python']}; load before it "
        f"{where['load_before']}.{hasty}"
    )


def _plot(measurement: Measurement, folder: Path) -> Path | None:
    draw = PLOTS.get(measurement.section)
    if draw is None:
        return None
    # The same measurements give the same bytes.
    with matplotlib.rc_context({"svg.hashsalt": measurement.section, "svg.fonttype": "none"}):
        figure = Figure(figsize=SIZE, layout="constrained")
        draw(figure, measurement.data)
        path = folder / f"{measurement.section}.svg"
        figure.savefig(path, metadata={"Date": None})
    return path
