"""What the model step has done, in Triton's own metrics.

A thread of its own writes them every second: each change is a message to the server's process, and no request should
wait for one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import triton_python_backend_utils as pb_utils

from clef.model import ClefModel
from clef.scheduler import Scheduler

INTERVAL_S = 1.0
Labels = tuple[tuple[str, str], ...]

COUNTERS = {
    "clef_micro_batches_total": "Forward passes over records, by records rounded up to a power of two",
    "clef_records_total": "Records computed",
    "clef_tokens_total": "Tokens computed, without padding",
    "clef_padding_tokens_total": "Padding computed beside them; over clef_tokens_total it is the planner's waste",
    "clef_state_cache_hits_total": "Records whose state was there, or was computed for another of their micro-batch",
    "clef_state_cache_misses_total": "Records whose state, or the end of it, was computed and kept",
    "clef_state_cache_reused_tokens_total": "Tokens not computed since their state was there",
    "clef_refused_total": "Requests that found no room here, see CLEF_MAX_WAITING_RECORDS",
    "clef_state_cache_evictions_total": "Parts of states that had to go",
}
GAUGES = {
    "clef_state_cache_bytes": "Bytes of the states that are kept",
    "clef_queue_records": "Records that wait",
    "clef_warmup_seconds": "Time from loaded to ready",
}


@dataclass(frozen=True)
class Value:
    name: str
    now: float
    labels: Labels = ()


def values(model: ClefModel, scheduler: Scheduler, warmup_s: float) -> Iterator[Value]:
    """Everything above, as it is now."""
    totals, states = model.totals, model.states.cache
    for records, count in sorted(totals.micro_batches.copy().items()):
        yield Value("clef_micro_batches_total", count, (("records", str(records)),))
    yield Value("clef_records_total", totals.records)
    yield Value("clef_tokens_total", totals.tokens)
    yield Value("clef_padding_tokens_total", totals.padding_tokens)
    yield Value("clef_state_cache_hits_total", totals.hits)
    yield Value("clef_state_cache_misses_total", totals.misses)
    yield Value("clef_state_cache_reused_tokens_total", totals.reused_tokens)
    yield Value("clef_state_cache_evictions_total", states.evictions)
    yield Value("clef_refused_total", scheduler.refused)
    yield Value("clef_state_cache_bytes", states.bytes)
    yield Value("clef_queue_records", scheduler.waiting)
    yield Value("clef_warmup_seconds", warmup_s)


class Metrics:
    """Writes the metrics of one model instance until it is closed. What the warm-up computed is not counted."""

    def __init__(self, model: ClefModel, scheduler: Scheduler, warmup_s: float, instance: str) -> None:
        self._source = model, scheduler, warmup_s
        self._instance = instance
        self._families = {
            name: pb_utils.MetricFamily(name=name, description=text, kind=kind)
            for names, kind in ((COUNTERS, pb_utils.MetricFamily.COUNTER), (GAUGES, pb_utils.MetricFamily.GAUGE))
            for name, text in names.items()
        }
        self._metrics: dict[tuple[str, Labels], pb_utils.Metric] = {}
        self._told = {(value.name, value.labels): value.now for value in values(*self._source)}
        self._write()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clef-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._metrics.clear()  # before their families, as Triton wants it
        self._families.clear()

    def _run(self) -> None:
        while not self._closed.wait(INTERVAL_S):
            self._write()

    def _write(self) -> None:
        for value in values(*self._source):
            known = value.name, value.labels
            metric = self._metrics.get(known)
            if metric is None:
                labels = {"instance": self._instance, **dict(value.labels)}
                metric = self._metrics[known] = self._families[value.name].Metric(labels=labels)
            if value.name in GAUGES:
                metric.set(value.now)
            elif value.now != self._told.get(known, 0):
                metric.increment(value.now - self._told.get(known, 0))
                self._told[known] = value.now
