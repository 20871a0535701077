"""A loaded release that scores records."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clef import warmup
from clef.batch import Record
from clef.collate import collate
from clef.errors import DeviceLost, InvalidRecord, ReleaseError
from clef.footprint import CHUNK
from clef.graphs import Capture, Graphs, cuda_capture
from clef.head import JointHead
from clef.kernels import can_pack, missing_kernels, refusal
from clef.packed import install
from clef.prefix import Prefix
from clef.reading import check_reading
from clef.release import open_release
from clef.settings import ModelSettings
from clef.states import States, rest
from clef.totals import Totals
from clef.trunk import Trunk

log = logging.getLogger(__name__)

SAME = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""How far scores may be from those of the plain way, each record whole, alone and at once, as a part of how far scores
would be that ignored what the other way is about."""


class ClefModel:
    """Trunk and joint head of one release on one device. Not thread-safe: one thread computes."""

    packs = False
    """Whether records without a prefix are computed end to end, without padding; see `warm_up`."""

    def __init__(
        self, trunk: Trunk, head: JointHead, device: torch.device, settings: ModelSettings, can_pack: bool = False
    ) -> None:
        self._can_pack = can_pack
        self._trunk, self._head, self._device, self._settings = trunk, head, device, settings
        self.totals = Totals()
        self.states = States(
            trunk, head, self.totals, max_bytes=settings.state_cache_bytes, min_tokens=settings.state_cache_min_tokens
        )

    @classmethod
    def load(cls, settings: ModelSettings, device: str) -> ClefModel:
        """Load `settings.release` on `device` (`cpu`, `cuda:0`), or on `settings.device` where that is set.

        Raises ReleaseError with a sentence where the release, or this machine, cannot serve it.
        """
        place = _device(device if settings.device == "auto" else settings.device)
        missing, dtype = missing_kernels(), _dtype(settings, place)
        reason = refusal(place.type, missing, settings.allow_slow_kernels)
        if reason is not None:
            raise ReleaseError(reason)
        release = open_release(settings.release)
        check_reading(release.path)
        trunk = Trunk.load(release.path, place, dtype)
        return cls(trunk, JointHead.load(release, place), place, settings, can_pack(place.type, dtype, missing))

    def check(self, record: Record) -> None:
        """Raises InvalidRecord where the record contradicts itself, is too long or does not fit this release."""
        record.check()
        if record.length > self._settings.max_length:
            raise InvalidRecord(f"a record has {record.length} tokens; {self._settings.max_length} are allowed")
        self._trunk.check(record)

    def prefix(self, record: Record) -> Prefix | None:
        """What `score` may continue the record from; None where it is to be computed whole."""
        return self.states.prefix(record)

    def holds(self, prefix: Prefix) -> bool:
        """Whether the prefix is computed already, so that only what stands behind it is left."""
        return prefix in self.states.cache

    @torch.inference_mode()
    def score(self, records: Sequence[Record], prefix: Prefix | None = None) -> list[NDArray[np.float32]]:
        """Score one micro-batch of checked records: the logits of each, [O] in head order.

        With `prefix`, which all of them then have, they continue its computed state. Raises DeviceLost where nothing
        can be computed any more.
        """
        with contextlib.suppress(torch.OutOfMemoryError):
            return self._score(records, prefix)
        # Out here nothing of the failed attempt is alive any more.
        log.warning("out of memory: tried once more without the states that were kept")
        self.states.cache.clear()
        return self._score(records, prefix)

    def _score(self, records: Sequence[Record], prefix: Prefix | None) -> list[NDArray[np.float32]]:
        try:
            logits = self._whole(records) if prefix is None else self.states.logits(records, prefix)
            scores: NDArray[np.float32] = logits.cpu().numpy()
        except torch.AcceleratorError as error:
            raise DeviceLost("the device's context is lost") from error
        return np.split(scores, np.cumsum([record.options for record in records])[:-1])

    def _whole(self, records: Sequence[Record]) -> Tensor:
        packed = self.packs and len(records) > 1
        batch = collate(records, self._device, packed)
        self.totals.add_batch([record.length for record in records], packed)
        return self._head(self._trunk.forward(batch), batch.layout, self._trunk.vocabulary)

    def warm_up(self) -> None:
        """Compute text of several lengths and batch sizes, and an image, so that no later request pays for being first.

        Records are packed, graphs and the state cache are used, from here on, if on this device each gives what the
        plain way does; otherwise the log says so. Raises ReleaseError where the warm-up fails or a score
        is not finite. Does nothing where the settings say so.
        """
        if not self._settings.warmup:
            return
        self.packs = self._can_pack and self._packs_rightly()
        budget = self._settings.batch_tokens, self._settings.batch_records, self._settings.max_length
        for records in warmup.batches(self._device.type, *budget, self._trunk.media_tokens.image, self._trunk.merge):
            self._warm_up(records)
        if self._settings.graph_tokens and self._device.type == "cuda":
            self._use_graphs(cuda_capture(self._device))
        if self._settings.state_cache_bytes:
            self.states.enabled = self._continues_rightly()
            self.states.cache.clear()

    def _warm_up(self, records: Sequence[Record], prefix: Prefix | None = None) -> NDArray[np.float32]:
        try:
            scores = np.concatenate(self.score(records, prefix))
        except RuntimeError as error:
            raise ReleaseError(f"the warm-up failed: {error}") from error
        if not np.isfinite(scores).all():
            raise ReleaseError("the warm-up's scores are not finite: the weights are damaged")
        return scores

    def _continues_rightly(self) -> bool:
        """Whether records behind a prefix of two segments score as they do whole: when it is made, and when found."""
        spacing = self.states.footprint.spacing
        for records in warmup.continued(spacing, self._trunk.media_tokens.image, self._trunk.merge):
            prefix = Prefix.of(records[0], spacing)
            whole = self._warm_up(records)
            forgetful = self._warm_up([rest(record) for record in records])
            for _ in range(2):
                off = self._off(self._warm_up(records, prefix), whole, forgetful)
                if off:
                    log.error("continued states are off by %.2g: the state cache stays off on this device", off)
                    return False
        return True

    def _packs_rightly(self) -> bool:
        """Whether records behind others in a packed row score as they do alone."""
        install(self._trunk.model)
        records, mistaken = warmup.neighbours(self._trunk.media_tokens.image)
        alone, merged = ([self._warm_up([each]) for each in those] for those in (records[1:], mistaken))
        self.packs = True
        try:
            packed = np.split(self._warm_up(records), len(records))[1:]
        except DeviceLost:
            raise
        except Exception as error:  # a kernel's package has errors of its own
            log.error("records cannot be packed: micro-batches are padded on this device (%s)", error)
            return False
        off = max(map(self._off, packed, alone, merged))
        if off:
            log.error("packed records are off by %.2g: micro-batches are padded on this device", off)
            return False
        return True

    @torch.inference_mode()
    def _use_graphs(self, capture: Capture) -> None:
        """Compute short texts by graphs from here on, if they score by those, between two lengths, as without."""
        most = min(self._settings.graph_tokens, self._settings.max_length)
        pairs = list(warmup.pairs(range(CHUNK - 1, most, CHUNK), self._trunk.media_tokens.image))
        plain = [[self._warm_up([record]) for record in pair] for pair in pairs]
        try:
            self._trunk.graphs = Graphs(self._trunk.text, most, self._device, capture)
            replayed = [[self._warm_up([record]) for record in pair] for pair in pairs]
        except DeviceLost:
            raise
        except Exception as error:  # as above
            log.error("graphs cannot be captured, and are not used on this device: %s", error)
            self._trunk.graphs = None
            return
        offs = [
            self._off(scores, own, other)
            for found, wanted in zip(replayed, plain, strict=True)
            for scores, own, other in zip(found, wanted, reversed(wanted), strict=True)
        ]
        off = max(offs, default=0.0)
        if off:
            log.error("graphs are off by %.2g, and are not used on this device", off)
            self._trunk.graphs = None

    def _off(self, found: NDArray[np.float32], right: NDArray[np.float32], wrong: NDArray[np.float32]) -> float:
        """How far scores are from the right ones, if that is too far beside the wrong ones; otherwise 0."""
        off = float(np.abs(found - right).max())
        return off if off > SAME[self._trunk.vocabulary.dtype] * np.abs(wrong - right).max() else 0.0


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
