"""Preparing images in a test, with everything checked that holds for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from preprocess.images import ImageRules, Images
from preprocess.settings import Settings
from preprocess.threads import Threads
from tests.golden_cases import RELEASE

# More than this machine may have: whatever it has, images are read side by side and in bands.
THREADS = Threads(3)
RULES = ImageRules.load(RELEASE)
Array = np.ndarray[Any, Any]


def prepared(settings: Settings, *files: bytes) -> tuple[Array, Array]:
    """Patches and grids, with what holds for all of them checked."""
    images = Images(list(files), RULES, settings)
    patches, grids = images.patches(settings.image_mode, THREADS)
    assert patches.dtype == np.uint8 and patches.shape == (grids.prod(axis=1).sum(), 768)
    assert grids.dtype == np.int32 and grids.shape == (len(files), 3) == images.header_grids.shape
    assert (grids[:, 0] == 1).all() and (grids[:, 1:] % 2 == 0).all()
    assert (grids.prod(axis=1) == images.header_grids.prod(axis=1)).all()
    return patches, grids
