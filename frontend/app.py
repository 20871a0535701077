"""The HTTP app, put together from what it is given."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator

from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from frontend import (
    batch,
    errors,
    health,
    metrics,
    models,
    ollaya,
    openai_decisions,
    openrouter,
    presets,
    systemone,
    workers_ai,
)
from frontend.accounting import Accounting
from frontend.context import RequestContext
from frontend.decisions import Decisions
from frontend.envelopes import render_for
from frontend.head import HeadAsGet
from frontend.health import Heartbeat
from frontend.keyring import KeyRing
from frontend.lingering import LingeringClose
from frontend.metrics import Metrics
from frontend.openapi import document
from frontend.rates import Rates
from frontend.settings import Settings, SettingsError
from frontend.tracing import TracedRequests, Tracing
from frontend.triton import Triton
from frontend.usage import UsageLog

# The project's, as the newest heading of CHANGELOG.md has it.
VERSION = "0.1.0"
DESCRIPTION = "Decisions by Cloudflare's Clef models on Triton Inference Server, in the SystemOne contract."


def create_app(settings: Settings, triton: Triton, tracing: Tracing | None = None) -> FastAPI:
    """The app; its lifespan opens `triton`, runs the heartbeat and the usage log, and closes them all, `tracing` too.

    Raises SettingsError for a key file that cannot be read and for URLs that name nothing.
    """
    counters = Metrics()
    with _naming("SYSTEMONE_KEYS"):
        keys = KeyRing(settings.keys)
    with _naming("SYSTEMONE_RATE_STORAGE"):
        rates = Rates(settings.rate_storage, settings.rate_timeout_ms / 1000, counters)
    with _naming("SYSTEMONE_USAGE_URL"):
        usage = UsageLog(settings.usage_url, counters)
    heartbeat = Heartbeat(settings, triton)
    decisions = Decisions(settings, triton, heartbeat, keys, rates)
    counters.in_flight.set_function(lambda: decisions.in_flight)
    counters.ready.set_function(lambda: heartbeat.ready)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        usage.start()
        await triton.start()
        beating = asyncio.create_task(heartbeat.run())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait([beating])
            await triton.close()
            await rates.close()
            await usage.close()
            if tracing is not None:
                await tracing.close()

    app = FastAPI(
        title="clef-triton",
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        # A redirect would be built from the Host header, and clients drop a POST's body on it.
        redirect_slashes=False,
        # See frontend.tracing.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    errors.install(app)
    app.include_router(systemone.router(decisions))
    app.include_router(batch.router(settings, decisions))
    app.include_router(openai_decisions.router(decisions))
    app.include_router(openrouter.router(decisions, triton))
    app.include_router(workers_ai.router(decisions, triton))
    app.include_router(ollaya.router(decisions, triton, heartbeat))
    app.include_router(presets.router())
    app.include_router(models.router(settings, triton))
    app.include_router(health.router(settings, triton, heartbeat))
    app.include_router(metrics.router(counters))
    app.add_api_route("/", _index, response_class=PlainTextResponse, tags=["Service"], summary="Where to look")
    documented = functools.cache(functools.partial(document, app))
    app.openapi = lambda: documented(videos=_reads_videos(triton))  # type: ignore[method-assign]
    app.add_middleware(LingeringClose)
    app.add_middleware(HeadAsGet)
    # Around all those: it sees every answer.
    app.add_middleware(RequestContext, render_for=render_for, finished=Accounting(counters, usage).finished)
    if tracing is not None:
        app.add_middleware(TracedRequests, tracer=tracing.tracer)
    return app


def _reads_videos(triton: Triton) -> bool:
    info = triton.info()
    return info is not None and bool(info.settings.get("videos"))


@contextlib.contextmanager
def _naming(variable: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise SettingsError(f"{variable}: {error}") from None


async def _index() -> PlainTextResponse:
    return PlainTextResponse("clef-triton serves POST /v1/systemone. See /docs.\n")
