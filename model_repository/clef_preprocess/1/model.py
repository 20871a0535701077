"""Triton's adapter of `preprocess.Preprocessor`: a SystemOne request in, the model's inputs out."""

from __future__ import annotations

import gc
import time

import numpy as np
import triton_python_backend_utils as pb_utils

from adapter.shared_memory import fitted, free_bytes
from adapter.step import respond
from adapter.tensors import Array, Parameters, Tensors
from preprocess.errors import DeadlineExceeded
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings, deadline


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        free = free_bytes()
        settings = fitted(Settings(), free)
        pb_utils.Logger.log_info(
            f"the image patches of a request may have {settings.max_patches_bytes} bytes; {free} are free in /dev/shm"
        )
        self._preprocessor = Preprocessor(settings)
        # A body of millions of values is read in two thirds of the time: fewer looks at what is in use.
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)

    def execute(self, requests: list[pb_utils.InferenceRequest]) -> None:
        respond(requests, self._step, "clef_preprocess", clock="PREPROCESS_MS")

    def _step(self, inputs: dict[str, Array], parameters: Parameters) -> Tensors:
        # Whatever waited too long behind others, in Triton's own memory, costs no more than this.
        until = deadline(parameters)
        if until is not None and until <= time.time():
            raise DeadlineExceeded("the deadline passed before the request was read")
        images = inputs.get("IMAGES")
        tensors = self._preprocessor(inputs["REQUEST"][0], None if images is None else list(images), parameters)
        if "CACHE_KEY" in inputs:
            token = str(parameters.get("cancel_token", "")).encode(errors="replace")
            tensors["COMPUTED_FOR"] = np.array([token], dtype=np.object_)
            tensors["IMAGE_COUNT"] = np.array([len(tensors["IMAGE_GRID"])], dtype=np.int32)
        return tensors
