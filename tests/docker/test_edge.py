"""The edge in front of real servers: what it lets through, what it refuses, and whom it knows behind it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.docker.edge import CONFIGURATION, Edge, Replica, certificate_for_tests, edge
from tests.docker.load import REQUEST
from tests.invariants import assert_answer

LIMIT = 20_000_000
CURL_TIMEOUT = 28
pytestmark = pytest.mark.usefixtures("all_well_again")


def test_the_configuration_is_valid_and_warns_of_nothing(tmp_path: Path) -> None:
    certificate, _ = certificate_for_tests(tmp_path)
    environment = os.environ | {"EDGE_CERTIFICATE": str(certificate), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    check = subprocess.run(
        ["haproxy", "-c", "-f", CONFIGURATION], env=environment, capture_output=True, text=True, check=True
    )
    assert check.stdout.strip() == "Configuration file is valid"
    assert check.stderr == ""


def test_an_answer_comes_through(client: httpx.Client) -> None:
    response = client.post("/v1/systemone", json=REQUEST, headers={"x-request-id": "mine"})
    assert response.status_code == 200
    assert_answer(REQUEST, response.json())
    assert response.headers["x-request-id"] == "mine"
    assert response.headers["server-timing"]
    assert client.head("/health").status_code == 200


def test_tls_is_1_2_at_least_and_speaks_http_2(running_edge: Edge) -> None:
    host, port = running_edge.url.removeprefix("https://").split(":")
    running_edge.tls.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((host, int(port))) as connection,
        running_edge.tls.wrap_socket(connection, server_hostname=host) as secured,
    ):
        assert secured.selected_alpn_protocol() == "h2"
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection((host, int(port))) as connection, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(connection, server_hostname=host)


@pytest.mark.parametrize("path", ["/metrics", "/%6detrics", "/metrics?x=1"])
def test_the_counters_stay_inside(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response.json()["detail"]["error_type"] == "not_found_error"


def test_a_body_over_20_mb_is_refused_by_the_edge(client: httpx.Client) -> None:
    response = client.post("/v1/systemone", content=b" " * (LIMIT + 1))
    assert response.status_code == 413
    assert response.json()["detail"]["error_type"] == "request_too_large"
    assert "20,000,000" in response.text


def test_a_body_of_20_mb_is_the_frontends_to_judge(client: httpx.Client) -> None:
    response = client.post("/v1/systemone", content=b" " * LIMIT)
    assert response.status_code == 413
    assert "20,000,000" not in response.text


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_a_frontend_sees_its_client_leave(
    tmp_path: Path, replicas: list[Replica], running_edge: Edge, frontend_port: int, protocol: str
) -> None:
    replica, name = replicas[0], f"leaves-{protocol.replace('/', '-')}"
    step = replica.stub("clef_model")
    with edge(tmp_path, frontend_port, [replica.address]) as started:
        started.wait_for(1)
        step.suspend()
        try:
            # No answer comes for as long as the step stands still, and the client waits for a second.
            command = ["curl", "--silent", "--max-time", "1", "--cacert", tmp_path / "edge.crt"]
            command += ["--http2" if protocol == "h2" else "--http1.1", "--header", f"x-request-id: {name}"]
            left = subprocess.run([*command, "--json", json.dumps(REQUEST), f"{started.url}/v1/systemone"], check=False)
            assert left.returncode == CURL_TIMEOUT
            line = logged_within([replica.frontend.log], name, 5)
        finally:
            step.resume()
    assert line["status"] == 499 and line["ms"] < 5_000


def test_a_client_that_ends_its_side_has_left(running_edge: Edge, replicas: list[Replica]) -> None:
    # The model is busy with it for longer than the client stays.
    body = json.dumps(REQUEST | {"state": "word " * 15_000}).encode()
    head = b"POST /v1/systemone HTTP/1.1\r\nHost: x\r\nx-request-id: half\r\nContent-Length: %d\r\n\r\n" % len(body)
    host, port = running_edge.url.removeprefix("https://").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as connection,
        running_edge.tls.wrap_socket(connection, server_hostname=host) as secured,
    ):
        secured.sendall(head + body)
        time.sleep(0.3)
        # The TCP connection's, under TLS.
        socket.socket.shutdown(secured, socket.SHUT_WR)
        assert secured.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert logged_within([each.frontend.log for each in replicas], "half", 5)["status"] == 499


def logged_within(logs: list[Path], request_id: str, seconds: float) -> dict[str, Any]:
    """The access line of a request, in one of the frontends' logs."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for line in (line for log in logs for line in log.read_text("utf-8").splitlines()):
            if f'"{request_id}"' in line and '"frontend.access"' in line:
                return dict(json.loads(line))
        time.sleep(0.05)
    raise AssertionError(f"no access line of {request_id} after {seconds} s")


def test_with_nothing_behind_it_the_edge_says_so(tmp_path: Path, frontend_port: int) -> None:
    with edge(tmp_path, frontend_port, []) as alone, alone.client() as client:
        response = client.post("/v1/systemone", json=REQUEST)
        assert response.status_code == 503
        assert response.json()["detail"]["error_type"] == "overloaded_error"
        assert response.headers["retry-after"] == "2"
        assert httpx.get(f"{alone.inside}/healthz").status_code == 503


async def test_a_frontend_that_joins_the_name_is_used(quiet_edge: Edge) -> None:
    left = quiet_edge.addresses.pop()
    try:
        await asyncio.to_thread(quiet_edge.wait_for, 1, 15)
    finally:
        quiet_edge.addresses.append(left)
    await asyncio.to_thread(quiet_edge.wait_for, 2, 15)


async def test_a_stopping_edge_answers_what_it_has(quiet_edge: Edge) -> None:
    async with quiet_edge.async_client() as client:
        asked = [asyncio.create_task(client.post("/v1/systemone", json=REQUEST)) for _ in range(4)]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        status = await asyncio.to_thread(quiet_edge.haproxy.stop, signal.SIGUSR1)
        responses = await asyncio.gather(*asked)
    assert [response.status_code for response in responses] == [200] * 4
    assert status == 0 and time.monotonic() - began < 20
