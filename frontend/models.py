"""`GET /v1/models`: every name that a request may use, and the settings behind the answers."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from frontend.documents import ErrorBody, ModelList
from frontend.model_info import ModelInfo
from frontend.settings import Settings
from frontend.triton import Triton
from preprocess.errors import Overloaded


def listing(settings: Settings, info: ModelInfo) -> dict[str, Any]:
    """The body: the model's own name first, then its aliases, each with the same description and revision."""
    return {
        "models": [
            {
                "name": name,
                "description": info.description,
                "release_date": info.release_date,
                "x_revision": info.revision,
            }
            for name in info.names
        ],
        "x_revision": info.revision,
        "x_settings": dict(info.settings),
        "x_limits": {**info.limits, "max_batch_items": settings.batch_max_items},
    }


def router(settings: Settings, triton: Triton) -> APIRouter:
    routes = APIRouter(tags=["SystemOne"])

    @routes.get(
        "/v1/models",
        response_model=ModelList,
        responses={503: {"model": ErrorBody, "description": "No answer has come from Triton yet."}},
        summary="The model, its aliases, its settings and its limits",
    )
    async def models() -> JSONResponse:
        info = triton.info()
        if info is None:
            raise Overloaded("The model server is starting.")
        return JSONResponse(listing(settings, info))

    return routes
