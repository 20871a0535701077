"""What an ensemble call came to."""

from dataclasses import dataclass

from frontend.model_info import ModelInfo


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer as the ensemble gave it, with the model that gave it; times in milliseconds."""

    response: bytes
    model: ModelInfo
    queue_ms: float
    preprocess_ms: float
    compute_ms: float
    postprocess_ms: float
    batch_size: int
    images: int
    cached: bool = False
    """Whether it came out of Triton's response cache: no step has worked, so all times and `batch_size` are 0."""

    @property
    def times_ms(self) -> dict[str, float]:
        """Milliseconds by step, in the contract's order; `queue` is the model step's."""
        return {
            "queue": self.queue_ms,
            "preprocess": self.preprocess_ms,
            "compute": self.compute_ms,
            "postprocess": self.postprocess_ms,
        }
