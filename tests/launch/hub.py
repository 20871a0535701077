"""A Hugging Face Hub of one repository on the loopback address: the routes that a snapshot download uses."""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class Hub(ThreadingHTTPServer):
    """What it serves may be changed while it runs."""

    daemon_threads = True

    def __init__(self, repository: str, revision: str, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repository, self.revision, self.files = repository, revision, files
        self.large = {name for name in files if name.endswith(".safetensors")}
        self.sizes: dict[str, int] = {}
        self.etags: dict[str, str] = {}
        """What is said of a file in place of the truth."""
        self.stall_after: dict[str, int] = {}
        """Bytes of a file after which nothing more comes until `released`, once."""
        self.released = threading.Event()
        self.status = 200
        """Of every answer about the repository."""
        self.sent: Counter[str] = Counter()
        """Bytes of each file's content that were sent."""
        self.starts: list[tuple[str, int]] = []
        """Each file that was asked for, and the byte from which on."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def etag(self, name: str) -> str:
        """As a hub's: sha256 for large files, git's hash for small ones."""
        if name in self.etags:
            return self.etags[name]
        content = self.files[name]
        if name in self.large:
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.route()

    def do_GET(self) -> None:
        self.route()

    def route(self) -> None:
        hub, path = self.server, urlsplit(self.path).path
        resolve = f"/{hub.repository}/resolve/{hub.revision}/"
        if path == "/":
            self.send(b"hub")
        elif hub.status != 200:
            self.send(b"{}", status=hub.status)
        elif path == f"/api/models/{hub.repository}/tree/{hub.revision}":
            self.send(json.dumps([self.entry(name) for name in hub.files]).encode())
        elif path.startswith(resolve) and path.removeprefix(resolve) in hub.files:
            self.send_file(path.removeprefix(resolve))
        else:
            self.send(b"{}", status=404, headers={"X-Error-Code": "RepoNotFound"})

    def entry(self, name: str) -> dict[str, object]:
        size, etag = self.server.sizes.get(name, len(self.server.files[name])), self.server.etag(name)
        entry: dict[str, object] = {"type": "file", "path": name, "size": size, "oid": etag}
        if name in self.server.large:
            entry |= {"oid": "0" * 40, "lfs": {"oid": etag, "size": size, "pointerSize": 134}}
        return entry

    def send_file(self, name: str) -> None:
        hub, content = self.server, self.server.files[name]
        headers = {"ETag": f'"{hub.etag(name)}"', "X-Repo-Commit": hub.revision, "Accept-Ranges": "bytes"}
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        self.start_answer(206 if start else 200, len(body), headers)
        if self.command == "HEAD":
            return
        hub.starts.append((name, start))
        if (stall := hub.stall_after.pop(name, None)) is not None:
            self.close_connection = True
            with suppress(ConnectionError):  # the client is killed while it waits
                self.wfile.write(body[:stall])
                hub.sent[name] += stall
                hub.released.wait()
            return
        self.wfile.write(body)
        hub.sent[name] += len(body)

    def send(self, body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.start_answer(status, len(body), headers or {})
        if self.command == "GET":
            self.wfile.write(body)

    def start_answer(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in (headers | {"Content-Length": str(length)}).items():
            self.send_header(key, value)
        self.end_headers()


@contextmanager
def running_hub(repository: str, revision: str, files: dict[str, bytes]) -> Iterator[Hub]:
    hub = Hub(repository, revision, files)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.released.set()
        hub.shutdown()
        thread.join()
        hub.server_close()
