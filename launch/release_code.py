"""A release's own `joint_schema_model.py`, loaded and run: the publisher's code, to compare ours with.

Its loader calls `AutoProcessor`, which needs torchvision. So its model is put together here from its own classes,
transformers' trunk and the release's tokenizer, and images are prepared by transformers' Pillow variant of the same
image processor.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from launch.releases import RELEASES

MODULE = "joint_schema_model.py"
SHA256 = RELEASES["clef-flash"].sha256[MODULE]
"""Of the file, which is the same in both releases at their pinned revisions."""
_NAME = "publisher_joint_schema_model"
_IMAGE = "<|image_pad|>"


def load_module(path: Path) -> ModuleType:
    """Executes the file, and nothing else of its folder. Raises OSError, or what its code raises."""
    spec = importlib.util.spec_from_file_location(_NAME, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def sha256(path: Path) -> str:
    """Of a small file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Processor:
    """As much of transformers' multimodal processor as the publisher's encoder calls, without torchvision."""

    tokenizer: Any
    release: Path

    def __call__(self, text: Sequence[str], images: Sequence[Any], videos: None, return_tensors: str) -> dict[str, Any]:
        """Ids with each image's placeholder repeated as often as the image has tokens, and the images' patches."""
        import torch
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

        made = Qwen2VLImageProcessorPil.from_pretrained(self.release)
        found = made(images=list(images), return_tensors=return_tensors)
        first, *rest = text[0].split(_IMAGE)
        tokens = (found["image_grid_thw"].prod(-1) // made.merge_size**2).tolist()
        whole = first + "".join(_IMAGE * count + part for count, part in zip(tokens, rest, strict=True))
        ids = torch.tensor([self.tokenizer(whole, add_special_tokens=False).input_ids])
        kinds = (ids == self.tokenizer.convert_tokens_to_ids(_IMAGE)).long()
        return {**found, "input_ids": ids, "mm_token_type_ids": kinds}


def load_model(module: ModuleType, release: Path, device: str, dtype: str) -> tuple[Any, Processor]:
    """The publisher's model with the release's weights, and what its encoder calls. dtype: torch's name of the type,
    which the head has too, as in the publisher's loader.
    """
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, Qwen3_5ForConditionalGeneration

    kind = getattr(torch, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = AutoTokenizer.from_pretrained(release)
        trunk = Qwen3_5ForConditionalGeneration.from_pretrained(release, dtype=kind)
    head = module.JointSchemaHead(**json.loads((release / "joint_head_config.json").read_text("utf-8")))
    head.load_state_dict(load_file(release / "joint_head.safetensors"), strict=True)
    model = module.ClefModel(trunk, head.to(kind)).eval().requires_grad_(False).to(device)
    return model, Processor(tokenizer, release)
