"""The preprocess step: one request in, the tensors of the model step and the answer's plan out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, get_args

import numpy as np

from preprocess.encoder import MOST_TOKENS_CUT, Encoder
from preprocess.errors import ValidationFailed
from preprocess.image_references import VIDEOS, decode_reference
from preprocess.images import ImageRules, Images, Ints
from preprocess.patches import Bytes
from preprocess.plan import Plan
from preprocess.release import Release
from preprocess.release_tokens import check_tokens
from preprocess.schema import MAX_LEVELS, Request, parse_request
from preprocess.settings import ImageMode, Overflow, Semantics, Settings, SpecialTokens
from preprocess.threads import Threads
from preprocess.tokenizer import Tokenizer, Vocabulary
from preprocess.video_files import NO_DECODER, can_decode
from preprocess.video_processor import VideoProcessor
from preprocess.videos import Videos

Tensor = np.ndarray[Any, Any]


class Preprocessor:
    """Everything that is loaded once; a call is one request. Not for several threads at once.

    The constructor raises ReleaseError, TokenizerError or ProcessorError where the release cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        release = Release.read(settings.release)
        vocabulary = Vocabulary.load(settings.release)
        check_tokens(vocabulary, settings.release)
        self._encoders: dict[SpecialTokens, Encoder] = {
            mode: Encoder(Tokenizer(vocabulary, mode), settings.schema_cache_entries)
            for mode in get_args(SpecialTokens)
        }
        self._image_rules = ImageRules.load(settings.release)
        self._threads = Threads()
        # At start rather than with the first video: a server that cannot do what it was told to should say so then,
        # and nobody waits for torch.
        self._video_processor = VideoProcessor.load(settings.release) if settings.videos else None
        self._info = json.dumps(_describe(settings, release), ensure_ascii=False).encode()

    def info(self) -> bytes:
        """MODEL_INFO: JSON with name, aliases, description, release_date, revision, size_bytes, settings and limits."""
        return self._info

    def __call__(self, body: bytes, images: Sequence[bytes] | None, parameters: Mapping[str, Any]) -> dict[str, Tensor]:
        """The step's tensors by name, without the batch axis; `images` are the files of an IMAGES tensor.

        Raises a ServiceError for everything that is wrong with the request.
        """
        with ExitStack() as decoders:
            return self._tensors(body, images, parameters, decoders)

    def _tensors(
        self, body: bytes, images: Sequence[bytes] | None, parameters: Mapping[str, Any], decoders: ExitStack
    ) -> dict[str, Tensor]:
        settings = self.settings.overridden(parameters)
        request = parse_request(body, settings)
        pictures = Images(_files(request, images, settings), self._image_rules, settings)
        videos = self._videos(request, pictures, settings, decoders)
        encoded = self._encoders[settings.special_tokens].encode(
            request,
            pictures.header_grids,
            videos.clips if videos else (),
            max_length=settings.max_length,
            semantics=_semantics(request, settings),
            overflow=_overflow(request, settings),
        )
        patches, grids = _patches(pictures, videos, settings.image_mode, self._threads)
        plan = Plan(
            model=request.model,
            questions=encoded.planned,
            tokens=encoded.tokens,
            truncated=encoded.truncated,
            confidence=settings.confidence,
            digits=settings.digits,
        )
        return {
            "INPUT_IDS": encoded.input_ids,
            "RECORDS": encoded.records,
            "QUESTIONS": encoded.questions,
            "OPTION_SPANS": encoded.option_spans,
            "PATCHES": patches,
            "IMAGE_GRID": grids,
            "PLAN": np.array([plan.to_json().encode()], dtype=np.object_),
            "MODEL_INFO": np.array([self._info], dtype=np.object_),
        }

    def _videos(self, request: Request, pictures: Images, settings: Settings, decoders: ExitStack) -> Videos | None:
        if not request.videos or self._video_processor is None:
            return None
        files = [_video_files(video, index, settings) for index, video in enumerate(request.videos)]
        return Videos(files, pictures, self._video_processor, settings, decoders)


def _patches(pictures: Images, videos: Videos | None, mode: ImageMode, threads: Threads) -> tuple[Bytes, Ints]:
    """PATCHES and IMAGE_GRID: those of the images, and then those of the videos."""
    if videos is None:
        return pictures.patches(mode, threads)
    made = [pictures.patches(mode, threads), *videos.patches(mode)]
    return np.concatenate([patches for patches, _ in made]), np.concatenate([grids for _, grids in made])


def _files(request: Request, images: Sequence[bytes] | None, settings: Settings) -> list[bytes]:
    if images and request.images:
        message = "Images stand in the body and in the IMAGES input: send them in one place"
        raise ValidationFailed.at(["body", "images"], message, "images_twice")
    if images:
        return list(images)
    return [decode_reference(reference, index, settings) for index, reference in enumerate(request.images or [])]


def _video_files(video: list[str], index: int, settings: Settings) -> list[bytes] | bytes:
    if len(video) == 1:
        if not can_decode():
            raise ValidationFailed.at(["body", *VIDEOS, index], NO_DECODER, "video_decoder")
        return decode_reference(video[0], index, settings, VIDEOS)
    return [decode_reference(frame, place, settings, (*VIDEOS, index)) for place, frame in enumerate(video)]


def _semantics(request: Request, settings: Settings) -> Semantics:
    if request.x_independent is None:
        return settings.semantics
    return "independent" if request.x_independent else "joint"


def _overflow(request: Request, settings: Settings) -> Overflow:
    if request.x_truncate is None:
        return settings.overflow
    return "truncate" if request.x_truncate else "reject"


def _describe(settings: Settings, release: Release) -> dict[str, Any]:
    description = "Clef decision model: noul, choice and score questions about a state."
    if release.random_weights:
        description = f"Development release: random weights, its answers mean nothing. {description}"
    answers = ("semantics", "confidence", "overflow", "digits", "special_tokens", "image_mode", "videos")
    limits = ("max_length", "max_questions", "max_options", "max_image_bytes", "max_image_pixels", "max_images_bytes")
    more_limits = ("max_video_frames", "max_video_pixels", "max_video_cpu_s", "max_patches_bytes", "max_body_bytes")
    return {
        "name": settings.model_name,
        "aliases": list(settings.known_models[1:]),
        "description": description,
        "release_date": release.date,
        "revision": release.revision,
        "size_bytes": release.size_bytes,
        "settings": {name: getattr(settings, name) for name in (*answers, "response_cache_bytes")},
        "limits": {name: getattr(settings, name) for name in limits + more_limits}
        | {
            "max_levels": MAX_LEVELS,
            "max_tokens_cut": MOST_TOKENS_CUT,
            "max_images": settings.images_allowed,
            "max_pixels_together": settings.pixels_together,
        },
    }
