"""The preprocess step: one request in, the tensors of the model step and the answer's plan out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from preprocess.settings import Settings


class Preprocessor:
    """Everything that is loaded once; a call is one request. Raises only `ServiceError`s for what a client sent."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def info(self) -> bytes:
        """MODEL_INFO: JSON, constant while the step lives."""
        raise NotImplementedError

    def __call__(
        self, body: bytes, images: Sequence[bytes] | None, parameters: Mapping[str, Any]
    ) -> dict[str, np.ndarray[Any, Any]]:
        """The step's tensors by name, without the batch axis. `images` None: the request brought no IMAGES tensor."""
        raise NotImplementedError
