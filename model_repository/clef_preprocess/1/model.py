"""Triton's adapter of `preprocess.Preprocessor`: a SystemOne request in, the model's inputs out."""

from __future__ import annotations

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.step import Parameters, Tensors, respond
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        self._preprocessor = Preprocessor(Settings())

    def execute(self, requests: list[pb_utils.InferenceRequest]) -> list[pb_utils.InferenceResponse]:
        return respond(requests, self._step, clock="PREPROCESS_MS")

    def _step(self, inputs: dict[str, np.ndarray], parameters: Parameters) -> Tensors:
        images = inputs.get("IMAGES")
        return self._preprocessor(inputs["REQUEST"][0], None if images is None else list(images), parameters)
