"""What is read out of tools and headers, and what is counted from it."""

from __future__ import annotations

import json

import pytest

from perf.analyzer import figures, input_data
from perf.client import Answer, percentile, server_timing
from perf.memory import growth
from perf.overhead import parts
from perf.throughput import counted_out

TIMING = {"queue": 0.5, "preprocess": 0.7, "compute": 40.0, "postprocess": 0.3, "total": 43.0}


def test_server_timing():
    header = "queue;dur=0.500, preprocess;dur=0.700, compute;dur=40.000, postprocess;dur=0.300, total;dur=43.000"
    assert server_timing(header) == TIMING
    assert server_timing(f"{header}, cache;desc=hit") == TIMING
    assert server_timing("") == {}


@pytest.mark.parametrize(("percent", "value"), [(0, 1.0), (50, 2.5), (100, 4.0), (75, 3.25)])
def test_percentiles_lie_between_values(percent, value):
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value


def test_the_parts_of_a_request_add_up_to_what_is_not_compute():
    answer = Answer(ms=44.5, timing=TIMING, batch_size=1, tokens=250)
    assert sum(parts([answer]).values()) == pytest.approx(answer.over_compute_ms) == pytest.approx(4.5)


def test_the_load_generators_share_of_the_cores_is_counted_out():
    assert counted_out(19.0, generator=0.1, cores=2) == pytest.approx(20.0)
    assert counted_out(19.0, generator=0.0, cores=2) == 19.0


def test_growth_compares_the_last_quarter_with_the_one_before():
    assert growth([10, 50, 60, 60, 61, 60, 60, 60]) == -1
    assert growth([10, 20, 30, 40, 50, 60, 70, 80]) == 20


def test_perf_analyzer_reads_our_requests_and_we_its_table():
    data = json.loads(input_data([b'{"state": "caf\xc3\xa9"}']))
    assert data == {"data": [{"REQUEST": {"content": ['{"state": "café"}'], "shape": [1]}}]}
    table = (
        "Concurrency,Inferences/Second,Client Send,p50 latency,p90 latency,p95 latency,p99 latency,Avg latency\n"
        "4,31.5,10,120000,150000,160000,170500,121000\n"
    )
    assert figures(table) == {
        "per_s": 31.5,
        "mean_ms": 121.0,
        "p50_ms": 120.0,
        "p90_ms": 150.0,
        "p95_ms": 160.0,
        "p99_ms": 170.5,
    }
