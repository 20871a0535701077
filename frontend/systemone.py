"""The SystemOne dialect: its JSON is the ensemble's own, so both ways go through untouched.

Follows the SystemOne contract; every other dialect is a module like this one that translates before and after.
"""

import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from frontend.decision import Decision
from frontend.decisions import Decisions
from frontend.documents import ERRORS, MULTIPART_REQUEST, REQUEST_EXAMPLES, SystemOneAnswer
from frontend.routes import PlainRoute

_ANSWER_HEADERS = {
    "x-request-id": "The client's own id where it is sane, else a new one.",
    "x-typesafe-request-id": "The same id, under the name that TypeSafe's clients read.",
    "x-model-revision": "The revision of the model that answered.",
    "x-batch-size": "Records in the micro-batch that held this request; 0 where its answer was kept.",
    "server-timing": "queue, preprocess, compute, postprocess, total, in ms; cache;desc=hit where its answer was kept.",
}
_DOCUMENT: dict[str, Any] = {
    "response_model": SystemOneAnswer,
    "responses": {
        200: {
            "description": "Every question's answer.",
            "headers": {
                name: {"description": text, "schema": {"type": "string"}} for name, text in _ANSWER_HEADERS.items()
            },
        },
        **ERRORS,
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/Request"}, "examples": REQUEST_EXAMPLES},
                "multipart/form-data": MULTIPART_REQUEST,
            },
        }
    },
}


def router(decisions: Decisions) -> APIRouter:
    routes = APIRouter(tags=["SystemOne"], route_class=PlainRoute)

    # The lower one is registered, and stands in the document, first.
    @routes.post("/api/v1/systemone", summary="The same as /v1/systemone", **_DOCUMENT)
    @routes.post("/v1/systemone", summary="Decide", **_DOCUMENT)
    async def systemone(request: Request) -> Response:
        async with decisions.admitted(request, "systemone"):
            body, images = await decisions.read_request(request)
            decision = await decisions.decide(body, request, images=images)
        return Response(decision.response, headers=answer_headers(request, decision), media_type="application/json")

    return routes


def answer_headers(request: Request, decision: Decision) -> dict[str, str]:
    """What an answer says of its making, in every dialect."""
    times = {**decision.times_ms, "total": (time.perf_counter() - request.state.started) * 1000}
    timing = [f"{name};dur={value:.3f}" for name, value in times.items()]
    return {
        "server-timing": ", ".join([*timing, *(["cache;desc=hit"] if decision.cached else [])]),
        "x-model-revision": decision.model.revision,
        "x-batch-size": str(decision.batch_size),
    }
