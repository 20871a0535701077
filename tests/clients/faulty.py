"""The real frontend on a real port, over a Triton that fails as a request's state says.

A state `{"fault": NAME, "times": N}` fails N times and is answered from then on.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from frontend.app import create_app
from frontend.keyring import AuthenticationFailed
from frontend.rates import PermissionDenied, RateLimited
from frontend.settings import Settings
from preprocess.errors import DeadlineExceeded, InternalError, Overloaded
from tests.frontend.fakes import Call, FakeEnsemble, FakeTriton

_FAULTS = {
    "unauthenticated": AuthenticationFailed("The key is not known."),
    "denied": PermissionDenied("This tier may not do that."),
    "limited": RateLimited(60, 0.25),
    "broken": InternalError(),
    "overloaded": Overloaded("The queue is full."),
    "late": DeadlineExceeded("The deadline passed."),
}


@contextmanager
def faulty_frontend(folder: Path) -> Iterator[str]:
    """Its URL; its usage log goes to the folder."""
    failed: Counter[str] = Counter()

    def fault(call: Call) -> Exception | None:
        state = json.loads(call.body)["state"]
        if not isinstance(state, dict) or "fault" not in state:
            return None
        name = json.dumps(state)
        failed[name] += 1
        return _FAULTS[state["fault"]] if failed[name] <= state["times"] else None

    settings = Settings(keys=folder / "keys.json", usage_url=f"sqlite:///{folder}/usage.sqlite3")
    triton = FakeTriton(FakeEnsemble(), fault=fault)
    server = uvicorn.Server(uvicorn.Config(create_app(settings, triton), log_level="warning", access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
