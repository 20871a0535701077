"""A loaded release that scores records."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clef.batch import Record
from clef.settings import ModelSettings


class ClefModel:
    """Trunk and joint head of one release on one device. Not thread-safe: one thread computes."""

    @classmethod
    def load(cls, settings: ModelSettings, device: str) -> "ClefModel":
        """Load `settings.release` on `device` (`cpu`, `cuda:0`), or on `settings.device` where that is set.

        Raises ReleaseError with a sentence where the release, or this machine, cannot serve it.
        """
        raise NotImplementedError

    def check(self, record: Record) -> None:
        """Raises InvalidRecord where the record does not fit this release (ids, image tokens)."""
        raise NotImplementedError

    def score(self, records: Sequence[Record]) -> list[NDArray[np.float32]]:
        """One forward pass on one micro-batch: the logits of each record, [O] in head order."""
        raise NotImplementedError

    def warm_up(self) -> None:
        """Compute text of several lengths and batch sizes and an image. Raises ReleaseError where a score is not finite."""
        raise NotImplementedError
