"""`GET /api/presets`: the question sets that a request may name as `x_preset`."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from preprocess.presets import PRESETS


class PresetEntry(BaseModel):
    name: str
    description: str
    questions: dict[str, dict[str, Any]]


class PresetList(BaseModel):
    """In a request, `x_preset: name` stands for `questions` as they are here."""

    presets: list[PresetEntry]


def listing() -> dict[str, Any]:
    """The body."""
    return {
        "presets": [
            {"name": name, "description": preset.description, "questions": preset.questions}
            for name, preset in PRESETS.items()
        ]
    }


def router() -> APIRouter:
    routes = APIRouter(tags=["Ollaya"])

    @routes.get("/api/presets", response_model=PresetList, summary="Question sets that a request may name")
    async def presets() -> JSONResponse:
        return JSONResponse(listing())

    return routes
