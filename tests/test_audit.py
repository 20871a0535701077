"""The verdict on known vulnerabilities, by the real pip-audit and a service that answers as OSV does; and the SBOM."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from launch.triton import REPOSITORY_ROOT
from tests.environments import environment
from tests.stack.running import free_ports

PINS = {"constraints.txt": "starlette==0.40.0\npillow==13.0.0\n", "gpu.txt": "fla==1.0\n"}
VULNERABILITY = {
    "id": "PYSEC-2026-1",
    "summary": "bad",
    "details": "bad",
    "published": "2026-01-01T00:00:00Z",
    "aliases": ["CVE-2026-1"],
    "affected": [
        {
            "package": {"name": "starlette", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.41.0"}]}],
        }
    ],
}
Audit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def pip_audit() -> Path:
    python = environment(REPOSITORY_ROOT / ".cache" / "audit-env", REPOSITORY_ROOT / "requirements" / "audit.txt")
    return python.with_name("pip-audit")


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """Knows of one vulnerability."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = asked["package"]["name"] == "starlette" and asked["version"] == "0.40.0"
            body = json.dumps({"vulns": [VULNERABILITY]} if known else {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


@pytest.fixture
def audit(tmp_path: Path, pip_audit: Path) -> Audit:
    """Audits a few pins of its own."""
    shutil.copy(REPOSITORY_ROOT / "requirements" / "audit.py", tmp_path)
    for name in ("constraints.txt", "gpu.txt", "embedded-triton.txt", "test-no-deps.txt", "audit.txt"):
        (tmp_path / name).write_text(PINS.get(name, ""))

    def run(url: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            tmp_path / "audit.py",
            pip_audit,
            "-s",
            "osv",
            "--osv-url",
            url,
            "--cache-dir",
            tmp_path,
        ]
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    return run


def test_what_is_known_is_named_and_fails(audit: Audit, service: str) -> None:
    for options in ([], ["--if-reachable"]):
        done = audit(service, *options)
        assert done.returncode == 1
        assert done.stdout.splitlines() == [
            "starlette 0.40.0: PYSEC-2026-1, fixed in 0.41.0",
            "3 packages audited, 1 known vulnerabilities, 0 packages not audited",
        ]


def test_nothing_known_passes(audit: Audit, service: str, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("starlette==0.41.0\n")
    done = audit(service)
    assert (done.returncode, done.stdout) == (
        0,
        "2 packages audited, 0 known vulnerabilities, 0 packages not audited\n",
    )


def test_a_service_that_is_away_is_not_nothing_known(audit: Audit) -> None:
    away = f"http://127.0.0.1:{free_ports(1)[0]}/v1/query"
    done = audit(away)
    assert done.returncode == 3
    assert done.stdout.startswith("NOT AUDITED: ")
    tolerated = audit(away, "--if-reachable")
    assert (tolerated.returncode, tolerated.stdout.startswith("NOT AUDITED: ")) == (0, True)


def test_the_bill_of_materials_of_an_image_is_its_lock(pip_audit: Path, tmp_path: Path) -> None:
    """As `make sbom` writes it."""
    lock = REPOSITORY_ROOT / "docker" / "frontend" / "requirements.lock"
    command = [pip_audit.with_name("cyclonedx-py"), "requirements", "--of", "JSON", "-o", tmp_path / "sbom.json", lock]
    subprocess.run(command, check=True, capture_output=True)
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    locked = {line for line in lock.read_text().splitlines() if "==" in line}
    assert {f"{part['name']}=={part['version']}" for part in bill["components"]} == locked
