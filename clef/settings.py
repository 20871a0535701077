"""Settings of the model step, read from the environment (`CLEF_…`)."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from clef.footprint import CHUNK

PREFIX = "CLEF_"


class SettingsError(ValueError):
    """A setting is missing or wrong; the text names its environment variable."""


class ModelSettings(BaseSettings):
    """How the model step loads and batches. Frozen; each field is the variable `CLEF_` + its name in capitals."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    release: Path
    """The release's directory."""
    device: str = "auto"
    """A torch device; `auto`: the one that the caller gives."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """The trunk's type; `auto`: bfloat16 on CUDA, float32 elsewhere. The head always works in float32."""
    max_length: int = Field(16384, gt=0)
    """Tokens of one record at most: the preprocess step's, for those who ask the model step themselves."""
    batch_tokens: int = Field(4096, gt=0)
    """Tokens of one micro-batch at most, padding included, see `clef.planner`; a longer record goes alone. More would
    hold up who comes next and compute hardly faster: so many rows keep a device's matrix multiplications busy."""
    batch_records: int = Field(32, gt=0)
    """Records of one micro-batch at most."""
    max_waiting_records: int = Field(4096, gt=0)
    """Records of the requests that wait or are computed; a request that would pass it is refused. For this one and the
    next two: a request is always taken where there is no other."""
    max_waiting_tokens: int = Field(1 << 21, gt=0)
    """Tokens of them."""
    max_waiting_patches_bytes: int = Field(1 << 31, ge=0)
    """Bytes of their image patches, which are in memory that the steps share. Who serves may have less."""
    state_cache_bytes: int = Field(1 << 30, ge=0)
    """Of computed states that are kept on the device; 0: none. Needs the warm-up, which checks it."""
    state_cache_min_tokens: int = Field(512, gt=0)
    """Tokens before the schema from which on a record's state is kept. Two passes cost more than one;
    `perf/RESULTS.md` has by how much, by length."""
    max_overtaken: int = Field(4, ge=0)
    """Micro-batches that may pass the oldest waiting record before it leads one."""
    graph_tokens: int = Field(0, ge=0, multiple_of=CHUNK)
    """A text of up to so many tokens is computed, where it is alone, by a CUDA graph captured at start, see
    `clef.graphs`, one every 64; 0: none. Not on a CPU. Needs the warm-up, which checks them."""
    allow_slow_kernels: bool = False
    """Serve on CUDA without flash-linear-attention and causal-conv1d: correct, and several times slower."""
    warmup: bool = True
    """Compute records of several sizes before the model is ready; check the state cache, packed records and graphs."""


def read_settings(**given: Any) -> ModelSettings:
    """The settings from the environment, `given` first. Raises SettingsError naming the variable."""
    try:
        return ModelSettings(**given)
    except ValidationError as error:
        problems = (
            f"{PREFIX}{'_'.join(str(part) for part in item['loc']).upper()}: {item['msg']}" for item in error.errors()
        )
        raise SettingsError("; ".join(problems)) from None
