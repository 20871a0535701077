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
OUR_METRICS = re.compile(r"\b(?:systemone|nv|haproxy|process)_\w+")


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
    service = yaml.safe_load((DOCKER / "kubernetes/kserve/inferenceservice.yaml").read_text())
    (metric,) = service["spec"]["predictor"]["autoScaling"]["metrics"]
    (seconds,) = prometheus.query(re.sub(r', pod=~".*?"', "", metric["external"]["metric"]["query"]))
    assert 0 < float(seconds["value"][1]) < 60


def test_what_the_alerts_read_is_there(prometheus: Prometheus) -> None:
    known = {*prometheus.get("label/__name__/values"), *GPU_METRICS}
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    read = {name for rule in rules for name in OUR_METRICS.findall(rule["expr"])}
    assert read and read <= known


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
