"""Every query of the dashboard and every alert, read by a real Prometheus from the real servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from launch.triton import REPOSITORY_ROOT
from tests.docker.edge import Edge, Replica, Server
from tests.stack.running import free_ports

DOCKER = REPOSITORY_ROOT / "docker"
DASHBOARD = json.loads((DOCKER / "grafana/dashboards/clef.json").read_text())
ALERTS = DOCKER / "prometheus/alerts.yml"
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
# Triton's documentation names these; a machine without a GPU shows none of them.
GPU_METRICS = {f"nv_gpu_{name}" for name in ("utilization", "memory_used_bytes", "memory_total_bytes", "power_usage")}
OUR_METRICS = re.compile(r"\b(?:systemone|clef|nv|haproxy|process)_\w+")

# Of Triton's metrics: the steps' names, and the start of their names.
NO_METRICS = {"clef_", "clef_preprocess", "clef_model", "clef_postprocess"}


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=10)

    def get(self, path: str, **parameters: str) -> Any:
        answer = self._http.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        result: list[Any] = self.get("query", query=expression)["result"]
        return result

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="session")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, running_edge: Edge, replicas: list[Replica], frontend_port: int
) -> Iterator[Prometheus]:
    """One with the shipped alerts, that has seen some requests: good ones, and one that is wrong."""
    folder = tmp_path_factory.mktemp("prometheus")
    targets = {
        "frontend": [f"{each.address}:{frontend_port}" for each in replicas],
        "triton": [f"127.0.0.1:{each.triton_metrics}" for each in replicas],
        "edge": [running_edge.inside.removeprefix("http://")],
    }
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": addresses}]} for name, addresses in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(json.dumps(configuration))
    port = free_ports(1)[0]
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    server = Server(command, dict(os.environ), folder / "log")
    server.start()
    with closing(Prometheus(f"http://127.0.0.1:{port}")) as client:
        try:
            _ask_until_scraped(running_edge, client, sum(map(len, targets.values())))
            yield client
        finally:
            server.stop()


def _ask_until_scraped(running_edge: Edge, client: Prometheus, targets: int) -> None:
    deadline = time.monotonic() + 60
    with running_edge.client() as http:
        while True:
            assert http.post("/v1/systemone", json={"state": "", "questions": {"q": {"type": "noul"}}}).is_success
            assert http.post("/v1/systemone", json={"questions": {}}).status_code == 422
            try:
                scrapes = client.query("min(count_over_time(up[1m])) and count(up == 1) == " + str(targets))
            except httpx.TransportError:
                scrapes = []
            if scrapes and int(scrapes[0]["value"][1]) >= 4:
                return
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize("name", QUERIES)
def test_a_panel_shows_something(prometheus: Prometheus, name: str) -> None:
    expression = QUERIES[name].replace("$__rate_interval", "1m")
    assert prometheus.query(expression) or set(OUR_METRICS.findall(expression)) <= GPU_METRICS


def test_what_scales_reads_something(prometheus: Prometheus) -> None:
    adapter = yaml.safe_load((DOCKER / "kubernetes/prometheus-adapter.yaml").read_text())["rules"]["custom"][0]
    pods = adapter["metricsQuery"].replace("<<.GroupBy>>", "instance").replace(", <<.LabelMatchers>>", "")
    assert all(0 <= float(found["value"][1]) < 60 for found in prometheus.query(pods)) and prometheus.query(pods)
    (seconds,) = prometheus.query(re.sub(r'(, )?pod=~".*?"', "", kserve_query()))
    assert 0 < float(seconds["value"][1]) < 60


def kserve_query() -> str:
    service = yaml.safe_load((DOCKER / "kubernetes/kserve/inferenceservice.yaml").read_text())
    (metric,) = service["spec"]["predictor"]["autoScaling"]["metrics"]
    query: str = metric["external"]["metric"]["query"]
    return query


def test_kserve_scales_by_the_wait_of_its_own_pods(tmp_path: Path) -> None:
    """20 records wait for two pods that compute 5 a second together; half a second more in Triton's own queues."""
    series = {
        'clef_queue_records{pod="clef-predictor-a"}': "15x40",
        'clef_queue_records{pod="clef-predictor-b"}': "5x40",
        'clef_queue_records{pod="another"}': "100x40",
        'clef_records_total{pod="clef-predictor-a"}': "0+75x20 1500x40",
        'nv_inference_queue_duration_us{model="clef_preprocess", pod="clef-predictor-a"}': "0+30000000x20 600000000x40",
        'nv_inference_queue_duration_us{model="clef", pod="clef-predictor-a"}': "0+900000000x40",
        'nv_inference_request_success{model="clef", pod="clef-predictor-a"}': "0+60x20 1200x40",
    }
    cases = [{"at": "4m", "waits": 4.5}, {"at": "10m", "waits": 200}]
    test = {
        "interval": "15s",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [
            {"expr": kserve_query(), "eval_time": case["at"], "exp_samples": [{"value": case["waits"], "labels": "{}"}]}
            for case in cases
        ],
    }
    path = tmp_path / "kserve.yml"
    path.write_text(json.dumps({"rule_files": [], "evaluation_interval": "15s", "tests": [test]}))
    promtool("test", "rules", path)


def test_what_the_alerts_and_the_panels_read_is_there(prometheus: Prometheus) -> None:
    known = {*prometheus.get("label/__name__/values"), *GPU_METRICS}
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    for expressions in ([rule["expr"] for rule in rules], QUERIES.values(), [kserve_query()]):
        read = {name for expression in expressions for name in OUR_METRICS.findall(expression)} - NO_METRICS
        assert read and read <= known


def test_the_panels_show_all_that_the_model_step_counts() -> None:
    told = re.findall(r'"(clef_\w+)": "', (REPOSITORY_ROOT / "adapter/metrics.py").read_text())
    assert told and set(told) <= {name for expression in QUERIES.values() for name in OUR_METRICS.findall(expression)}


def test_nothing_alarms_while_all_is_well(prometheus: Prometheus) -> None:
    rules = prometheus.get("rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


def test_each_alert_fires_on_what_it_is_for() -> None:
    cases = Path(__file__).with_name("alerts_test.yml")
    promtool("test", "rules", cases)
    tested = set(re.findall(r"alertname: (\w+)\n *exp_alerts", cases.read_text()))
    assert tested == {rule["alert"] for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]}


def test_prometheus_takes_the_shipped_configuration() -> None:
    promtool("check", "config", DOCKER / "prometheus/prometheus.yml")
    promtool("check", "rules", "--lint=all", "--lint-fatal", ALERTS)


def test_the_dashboard_is_laid_out_and_reads_the_provisioned_source() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
    sources = yaml.safe_load((DOCKER / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in PANELS} == {source["uid"] for source in sources}
