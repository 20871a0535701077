"""Tensors and parameters of a request, and a response's. A batch axis of 1 on the wire, and none inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from preprocess.errors import InvalidRequest

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array]
Parameters = dict[str, str | int | bool]


def read(request: pb_utils.InferenceRequest) -> dict[str, Array]:
    """Every input that the request carries. Raises InvalidRequest for more rows than one."""
    tensors = {}
    for tensor in request.inputs():
        array = tensor.as_numpy()
        if len(array) != 1:
            raise InvalidRequest("every tensor needs a batch axis of exactly 1")
        tensors[tensor.name()] = array[0]
    return tensors


def parameters(request: pb_utils.InferenceRequest) -> Parameters:
    """The request's custom parameters. Raises InvalidRequest where they are no text, as KServe over HTTP allows."""
    try:
        told: Parameters = json.loads(request.parameters() or "{}")
    except UnicodeDecodeError:
        raise InvalidRequest("The parameters are not UTF-8.") from None
    return told


def response(tensors: Tensors) -> pb_utils.InferenceResponse:
    """A response that holds these tensors."""
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, array[None]) for name, array in tensors.items()])
