"""A real HAProxy with the shipped configuration, and frontends behind it, each with a Triton of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from launch.triton import REPOSITORY_ROOT, TritonPorts, TritonServer, write_path_file
from tests.docker.names import name_server
from tests.golden_cases import RELEASE
from tests.stack.running import STEPS, free_ports

CONFIGURATION = REPOSITORY_ROOT / "docker" / "haproxy" / "haproxy.cfg"
START_S = 90


class Server:
    """A process that can be killed and started again."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._command, self._environment, self.log = command, environment, log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=output, stderr=output, cwd=REPOSITORY_ROOT
            )

    def kill(self) -> None:
        """SIGKILL to it and to its children; a Triton's stubs would outlive it for a while."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        for process in (self.process, *children):
            process.kill()
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 40) -> int:
        """The exit status after a signal."""
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


@dataclass
class Replica:
    """A Triton and a frontend at one loopback address."""

    address: str
    triton: Server
    frontend: Server
    triton_port: int
    triton_metrics: int
    shm_prefix: str

    def stub(self, model: str) -> psutil.Process:
        return self._stubs()[model]

    def _stubs(self) -> dict[str, psutil.Process]:
        """The live ones, by model."""
        children = psutil.Process(self.triton.process.pid).children(recursive=True)
        commands = {child: " ".join(child.cmdline()) for child in children if child.status() != psutil.STATUS_ZOMBIE}
        found = ((re.search(r"/model_repository/(\w+)/", command), child) for child, command in commands.items())
        return {match[1]: child for match, child in found if match}

    def start_what_ended(self) -> None:
        # Triton starts no step again that it lost, as it may one that a test had stand still for too long.
        if self.triton.process.poll() is None and len(self._stubs()) < len(STEPS):
            self.triton.kill()
        for server in (self.triton, self.frontend):
            if server.process.poll() is not None:
                server.start()

    def close(self) -> None:
        self.frontend.close()
        self.triton.close()
        for region in Path("/dev/shm").glob(f"{self.shm_prefix}*"):
            region.unlink()


def replica(address: str, port: int, folder: Path) -> Replica:
    """Started, and not yet ready."""
    write_path_file()
    http, grpc, metrics = free_ports(3)
    prefix = f"clef-test-edge-{os.getpid()}-{address}-"
    server = TritonServer.find(os.environ.get("CLEF_TRITON"))
    environment = server.environment() | {"CLEF_RELEASE": str(RELEASE), "OMP_NUM_THREADS": "1", "CLEF_WARMUP": "false"}
    command = server.command(
        REPOSITORY_ROOT / "model_repository", TritonPorts(http, grpc, metrics), prefix, exit_timeout_s=10
    )
    triton = Server(command, environment, folder / f"triton-{address}.log")
    frontend = frontend_server(address, port, grpc, folder)
    triton.start()
    frontend.start()
    return Replica(address, triton, frontend, grpc, metrics, prefix)


def frontend_server(address: str, port: int, triton_port: int, folder: Path) -> Server:
    environment = os.environ | {
        "FRONTEND_HOST": address,
        "FRONTEND_PORT": str(port),
        "TRITON_URL": f"127.0.0.1:{triton_port}",
        "SYSTEMONE_USAGE_URL": f"sqlite:///{folder}/usage-{address}.sqlite3",
        "SYSTEMONE_KEYS": str(folder / "keys.json"),
        "FORWARDED_ALLOW_IPS": "*",
    }
    log = folder / f"frontend-{address}.log"
    return Server([sys.executable, "-m", "frontend"], environment, log)


@dataclass
class Edge:
    url: str
    inside: str
    """Its own health and counters."""
    tls: ssl.SSLContext
    haproxy: Server
    addresses: list[str] = field(default_factory=list)
    """What the frontends' name means; a test may change it."""

    def servers_up(self) -> int:
        """Frontends whose latest check found them well. HAProxy counts a server as up before its first check too."""
        lines = httpx.get(f"{self.inside}/metrics").text.splitlines()
        checks = (line for line in lines if line.startswith('haproxy_server_check_status{proxy="frontends"'))
        return sum('state="L7OK"' in line and line.endswith(" 1") for line in checks)

    def wait_for(self, count: int, within_s: float = START_S) -> None:
        """Until the edge sends requests to `count` frontends."""
        deadline = time.monotonic() + within_s
        while self.servers_up() != count:
            assert time.monotonic() < deadline, f"{self.servers_up()} frontends are up, not {count}"
            time.sleep(0.05)

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, verify=self.tls, timeout=60, **options)  # type: ignore[arg-type]

    def async_client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, verify=self.tls, timeout=60)


@contextmanager
def edge(folder: Path, frontend_port: int, addresses: list[str], **settings: str) -> Iterator[Edge]:
    """A running HAProxy in front of `addresses`; `settings` are those that its configuration names."""
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, "these tests need HAProxy: apt-get install haproxy"
    public, inside = free_ports(2)
    certificate, tls = certificate_for_tests(folder)
    with ExitStack() as stack:
        environment = os.environ | {
            "EDGE_BIND": f"127.0.0.1:{public}",
            "EDGE_METRICS_BIND": f"127.0.0.1:{inside}",
            "EDGE_CERTIFICATE": str(certificate),
            "EDGE_FRONTENDS": f"frontends.test:{frontend_port}",
            "EDGE_NAME_SERVER": stack.enter_context(name_server(addresses)),
        }
        haproxy = Server([program, "-db", "-f", str(CONFIGURATION)], environment | settings, folder / "haproxy.log")
        haproxy.start()
        stack.callback(haproxy.close)
        running = Edge(f"https://127.0.0.1:{public}", f"http://127.0.0.1:{inside}", tls, haproxy, addresses)
        _wait_until_it_listens(running)
        yield running


def certificate_for_tests(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate with its key, made as the documentation says, and a context that trusts it."""
    pem = folder / "edge.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", pem, "-out", folder / "edge.crt"),
        ],
        check=True,
        capture_output=True,
    )
    with pem.open("a") as file:
        file.write((folder / "edge.crt").read_text())
    return pem, ssl.create_default_context(cafile=folder / "edge.crt")


def _wait_until_it_listens(running: Edge) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            httpx.get(f"{running.inside}/healthz")
            return
        except httpx.TransportError:
            log = running.haproxy.log
            assert running.haproxy.process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
