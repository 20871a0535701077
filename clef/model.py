"""A loaded release that scores records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from clef import warmup
from clef.batch import Record
from clef.collate import collate
from clef.errors import DeviceLost, ReleaseError
from clef.head import JointHead
from clef.kernels import missing_kernels, refusal
from clef.release import open_release
from clef.settings import ModelSettings
from clef.trunk import Trunk


class ClefModel:
    """Trunk and joint head of one release on one device. Not thread-safe: one thread computes."""

    def __init__(self, trunk: Trunk, head: JointHead, device: torch.device, settings: ModelSettings) -> None:
        self._trunk, self._head, self._device, self._settings = trunk, head, device, settings

    @classmethod
    def load(cls, settings: ModelSettings, device: str) -> ClefModel:
        """Load `settings.release` on `device` (`cpu`, `cuda:0`), or on `settings.device` where that is set.

        Raises ReleaseError with a sentence where the release, or this machine, cannot serve it.
        """
        place = _device(device if settings.device == "auto" else settings.device)
        reason = refusal(place.type, missing_kernels(), settings.allow_slow_kernels)
        if reason is not None:
            raise ReleaseError(reason)
        release = open_release(settings.release)
        trunk = Trunk.load(release.path, place, _dtype(settings, place))
        return cls(trunk, JointHead.load(release, place), place, settings)

    def check(self, record: Record) -> None:
        """Raises InvalidRecord where the record contradicts itself or does not fit this release."""
        record.check()
        self._trunk.check(record)

    @torch.inference_mode()
    def score(self, records: Sequence[Record]) -> list[NDArray[np.float32]]:
        """One forward pass on one micro-batch of checked records: the logits of each, [O] in head order.

        Raises DeviceLost where nothing can be computed any more.
        """
        try:
            batch = collate(records, self._device)
            hidden = self._trunk.forward(batch)
            logits: NDArray[np.float32] = self._head(hidden, batch.layout, self._trunk.vocabulary).cpu().numpy()
        except torch.AcceleratorError as error:
            raise DeviceLost("the device's context is lost") from error
        return np.split(logits, np.cumsum(batch.layout.options_per_record)[:-1])

    def warm_up(self) -> None:
        """Compute text of several lengths and batch sizes, and an image, so that no later request pays for being first.

        Raises ReleaseError where that fails or a score is not finite. Does nothing where the settings say so.
        """
        if not self._settings.warmup:
            return
        budget = self._settings.batch_tokens, self._settings.batch_records
        for records in warmup.batches(self._device.type, *budget, self._trunk.media_tokens.image, self._trunk.merge):
            try:
                scores = self.score(records)
            except RuntimeError as error:
                raise ReleaseError(f"the warm-up failed: {error}") from error
            if not all(np.isfinite(logits).all() for logits in scores):
                raise ReleaseError("the warm-up's scores are not finite: the weights are damaged")


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ReleaseError(f"{name!r} is not a device") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ReleaseError(f"the device is {name}, but PyTorch sees no CUDA here")
    return device


def _dtype(settings: ModelSettings, device: torch.device) -> torch.dtype:
    if settings.dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return torch.bfloat16 if settings.dtype == "bfloat16" else torch.float32
