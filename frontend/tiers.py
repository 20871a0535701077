"""Who calls, and what their tier allows."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as validated

Count = Annotated[int, Field(ge=1, strict=True)]


@validated(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Tier:
    """Limits of one tier; None leaves the server's own, which a tier can lower and never raise."""

    questions: Annotated[int, Field(ge=1, le=255, strict=True)] | None = None
    images: Annotated[int, Field(ge=0, strict=True)] | None = None
    tokens: Count | None = None
    body_bytes: Count | None = None
    decisions_per_minute: Count | None = None
    """None: as many as the server answers."""

    def parameters(self) -> dict[str, int]:
        """The limits as the ensemble's request parameters, by which the preprocess step applies them."""
        limits = {
            "max_questions": self.questions,
            "max_images": self.images,
            "max_length": self.tokens,
            "max_body_bytes": self.body_bytes,
        }
        return {name: value for name, value in limits.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller of one request."""

    key_name: str | None
    """None: came without a key."""
    account: str
    """Whose rate its decisions count to: a key's, or an address' where there is no key."""
    tier: Tier = field(default_factory=Tier)
    key_hash: str | None = field(default=None, repr=False)
    """Of the key itself, as its name may pass to another."""
