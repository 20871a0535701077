"""Image patches and the shared memory that Triton hands tensors over in.

A step's region there grows to the largest tensors that it has held and never shrinks. Where it cannot grow, every
request that needs room fails, so the patches of one request are held to what fits beside those of others.
"""

from __future__ import annotations

import os
from pathlib import Path

from clef.settings import ModelSettings
from preprocess.encoder import PATCHES_PER_TOKEN
from preprocess.patches import PATCH_BYTES
from preprocess.settings import MIB, Settings
from preprocess.video_processor import GROUP

SHM = Path("/dev/shm")
# Requests with as many patches as they may have, at the model step at once, beside one that is being prepared.
IN_FLIGHT = 8
# Of the three steps at rest, and of tensors that are no images.
RESERVED_BYTES = 8 * MIB


def free_bytes(folder: Path = SHM) -> int:
    """The room in the file system of `folder`."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fitted(settings: Settings, free: int) -> Settings:
    """`settings` whose `max_patches_bytes` is what the tokens of a request and `free` bytes have room for.

    An operator's own lower value stays.
    """
    # A video's token stands for a place in two frames.
    frames = GROUP if settings.videos else 1
    by_tokens = settings.max_length * PATCHES_PER_TOKEN * frames * PATCH_BYTES
    bounds = [by_tokens, max(1, _room(settings, free) // (IN_FLIGHT + 1))]
    if settings.max_patches_bytes is not None:
        bounds.append(settings.max_patches_bytes)
    return settings.model_copy(update={"max_patches_bytes": min(bounds)})


def bounded(settings: ModelSettings, requests: Settings, free: int) -> ModelSettings:
    """`settings` whose `max_waiting_patches_bytes` leaves room for one request that arrives and one in preparation."""
    most = min(settings.max_waiting_patches_bytes, max(1, _room(requests, free) * (IN_FLIGHT - 1) // (IN_FLIGHT + 1)))
    return settings.model_copy(update={"max_waiting_patches_bytes": most})


def _room(settings: Settings, free: int) -> int:
    """Bytes for patches, beside what a request itself may have."""
    return free - RESERVED_BYTES - settings.max_body_bytes - settings.max_images_bytes
