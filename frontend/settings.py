"""Settings of the frontend, read from the environment. What changes an answer is set in Triton's steps, not here."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasGenerator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

# The launcher's too.
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8080

_SHARED_NAMES = {"host": "FRONTEND_HOST", "port": "FRONTEND_PORT", "triton_url": "TRITON_URL"}
# Where a replica keeps things: nothing that replicas share, and URLs that may hold a password.
_PLACES = {"keys", "rate_storage", "usage_url"}

Milliseconds = Annotated[int, Field(ge=1)]


class SettingsError(ValueError):
    """A setting is wrong; the text names its environment variable."""


def _env_name(field: str) -> str:
    return _SHARED_NAMES.get(field, f"SYSTEMONE_{field.upper()}")


class Settings(BaseSettings):
    """Frozen; each field is the variable `SYSTEMONE_` + its name in capitals, save the three named above."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        validate_by_name=True,
        validate_by_alias=True,
        alias_generator=AliasGenerator(validation_alias=_env_name),
    )

    host: str = DEFAULT_HOST
    port: Annotated[int, Field(ge=0, le=65_535)] = DEFAULT_PORT
    triton_url: Annotated[str, Field(pattern=r"^[^/\s]+:\d{1,5}$")] = "127.0.0.1:8001"
    """host:port of Triton's gRPC endpoint, without a scheme."""

    request_timeout_ms: Milliseconds = 30_000
    """From a request's whole body to its answer; past it the answer is a 504."""
    body_timeout_ms: Milliseconds = 30_000
    """For a request's head to arrive, and for its body; past it the answer is a 408."""
    max_in_flight: Annotated[int, Field(ge=1)] = 512
    """Decisions that are read or computed at once; one more is answered 503."""
    batch_max_items: Annotated[int, Field(ge=1, le=1_000)] = 32
    """Requests that one batch may hold."""
    batch_concurrency: Annotated[int, Field(ge=1)] = 16
    """Requests of one batch that are with the model at once: as many as the model step is handed together."""
    health_interval_ms: Milliseconds = 1_500
    """After this time without an answer the heartbeat asks for one."""
    health_timeout_ms: Milliseconds = 3_000
    """A heartbeat that takes longer has failed, unless a real answer came meanwhile."""

    keys: Path = Path("keys.json")
    """Who may call; without the file, everybody."""
    rate_storage: str = "memory://"
    """Where rates are counted: memory:// in this process, redis://… for several frontends together."""
    rate_timeout_ms: Milliseconds = 500
    """For one exchange with the rate storage; past it the rates are counted in this process until it is back."""
    usage_url: str = "sqlite:///usage.sqlite3"
    """The usage log's database: sqlite:///FILE or postgresql://…"""

    def public(self) -> dict[str, Any]:
        """The settings that replicas of one service share: no address, no secret."""
        return self.model_dump(exclude=_SHARED_NAMES.keys() | _PLACES)


def read_settings() -> Settings:
    """The settings from the environment. Raises SettingsError naming the variable."""
    try:
        return Settings()
    except ValidationError as error:
        problems = (f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors())
        raise SettingsError("; ".join(problems)) from None


def fingerprint(*parts: Any) -> str:
    """16 hex digits that are equal where the settings are."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
