"""The publisher's own code with its own loader, asked about what a request shows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import torch
from PIL import Image
from transformers.video_utils import load_video

from tests.golden_cases import RELEASE
from tests.preprocess.pictures import noise
from tests.videos.clips import QUESTIONS, body, clip, references

CPU = torch.device("cpu")


class Shown(NamedTuple):
    """The media of a request."""

    videos: list[list[Image.Image]]
    images: list[Image.Image]

    def body(self, **fields: Any) -> dict[str, Any]:
        return body(*self.videos, images=references(self.images), **fields)


CASES = {
    "two frames": Shown([clip(2, 64, 64)], []),
    "three frames: a group of one": Shown([clip(3, 100, 70)], []),
    "four of five": Shown([clip(5, 320, 240)], []),
    "five of sixty": Shown([clip(60, 96, 64)], []),
    "eight of a hundred, upright": Shown([clip(100, 20, 90)], []),
    "as large as it may be": Shown([clip(2, 1_024, 800)], []),
    "long and flat": Shown([clip(4, 700, 5)], []),
    "two videos": Shown([clip(4, 64, 48), clip(26, 200, 120, seed=1)], []),
    "an image, and a video": Shown([clip(6, 128, 128)], [noise(256, 256)]),
    "two images, and two videos": Shown([clip(4, 64, 64), clip(2, 64, 64)], [noise(320, 256), noise(256, 288)]),
}


class Publisher:
    """Its model and its processor, of the golden release."""

    def __init__(self) -> None:
        # The package's metadata asks for other versions of what the code runs with: it is read where it lies.
        (path,) = Path(".venv").glob("lib/python*/site-packages/clef_finetune/_vendor/joint_schema_model.py")
        spec = importlib.util.spec_from_file_location("publisher_joint_schema_model", path)
        assert spec is not None and spec.loader is not None
        self._code = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = self._code
        spec.loader.exec_module(self._code)
        self._model, self._processor = self._code.load_release_model(RELEASE, device="cpu", dtype=torch.float32)

    def encoded(self, shown: Shown) -> Any:
        """Its record of a request with these media."""
        return self._record({"videos": shown.videos, "images": shown.images})

    def encoded_file(self, file: Path) -> Any:
        """Its record of a request with this video. Its code decodes files with torchcodec; here it gets what
        transformers' reader makes with PyAV.
        """
        with av.open(str(file)) as container:
            frames = sum(1 for _ in container.decode(video=0))  # a WebM's header has no count
        video, metadata = load_video(str(file), backend="pyav", sample_indices_fn=lambda *_, **__: np.arange(frames))
        told = {"video_metadata": [{"total_num_frames": len(video), "fps": metadata.fps}]}
        return self._record({"videos": [video], "media_kwargs": told})

    def logits(self, record: Any) -> np.ndarray:
        """Of all questions' options, one after another."""
        with torch.inference_mode():
            (questions,) = self._model(self._code.collate_records([record], 0, CPU))
            return torch.cat(questions).numpy()

    def _record(self, media: dict[str, Any]) -> Any:
        request = {"state": body()["state"], "questions": QUESTIONS, **media}
        return self._code.encode_record(self._processor.tokenizer, request, processor=self._processor)


def assert_logits(made: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(made, wanted, atol=1e-4, rtol=0)
