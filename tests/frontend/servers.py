"""Real servers for the tests, from Debian's packages `postgresql` and `redis-server`, in folders of their own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

START_S = 30


@dataclass
class Server:
    """A server that can be stopped and brought back with its data, at the same address."""

    url: str
    command: list[str]
    folder: Path
    answers: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder, **_account())
        until(self.answers, START_S, lambda: (self.folder / "log").read_text()[-2000:])

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(START_S)
            self.process = None

    def signal(self, number: signal.Signals) -> None:
        """To the server and its children, which each connection of PostgreSQL has."""
        assert self.process is not None
        for pid in (self.process.pid, *_children(self.process.pid)):
            os.kill(pid, number)


@contextmanager
def postgresql() -> Iterator[Server]:
    installed = list(Path("/usr/lib/postgresql").glob("*/bin"))
    assert installed, "these tests need Debian's packages postgresql and redis-server"
    binaries = max(installed, key=lambda path: int(path.parent.name))
    with _folder() as folder, _port() as port:
        subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "clef", "--auth=trust", "--no-sync", "--encoding=UTF8"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **_account(),
        )
        url = f"postgresql://clef@127.0.0.1:{port}/postgres"
        options = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        settings = [f"--{name}={value}" for name, value in options.items()]
        server = Server(url, [str(binaries / "postgres"), "-D", "data", *settings], folder, lambda: _takes_sql(url))
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)


@contextmanager
def redis() -> Iterator[Server]:
    with _folder() as folder, _port() as port:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        server = Server(f"redis://127.0.0.1:{port}", command, folder, lambda: _pongs(port))
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGKILL)


def until(condition: Callable[[], bool], within_s: float = 10.0, why: Callable[[], str] = lambda: "") -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within_s} s: {why()}"
        time.sleep(0.02)


def _takes_sql(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _pongs(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False


def _account() -> dict[str, str]:
    # PostgreSQL refuses to run as root; its package brings a user of its own.
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="clef-test-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    yield port


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
