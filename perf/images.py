"""Our images beside transformers' Pillow image processor.

Pictures of about one megapixel, one that needs no resize and one that does; from decoded pixels to patches, and from
the bytes of a PNG and of a JPEG; on one thread, which is what the code is worth, and on those that the preprocess step
would take here. Patches are compared before anything is timed. Ours are one frame of bytes, where transformers makes
floats and both frames: that is the design, and a part of the difference. Where a picture is resized, both call Pillow's
bicubic, which is timed alone too: on one thread and with its values one can be faster than transformers by no more than
what transformers takes over what Pillow takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

from perf.encoder import GOLDEN
from perf.side_by_side import ROUNDS, milliseconds, table
from preprocess.images import ImageRules, Images, grid
from preprocess.patches import PATCH_BYTES, RESAMPLE, write_patches
from preprocess.settings import Settings
from preprocess.threads import ALONE, MOST, Threads

TITLE = "Images"
QUICK_ROUNDS = 2
FROM_PIXELS, FROM_BYTES = 5, 1.5
SIZES = ((1_024, 1_024), (1_200, 850))
Way = Callable[[], Any]
FORMATS: dict[str, dict[str, Any]] = {"PNG": {}, "JPEG": {"quality": 90}}


def picture(width: int, height: int) -> Image.Image:
    """Smooth colours with a little noise, which compresses as photographs do."""
    across, down = np.meshgrid(np.linspace(0, 6, width), np.linspace(0, 6, height))
    smooth = np.stack([np.sin(across + k) * np.cos(down * (k + 1)) for k in range(3)], axis=2) * 100 + 128
    noise = np.random.default_rng(0).normal(0, 3, smooth.shape)
    return Image.fromarray(np.clip(smooth + noise, 0, 255).astype(np.uint8))


class Processors:
    """Both processors on one release."""

    def __init__(self, release: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

            self._theirs: Any = Qwen2VLImageProcessorPil.from_pretrained(release)
        self._rules = ImageRules.load(release)
        self._settings = Settings(release=release)
        self.threads = Threads()

    def from_pixels(self, image: Image.Image) -> dict[str, Way]:
        """Ways from a decoded picture to patches."""
        size = self._rules.resized(*image.size)

        def ours(threads: Threads) -> Any:
            out = np.empty((int(np.prod(grid(*size))), PATCH_BYTES), dtype=np.uint8)
            write_patches(image, size, out, threads)
            return out

        ways = self._checked(ours, lambda: self._theirs(images=[image], return_tensors="np")["pixel_values"])
        return ways if size == image.size else ways | {"pillow": lambda: image.resize(size, RESAMPLE)}

    def from_bytes(self, data: bytes) -> dict[str, Way]:
        """Ways from a file to patches."""

        def theirs() -> Any:
            image = Image.open(BytesIO(data)).convert("RGB")
            return self._theirs(images=[image], return_tensors="np")["pixel_values"]

        def ours(threads: Threads) -> Any:
            return Images([data], self._rules, self._settings).patches("faithful", threads)[0]

        return self._checked(ours, theirs)

    def _checked(self, ours: Callable[[Threads], Any], theirs: Way) -> dict[str, Way]:
        expected = np.rint(theirs() * 127.5 + 127.5).astype(np.uint8).reshape(-1, 3, 2, PATCH_BYTES // 3)
        for threads in (ALONE, self.threads):
            if not (ours(threads).reshape(-1, 3, 1, PATCH_BYTES // 3) == expected).all():
                raise SystemExit("The processors disagree: nothing was timed.")
        return {"one": lambda: ours(ALONE), "threads": lambda: ours(self.threads), "transformers": theirs}


def measure(quick: bool) -> dict[str, Any]:
    """The number of threads, and one row a picture and a start: its milliseconds by each way."""
    processors = Processors(GOLDEN / "release")
    rounds = QUICK_ROUNDS if quick else ROUNDS
    rows = []
    for width, height in SIZES:
        image = picture(width, height)
        ways = {"pixels": processors.from_pixels(image)}
        for kind, options in FORMATS.items():
            buffer = BytesIO()
            image.save(buffer, kind, **options)
            ways[kind] = processors.from_bytes(buffer.getvalue())
        rows += [{"size": f"{width} x {height}", "from": start, **_times(way, rounds)} for start, way in ways.items()]
    return {"threads": processors.threads.count, "rows": rows}


def _times(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    cpu = milliseconds({"threads_cpu": ways["threads"]}, rounds)
    return milliseconds(ways, rounds, perf_counter) | cpu


def report(data: dict[str, Any]) -> str:
    """The measurement as Markdown."""
    threads, rows = data["threads"], data["rows"]
    columns = (
        "picture",
        "from",
        "transformers, ms",
        "ours, one thread, ms",
        "times faster",
        f"ours, {threads} threads, ms",
        "times faster",
        f"CPU ms of the {threads} threads",
    )
    cells = [(r["size"], r["from"], *_beside(r, "one"), *_beside(r, "threads")[1:], r["threads_cpu"]) for r in rows]
    bounds = [_bound(row) for row in rows if "pillow" in row]
    return "\n\n".join(
        [
            f"At least {FROM_PIXELS} times from pixels and {FROM_BYTES} times from a file's bytes are asked. Times are "
            f"on the clock. transformers uses one thread; ours takes one for each processor, {MOST} at most, and here "
            f"that is {threads}, which shortens a lone request and saves no CPU time.",
            table(columns, cells),
            *bounds,
        ]
    )


def _beside(row: dict[str, Any], way: str) -> tuple[float, float, float]:
    return row["transformers"], row[way], row["transformers"] / row[way]


def _bound(row: dict[str, Any]) -> str:
    pillow, ours, theirs = row["pillow"], row["one"], row["transformers"]
    return (
        f"The {row['size']} one is resized. Pillow's bicubic alone takes {pillow:.1f} ms, {pillow / ours:.0%} of ours "
        f"on one thread and {pillow / theirs:.0%} of theirs; the rest of ours takes {ours - pillow:.1f} ms, that "
        f"of theirs {theirs - pillow:.1f} ms, {(theirs - pillow) / max(ours - pillow, 1e-3):.0f} times as much. With "
        f"Pillow's values, and so its own resize, nothing on one thread can be more than **{theirs / pillow:.1f} "
        "times** faster here."
    )
