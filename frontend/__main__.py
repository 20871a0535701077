"""`python -m frontend`: serve over HTTP until SIGTERM or SIGINT, then finish what runs.

It does not wait for Triton: it answers 503 until the first answer came, and again whenever none comes.
"""

import argparse
import gc
import logging
import signal
import sys
from types import FrameType

import uvicorn

from frontend.app import VERSION, create_app
from frontend.connection import connection
from frontend.logs import configure
from frontend.settings import Settings, SettingsError, read_settings
from frontend.tracing import TracedTriton, from_environment
from frontend.triton import TritonClient

# Longer than the pools of usual clients keep an idle connection, so that it is never closed under a request.
KEEP_ALIVE_S = 75


def server(settings: Settings) -> uvicorn.Server:
    """A server that stops gracefully: on a signal it takes nothing new and answers what it has."""
    tracing = from_environment(VERSION)
    triton = TracedTriton(settings.triton_url, tracing.tracer) if tracing else TritonClient(settings.triton_url)
    config = uvicorn.Config(
        create_app(settings, triton, tracing),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=connection(settings.body_timeout_ms / 1000),
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=(settings.body_timeout_ms + settings.request_timeout_ms) // 1000 + 1,
    )
    return uvicorn.Server(config)


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m frontend",
        description="Serve the SystemOne API in front of Triton, until Ctrl-C.",
        epilog="It takes no arguments: its settings are environment variables, which the README lists.",
    ).parse_args()
    try:
        settings = read_settings()
        configure()
        serving = server(settings)
    except SettingsError as error:
        print(f"The frontend cannot start: {error}", file=sys.stderr)
        return 2
    logging.getLogger(__name__).info(
        "serving", extra={"fields": {"host": settings.host, "port": settings.port, "triton": settings.triton_url}}
    )
    for stop in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop, _exit)
    # What is loaded now stays: looking through it again and again held up every request for 70 ms.
    gc.freeze()
    serving.run()
    return 0


def _exit(number: int, frame: FrameType | None) -> None:
    # uvicorn raises the signal that stopped it once more when all is answered: a graceful stop is a success.
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
