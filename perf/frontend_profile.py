"""The frontend's own time for one request: the app, called as a server calls it, and a Triton that answers at once."""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from frontend.app import create_app
from frontend.decision import Decision
from frontend.kserve import Parameter
from frontend.model_info import ModelInfo
from frontend.settings import Settings
from launch.triton import REPOSITORY_ROOT
from perf.client import ROUTE
from perf.load_data import shorts
from perf.stack import BENCH_RELEASE, make_release
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings as RequestSettings

SHOWN = 12
ANSWER = b'{"model":"clef-flash","answers":{},"usage":{"input_tokens":1,"output_tokens":0}}'


class AtOnce:
    """A Triton (`frontend.triton.Triton`) that gives the same answer at once."""

    def __init__(self, info: ModelInfo) -> None:
        self._decision = Decision(
            response=ANSWER,
            model=info,
            queue_ms=0.0,
            preprocess_ms=0.0,
            compute_ms=0.0,
            postprocess_ms=0.0,
            batch_size=1,
            images=0,
        )

    async def start(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def ready(self, timeout_s: float) -> bool:
        return True

    def info(self) -> ModelInfo:
        return self._decision.model

    async def decide(
        self,
        body: bytes,
        *,
        request_id: str,
        deadline: float,
        parameters: Mapping[str, Parameter] | None = None,
        images: Sequence[bytes] = (),
        account: str | None = None,
    ) -> Decision:
        return self._decision

    async def answers(self, timeout_s: float) -> int:
        return 0

    async def ask_steps(self, body: bytes, *, request_id: str, timeout_s: float) -> int:
        """All are there, and nothing waits."""
        return 0


def functions(count: int) -> dict[str, Any]:
    """`call_us`: microseconds a request; `hottest`: functions by their own time under the profiler."""
    make_release(BENCH_RELEASE)
    info = ModelInfo.parse(Preprocessor(RequestSettings(release=BENCH_RELEASE)).info())
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(keys=Path(folder) / "none.json", usage_url=f"sqlite:///{folder}/usage.sqlite3")
        return asyncio.run(_measure(create_app(settings, AtOnce(info)), count))


async def _measure(app: Any, count: int) -> dict[str, Any]:
    async with app.router.lifespan_context(app):
        await _ask(app, count)
        start = time.perf_counter()
        await _ask(app, count)
        spent = time.perf_counter() - start
        profile = cProfile.Profile()
        with profile:
            await _ask(app, count)
    return {"call_us": spent / count * 1e6, "hottest": _hottest(profile, count)}


async def _ask(app: Any, count: int) -> None:
    for body in shorts(count):
        statuses: list[int] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        left = asyncio.Event()

        async def receive(messages: list[dict[str, Any]] = messages, left: asyncio.Event = left) -> dict[str, Any]:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any], statuses: list[int] = statuses) -> None:
            statuses += [message["status"]] if message["type"] == "http.response.start" else []

        await app(_scope(body), receive, send)
        if statuses != [200]:
            raise RuntimeError(f"the app answered {statuses}")


def _scope(body: bytes) -> dict[str, Any]:
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": ROUTE,
        "raw_path": ROUTE.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [*headers, (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }


def _hottest(profile: cProfile.Profile, count: int) -> list[dict[str, Any]]:
    """A function's name is without folders of this machine."""
    found = sorted(pstats.Stats(profile).stats.items(), key=lambda item: -item[1][2])  # type: ignore[attr-defined]
    return [
        {
            "function": f"{_place(file)}:{name}".lstrip(":"),
            "own_us": own / count * 1e6,
            "cumulative_us": total / count * 1e6,
        }
        for (file, _, name), (_, _, own, total, _) in found[:SHOWN]
    ]


def _place(file: str) -> str:
    """Of a module: its path in the repository or among the packages; nothing for what is built in."""
    path = Path(file)
    if "site-packages" in path.parts:
        return "/".join(path.parts[path.parts.index("site-packages") + 1 :])
    if path.is_relative_to(REPOSITORY_ROOT):
        return str(path.relative_to(REPOSITORY_ROOT))
    return "" if file in ("~", "") else path.name
