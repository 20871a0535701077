"""Who may ask how often, behind a real HAProxy."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from frontend import keyfile
from frontend.keyfile import PUBLIC, KeyFile
from frontend.tiers import Tier
from tests.docker.edge import Edge, Replica, edge, frontend_server
from tests.docker.load import REQUEST
from tests.stack.running import free_ports

pytestmark = pytest.mark.usefixtures("all_well_again")


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
