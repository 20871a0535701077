"""The edge in front of real servers: what it lets through, what it refuses, and what its clients see of a fault."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from frontend import keyfile
from frontend.keyfile import PUBLIC, KeyFile
from frontend.tiers import Tier
from tests.docker.edge import CONFIGURATION, Edge, Replica, certificate_for_tests, edge, frontend_server
from tests.invariants import assert_answer
from tests.stack.running import free_ports

REQUEST: dict[str, Any] = {"state": "The site is down!", "questions": {"outage": {"type": "noul"}}}
LOAD_CLIENTS = 8
LIMIT = 20_000_000
CURL_TIMEOUT = 28


@pytest.fixture(autouse=True)
def all_well_again(running_edge: Edge, replicas: list[Replica]) -> Iterator[None]:
    """A test that failed on the way leaves the next one what it found."""
    yield
    for each in replicas:
        each.start_what_ended()
    running_edge.wait_for(len(replicas))


@pytest.fixture
def client(running_edge: Edge) -> Iterator[httpx.Client]:
    with running_edge.client() as client:
        yield client


@pytest.fixture
def quiet_edge(tmp_path: Path, replicas: list[Replica], frontend_port: int, running_edge: Edge) -> Iterator[Edge]:
    """An edge of the test's own, with rates that a test reaches."""
    settings = {"EDGE_KEY_RATE": "5", "EDGE_ADDRESS_RATE": "20"}
    with edge(tmp_path, frontend_port, running_edge.addresses, **settings) as started:
        started.wait_for(len(replicas))
        yield started


class Load:
    """Clients that ask one request after another, each with its own question id, until the block ends.

    `padding` bytes in a field that nobody reads make a body large.
    """

    def __init__(self, running_edge: Edge, padding: int = 0) -> None:
        self._edge, self._padding = running_edge, " " * padding
        self.failures: list[str] = []
        self.answers = 0

    async def __aenter__(self) -> Load:
        self._ending = False
        self._client = self._edge.async_client()
        self._tasks = [asyncio.create_task(self._ask(number)) for number in range(LOAD_CLIENTS)]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._ending = True
        await asyncio.gather(*self._tasks)
        await self._client.aclose()

    async def answered(self, more: int) -> None:
        """Until `more` further requests were answered."""
        wanted = self.answers + more
        async with asyncio.timeout(60):
            while self.answers < wanted:
                assert not self.failures, self.failures
                await asyncio.sleep(0.02)

    async def _ask(self, number: int) -> None:
        turn = 0
        while not self._ending:
            turn += 1
            questions = {f"client {number}, turn {turn}": {"type": "noul"}}
            request = {"state": "The site is down!", "questions": questions, "padding": self._padding}
            try:
                response = await self._client.post("/v1/systemone", json=request)
            except httpx.HTTPError as error:
                self.failures.append(repr(error))
                continue
            if response.status_code == 200:
                assert_answer(request, response.json())
                self.answers += 1
            else:
                self.failures.append(f"{response.status_code} {response.text}")


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


def test_a_key_has_a_rate(quiet_edge: Edge) -> None:
    with quiet_edge.client() as client:

        def ask(key: str) -> httpx.Response:
            return client.get("/v1/models", headers={"authorization": f"Bearer {key}"})

        assert [ask("a").status_code for _ in range(6)] == [200] * 5 + [429]
        assert ask("b").status_code == 200
        refused = ask("a")
    assert refused.json()["detail"]["error_type"] == "rate_limit_error"
    assert refused.headers["retry-after"] == "10" and refused.headers["retry-after-ms"] == "10000"
    assert refused.headers["x-request-id"]


def test_an_address_has_a_rate(quiet_edge: Edge) -> None:
    with quiet_edge.client() as client:
        statuses = [client.get("/v1/models", headers={"authorization": f"Bearer {n}"}).status_code for n in range(22)]
        assert statuses == [200] * 20 + [429] * 2
    other_address = httpx.HTTPTransport(verify=quiet_edge.tls, local_address="127.0.0.9")
    with httpx.Client(base_url=quiet_edge.url, transport=other_address) as client:
        assert client.get("/v1/models").status_code == 200


def test_the_frontend_counts_the_clients_address_whatever_the_client_claims(
    tmp_path: Path, replicas: list[Replica]
) -> None:
    port = free_ports(1)[0]
    tiers = {PUBLIC: Tier(decisions_per_minute=1)}
    keyfile.write(tmp_path / "keys.json", KeyFile(tiers=tiers))
    frontend = frontend_server("127.0.0.4", port, replicas[0].triton_port, tmp_path)
    frontend.start()
    try:
        with edge(tmp_path, port, ["127.0.0.4"]) as started:
            started.wait_for(1)

            def ask(address: str, claimed: str) -> int:
                transport = httpx.HTTPTransport(verify=started.tls, local_address=address)
                with httpx.Client(base_url=started.url, transport=transport) as client:
                    headers = {"x-forwarded-for": claimed}
                    return client.post("/v1/systemone", json=REQUEST, headers=headers, timeout=60).status_code

            assert ask("127.0.0.8", "6.6.6.6") == 200
            assert ask("127.0.0.8", "7.7.7.7") == 429
            assert ask("127.0.0.9", "6.6.6.6") == 200
    finally:
        frontend.close()


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
            line = logged_within(replica.frontend.log, name, 5)
        finally:
            step.resume()
    assert line["status"] == 499 and line["ms"] < 5_000


def logged_within(log: Path, request_id: str, seconds: float) -> dict[str, Any]:
    """The frontend's access line of a request."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for line in log.read_text("utf-8").splitlines():
            if f'"{request_id}"' in line and '"frontend.access"' in line:
                return dict(json.loads(line))
        time.sleep(0.05)
    raise AssertionError(f"no access line of {request_id} after {seconds} s")


async def test_a_killed_frontend_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[0].frontend.kill()
        await load.answered(40)
        assert running_edge.servers_up() == 1
        replicas[0].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
        await load.answered(20)
    assert load.failures == []


async def test_a_killed_triton_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[1].triton.kill()
        await load.answered(40)
        await asyncio.to_thread(running_edge.wait_for, 1, 10)
        replicas[1].triton.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
        await load.answered(20)
    assert load.failures == []


async def test_a_killed_step_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        replicas[0].stub("clef_model").kill()
        await load.answered(40)
        await asyncio.to_thread(running_edge.wait_for, 1, 10)
        replicas[0].triton.kill()
        replicas[0].triton.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []


async def test_a_frontend_that_is_told_to_stop_fails_no_request(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge) as load:
        await load.answered(20)
        assert await asyncio.to_thread(replicas[1].frontend.stop) == 0
        await load.answered(20)
        replicas[1].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []


async def test_a_body_near_the_buffers_size_is_asked_again_too(running_edge: Edge, replicas: list[Replica]) -> None:
    async with Load(running_edge, padding=120_000) as load:
        await load.answered(10)
        replicas[0].frontend.kill()
        await load.answered(20)
        replicas[0].frontend.start()
        await asyncio.to_thread(running_edge.wait_for, 2)
    assert load.failures == []


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
