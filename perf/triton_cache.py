"""A model repository in which Triton keeps responses of one model, what the server is told for it, and what it does."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from launch.serve import MODEL_REPOSITORY
from launch.triton import TritonServer

CACHE_BYTES = 64 * 2**20
STEP, ENSEMBLE = "clef_model", "clef"
ENABLE = "\nresponse_cache { enable: true }\n"
COUNTERS = {"nv_cache_num_hits_per_model": "hits", "nv_cache_num_misses_per_model": "misses"}
LONG_PAST_MS = 1


def cached_repository(folder: Path, model: str = STEP) -> Path:
    """Our model repository with the cache enabled for one model."""
    repository = Path(shutil.copytree(MODEL_REPOSITORY, folder / "model_repository"))
    config = repository / model / "config.pbtxt"
    config.write_text(config.read_text() + ENABLE)
    return repository


def cache_options(server: TritonServer) -> list[str]:
    """The server's options. Its cache libraries lie beside its backends, or beside its program in the wheel."""
    return [f"--cache-directory={server.program.parent.parent / 'caches'}", f"--cache-config=local,size={CACHE_BYTES}"]


def cache_counts(metrics_port: int, model: str = STEP) -> dict[str, float]:
    """Hits and misses of a model, from Triton's metrics."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as response:
        return counts_of(response.read().decode(), model)


def counts_of(metrics: str, model: str = STEP) -> dict[str, float]:
    lines = [line for line in metrics.splitlines() if f'model="{model}"' in line]
    return {
        said: sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        for name, said in COUNTERS.items()
    }


def keeps_errors(client: triton_grpc.InferenceServerClient, body: bytes) -> bool:
    """Whether a request that failed once at the model step is answered without tensors ever after.

    It fails since its deadline is past; the next one has none, and would be computed.
    """
    inputs = step_inputs(client, body)
    try:
        client.infer(STEP, inputs, parameters={"deadline_ms": LONG_PAST_MS})
    except InferenceServerException:
        return client.infer(STEP, inputs).as_numpy("LOGITS") is None
    raise RuntimeError("the model step computed what is past its deadline")


def ignores_parameters(client: triton_grpc.InferenceServerClient, body: bytes) -> bool:
    """Whether the ensemble answers a request with an image where a parameter allows none, since it knows the answer."""
    inputs = [_request(body)]
    client.infer(ENSEMBLE, inputs)
    try:
        client.infer(ENSEMBLE, inputs, parameters={"max_images": 0})
    except InferenceServerException:
        return False
    return True


def step_inputs(client: triton_grpc.InferenceServerClient, body: bytes) -> list[triton_grpc.InferInput]:
    """What the model step is given for a request, for whoever asks that step by itself."""
    prepared = client.infer("clef_preprocess", [_request(body)])
    inputs = []
    for tensor in client.get_model_config(STEP, as_json=True)["config"]["input"]:
        values = prepared.as_numpy(tensor["name"])
        given = triton_grpc.InferInput(tensor["name"], values.shape, tensor["data_type"].removeprefix("TYPE_"))
        given.set_data_from_numpy(values)
        inputs.append(given)
    return inputs


def _request(body: bytes) -> triton_grpc.InferInput:
    request = triton_grpc.InferInput("REQUEST", [1, 1], "BYTES")
    request.set_data_from_numpy(np.array([[body]], dtype=np.object_))
    return request
