"""The published document: FastAPI's, with the request's schema from the one validator of the project."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from frontend import head, workers_ai
from frontend.ollaya_documents import decide_request
from frontend.openai_types import DecisionRequest
from preprocess.assets import Asset
from preprocess.image_references import LEAST_FRAMES
from preprocess.presets import PRESETS
from preprocess.schema import MAX_LEVELS, MAX_OPTIONS, Request

_REF = "#/components/schemas/{model}"
_TEXT = {"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "array"}]}
_TEXT_OR_NULL = {"anyOf": [*_TEXT["anyOf"], {"type": "null"}]}
_IMAGE = {
    "description": "A data URL or base64 of a PNG, JPEG or WebP file. Nothing is ever fetched.",
    "anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    ],
}
_VIDEO = {
    "anyOf": [
        {"type": "array", "minItems": LEAST_FRAMES, "items": _IMAGE, "description": "The frames, all of one size."},
        {
            "type": "string",
            "description": "A data URL or base64 of an MP4 or WebM file; 422 where the server decodes no files. "
            "Nothing is ever fetched.",
        },
    ],
}
_READ_VIDEOS = {"anyOf": [{"type": "array", "items": _VIDEO}, {"type": "null"}]}
_NO_VIDEOS = {"anyOf": [{"type": "array", "maxItems": 0}, {"type": "null"}], "description": "This server reads none."}
_PRESET = {"enum": list(PRESETS)}
_ASSETS = {
    "description": "Images by the placeholder that stands for them in the texts of state, instructions and criteria.",
    "anyOf": [
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"minLength": 1},
            "additionalProperties": {"$ref": "#/components/schemas/Asset"},
        },
        {"type": "null"},
    ],
}


def document(app: FastAPI, *, videos: bool) -> dict[str, Any]:
    """The OpenAPI document of a server that reads videos, or none."""
    schema = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        openapi_version="3.1.0",
    )
    schema["components"]["schemas"].update(request_schemas(videos=videos))
    schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path in schema["paths"].values():
        for operation in path.values():
            if "401" in operation["responses"]:
                operation["security"] = [{}, {"key": []}]  # a server without keys, or with a public tier, takes {}
    head.document(schema["paths"])
    return schema


def request_schemas(*, videos: bool) -> dict[str, Any]:
    """`Request`, the schemas of its questions, and what other dialects make of it.

    pydantic writes down the fields; what the validator checks by functions of its own is added here.
    """
    request = Request.model_json_schema(ref_template=_REF)
    schemas: dict[str, Any] = {**request.pop("$defs"), "Request": request, "Asset": Asset.model_json_schema()}
    # Either of the two holds the file.
    schemas["Asset"]["anyOf"] = [
        {"required": [name], "properties": {name: {"type": "string"}}} for name in ("data_base64", "part")
    ]
    request["description"] = "One state and the questions about it. Fields that are not named here are ignored."
    request["required"] = ["state"]
    request["anyOf"] = [{"required": ["questions"]}, {"required": ["x_preset"], "properties": {"x_preset": _PRESET}}]
    fields = request["properties"]
    fields["model"] = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Missing: the only one served."}
    fields["state"]["description"] = "Any JSON value."
    fields["images"]["anyOf"][0]["items"] = _IMAGE
    fields["videos"] = _READ_VIDEOS if videos else _NO_VIDEOS
    fields["assets"] = _ASSETS
    fields["x_preset"] = {
        "anyOf": [_PRESET, {"type": "null"}],
        "description": "A set of questions that is asked before the request's own; see /api/presets.",
    }
    for question in ("Noul", "Choice", "Score"):
        schemas[question]["properties"]["instructions"] = {
            **_TEXT_OR_NULL,
            "description": "Missing, null or empty: the question's id.",
        }
    schemas["Noul"]["properties"]["criteria"]["anyOf"][0]["additionalProperties"] = _TEXT_OR_NULL
    schemas["Choice"]["properties"]["criteria"] |= {"additionalProperties": _TEXT_OR_NULL, "maxProperties": MAX_OPTIONS}
    schemas["Score"]["properties"]["criteria"] |= {"items": _TEXT, "maxItems": MAX_LEVELS}
    decisions = DecisionRequest.model_json_schema(ref_template=_REF)
    return {
        **schemas,
        **decisions.pop("$defs"),
        "DecisionRequest": decisions,
        "DecideRequest": decide_request(request),
        "WorkersAIRequest": workers_ai.request_schema(request),
    }
