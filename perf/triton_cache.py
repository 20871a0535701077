"""A model repository whose model step has its responses cached, and what the server is told for it."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path

from launch.serve import MODEL_REPOSITORY
from launch.triton import TritonServer

CACHE_BYTES = 64 * 2**20
MODEL = "clef_model"
ENABLE = "\nresponse_cache { enable: true }\n"
COUNTERS = {"nv_cache_num_hits_per_model": "hits", "nv_cache_num_misses_per_model": "misses"}


def cached_repository(folder: Path) -> Path:
    """Our model repository with the cache enabled for the model step."""
    repository = Path(shutil.copytree(MODEL_REPOSITORY, folder / "model_repository"))
    config = repository / MODEL / "config.pbtxt"
    config.write_text(config.read_text() + ENABLE)
    return repository


def cache_options(server: TritonServer) -> list[str]:
    """The server's options. Its cache libraries lie beside its backends, or beside its program in the wheel."""
    return [f"--cache-directory={server.program.parent.parent / 'caches'}", f"--cache-config=local,size={CACHE_BYTES}"]


def cache_counts(metrics_port: int) -> dict[str, float]:
    """Hits and misses of the model step, from Triton's metrics."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{metrics_port}/metrics", timeout=10) as response:
        return counts_of(response.read().decode())


def counts_of(metrics: str) -> dict[str, float]:
    lines = [line for line in metrics.splitlines() if f'"{MODEL}"' in line]
    return {
        said: sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        for name, said in COUNTERS.items()
    }
