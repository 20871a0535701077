"""What was measured is kept as it was, and the sections that are named exist."""

from __future__ import annotations

import csv
import shutil

from clef.planner import Limits, Waiting
from perf.first_come import next_batch, write_repository
from perf.report import REPORT, write_report
from perf.sections import NAMES, section
from perf.store import RESULTS, Measurement, save_csv


def test_a_measurement_comes_back(tmp_path):
    kept = Measurement("cost", "python -m perf cost", {"cores": 2}, 1.5, False, {"a": [1.25, None]})
    kept.save(tmp_path)
    assert Measurement.load("cost", tmp_path) == kept
    assert Measurement.load("memory", tmp_path) is None


def test_rows_come_back(tmp_path):
    save_csv("rows", [{"load": "rate", "p50_ms": 1.5}, {"load": "concurrency", "p50_ms": 2.5}], tmp_path)
    with (tmp_path / "rows.csv").open() as file:
        assert [row["p50_ms"] for row in csv.DictReader(file)] == ["1.5", "2.5"]


def test_the_report_is_of_what_is_kept(tmp_path):
    results = shutil.copytree(RESULTS, tmp_path / RESULTS.name, ignore=shutil.ignore_patterns("*.svg"))
    report = write_report(results, tmp_path / REPORT.name)
    assert report.read_text() == REPORT.read_text()
    assert {path.name for path in results.iterdir()} == {path.name for path in RESULTS.iterdir()}


def test_every_section_has_what_the_report_needs():
    for name in NAMES:
        found = section(name)
        assert found.TITLE
        assert callable(found.measure) and callable(found.report)


def test_first_come_takes_the_oldest_under_the_budget():
    waiting = [Waiting(100), Waiting(1000), Waiting(50), Waiting(50)]
    assert next_batch(waiting, Limits(tokens=3000, records=8)) == [0, 1, 2]
    assert next_batch(waiting, Limits(tokens=100_000, records=2)) == [0, 1]
    assert next_batch([Waiting(5000), Waiting(1)], Limits(tokens=3000, records=8)) == [0]


def test_the_other_repository_is_ours_but_for_one_thing(tmp_path):
    planned = write_repository(tmp_path / "planned") / "clef_model" / "1" / "model.py"
    assert planned.read_text().endswith("clef.scheduler.next_batch = next_batch\n")
