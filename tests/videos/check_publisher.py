"""Videos against the publisher's own code with its own loader: ids, spans, pixels, logits."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.video_utils import load_video

from clef.batch import Record, split_records
from clef.media import Media, MediaTokens, pixel_values
from clef.model import ClefModel
from clef.settings import ModelSettings
from launch.release_code import load_module
from preprocess.preprocessor import Preprocessor
from preprocess.settings import Settings
from tests.golden_cases import RELEASE
from tests.preprocess.pictures import noise
from tests.videos.clips import QUESTIONS, body, clip, references, video_file

CPU = torch.device("cpu")
TOKENS, MERGE = MediaTokens(image=2005, video=2006), 2


class Shown(NamedTuple):
    """The media of a request."""

    videos: list[list[Image.Image]]
    images: list[Image.Image]


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


@pytest.fixture(scope="module")
def publisher() -> ModuleType:
    (path,) = Path(".venv").glob("lib/python*/site-packages/clef_finetune/_vendor/joint_schema_model.py")
    return load_module(path)


@pytest.fixture(scope="module")
def theirs(publisher: ModuleType) -> tuple[Any, Any]:
    """The publisher's model and processor."""
    model, processor = publisher.load_release_model(RELEASE, device="cpu", dtype=torch.float32)
    return model, processor


@pytest.fixture(scope="module")
def step() -> Preprocessor:
    return Preprocessor(Settings(release=RELEASE, videos=True))


@pytest.fixture(scope="module")
def model() -> ClefModel:
    return ClefModel.load(ModelSettings(release=RELEASE, warmup=False), "cpu")


def encoded(publisher: ModuleType, theirs: tuple[Any, Any], shown: Shown) -> Any:
    request = {"state": body()["state"], "questions": QUESTIONS, "videos": shown.videos, "images": shown.images}
    return publisher.encode_record(theirs[1].tokenizer, request, processor=theirs[1])


def records(step: Preprocessor, shown: Shown, **fields: Any) -> list[Record]:
    request = body(*shown.videos, images=references(shown.images), **fields)
    return split_records(step(json.dumps(request).encode(), None, {}))


@pytest.mark.parametrize("name", CASES)
def test_ids_and_spans(publisher: ModuleType, theirs: tuple[Any, Any], step: Preprocessor, name: str) -> None:
    wanted = encoded(publisher, theirs, CASES[name])
    (record,) = records(step, CASES[name])
    assert record.input_ids.tolist() == list(wanted.input_ids)
    assert record.question_spans.tolist() == [list(question.question_span) for question in wanted.questions]
    spans = [list(span) for question in wanted.questions for span in question.option_spans]
    assert record.option_spans.tolist() == spans


@pytest.mark.parametrize("name", CASES)
def test_pixels(publisher: ModuleType, theirs: tuple[Any, Any], step: Preprocessor, name: str) -> None:
    media = encoded(publisher, theirs, CASES[name]).media
    (record,) = records(step, CASES[name])
    made = Media.of([record], record.length, TOKENS, MERGE, CPU)
    assert made is not None
    wanted = [media[key] for key in ("pixel_values", "pixel_values_videos") if key in media]
    torch.testing.assert_close(pixel_values(made.patches, made.pairs), torch.cat(wanted), atol=1e-6, rtol=0)
    groups = [[1, *grid[1:]] for grid in media["video_grid_thw"].tolist() for _ in range(grid[0])]
    assert made.grid.tolist() == [*(media["image_grid_thw"].tolist() if CASES[name].images else ()), *groups]


@torch.inference_mode()
def test_logits_alone_and_in_company(
    publisher: ModuleType, theirs: tuple[Any, Any], step: Preprocessor, model: ClefModel
) -> None:
    every = [records(step, shown)[0] for shown in CASES.values()]
    for record in every:
        model.check(record)
    for record, in_company, shown in zip(every, model.score(every), CASES.values(), strict=True):
        batch = publisher.collate_records([encoded(publisher, theirs, shown)], 0, CPU)
        wanted = torch.cat(theirs[0](batch)[0]).numpy()
        np.testing.assert_allclose(model.score([record])[0], wanted, atol=1e-4, rtol=0)
        np.testing.assert_allclose(in_company, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("frames", "rate"), [(30, 24), (90, 30), (12, 2), (7, 1)])
def test_files(
    publisher: ModuleType,
    theirs: tuple[Any, Any],
    step: Preprocessor,
    model: ClefModel,
    frames: int,
    rate: int,
    tmp_path: Path,
) -> None:
    """The publisher's code decodes files with torchcodec; here it gets what transformers' reader makes with PyAV."""
    data = video_file(clip(frames, 128, 96), "libx264", rate=rate)
    (tmp_path / "video.mp4").write_bytes(data)
    every = lambda metadata, **_: np.arange(metadata.total_num_frames)  # noqa: E731
    video, metadata = load_video(str(tmp_path / "video.mp4"), backend="pyav", sample_indices_fn=every)
    request = {"state": body()["state"], "questions": QUESTIONS, "videos": [video]}
    told = {"video_metadata": [{"total_num_frames": frames, "fps": metadata.fps}]}
    wanted = publisher.encode_record(theirs[1].tokenizer, request | {"media_kwargs": told}, processor=theirs[1])
    (record,) = split_records(step(json.dumps(body(data)).encode(), None, {}))
    assert record.input_ids.tolist() == list(wanted.input_ids)
    made = Media.of([record], record.length, TOKENS, MERGE, CPU)
    assert made is not None
    pixels = wanted.media["pixel_values_videos"]
    torch.testing.assert_close(pixel_values(made.patches, made.pairs), pixels, atol=1e-6, rtol=0)
    with torch.inference_mode():
        logits = torch.cat(theirs[0](publisher.collate_records([wanted], 0, CPU))[0]).numpy()
    np.testing.assert_allclose(model.score([record])[0], logits, atol=1e-4, rtol=0)


def test_what_is_shown_matters(step: Preprocessor, model: ClefModel) -> None:
    frames = clip(4, 128, 128)
    (forward,), (backward,) = (model.score(records(step, Shown([video], []))) for video in (frames, frames[::-1]))
    assert np.abs(forward - backward).max() > 1e-3


def test_independent_questions_all_show_the_video(step: Preprocessor, model: ClefModel) -> None:
    apart = records(step, CASES["two videos"], x_independent=True)
    assert len(apart) == len(QUESTIONS)
    together = model.score(apart)
    for record, logits in zip(apart, together, strict=True):
        assert record.patches is apart[0].patches
        np.testing.assert_allclose(model.score([record])[0], logits, atol=1e-4, rtol=0)


def test_a_kept_state_holds_the_videos(step: Preprocessor) -> None:
    settings = ModelSettings(release=RELEASE, state_cache_min_tokens=16)
    keeping = ClefModel.load(settings, "cpu")
    keeping.warm_up()
    apart = records(step, CASES["two images, and two videos"], x_independent=True)
    prefix = keeping.prefix(apart[0])
    assert prefix is not None and prefix.length == apart[0].state_end
    other = records(step, CASES["an image, and a video"], x_independent=True)[0]
    assert keeping.prefix(other) != prefix
    whole = [keeping.score([record])[0] for record in apart]
    for _ in range(2):
        for wanted, logits in zip(whole, keeping.score(apart, prefix), strict=True):
            np.testing.assert_allclose(logits, wanted, atol=1e-4, rtol=0)
    assert keeping.holds(prefix)


def test_the_publisher_refuses_a_single_frame_too(publisher: ModuleType, theirs: tuple[Any, Any]) -> None:
    with pytest.raises(ValueError, match="must be larger"):
        encoded(publisher, theirs, Shown([clip(1, 64, 64)], []))
