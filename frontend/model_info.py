"""What the ensemble says of the model that answers: its `MODEL_INFO` output."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model as the preprocess step describes it; `raw` is the JSON that it was read from."""

    raw: bytes
    name: str
    aliases: tuple[str, ...]
    description: str
    release_date: str
    revision: str
    size_bytes: int
    settings: Mapping[str, Any]
    limits: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a request may use, the model's own first."""
        return (self.name, *(alias for alias in self.aliases if alias != self.name))

    @classmethod
    def parse(cls, raw: bytes) -> "ModelInfo":
        """Read `MODEL_INFO`. Raises ValueError where it is not what the preprocess step writes."""
        try:
            fields = json.loads(raw)
            return cls(
                raw=raw,
                name=fields["name"],
                aliases=tuple(fields["aliases"]),
                description=fields["description"],
                release_date=fields["release_date"],
                revision=fields["revision"],
                size_bytes=fields["size_bytes"],
                settings=fields["settings"],
                limits=fields["limits"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"MODEL_INFO is not a model's description: {error!r}") from error
