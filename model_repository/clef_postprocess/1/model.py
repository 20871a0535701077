"""Triton's adapter of `postprocess.answer`: logits and the request's plan in, the SystemOne answer out."""

from __future__ import annotations

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.step import respond
from adapter.tensors import Array, Parameters, Tensors
from postprocess.answers import answer
from preprocess.errors import InvalidRequest
from preprocess.plan import Plan


class TritonPythonModel:
    def execute(self, requests: list[pb_utils.InferenceRequest]) -> None:
        respond(requests, self._step, "clef_postprocess", clock="POSTPROCESS_MS")

    def _step(self, inputs: dict[str, Array], parameters: Parameters) -> Tensors:
        body, probabilities = answer(plan_of(inputs["PLAN"][0]), inputs["LOGITS"])
        return {"RESPONSE": np.array([body], dtype=np.object_), "PROBABILITIES": probabilities}


def plan_of(text: bytes) -> Plan:
    """Raises InvalidRequest where it is none: whoever asks this step directly may send anything."""
    try:
        return Plan.from_json(text)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidRequest("PLAN is not what clef_preprocess makes.") from None
