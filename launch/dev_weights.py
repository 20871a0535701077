"""Random weights for the development release: the trunk's and the joint head's, by the names of a real release.

Each tensor's values come from a generator seeded with the release's seed and the tensor's name: they depend neither
on the order of the tensors nor on what else the release holds. Scales are those of a fresh network, so that hidden
states keep their size through the layers, and the DeltaNet layers forget slowly enough that the far past counts.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

from clef.head_weights import head_shapes
from clef.release import HeadConfig

Shape = tuple[int, ...]
Weights = dict[str, torch.Tensor]

SCALARS = {"prior_logit_scale": 0.9, "joint_logit_scale": 1.3, "residual_gate": 0.7}


def trunk_weights(config: Mapping[str, Any], seed: int) -> Weights:
    """bf16 weights for every tensor of the multimodal trunk and its lm_head; `config` is a release's config.json."""
    with torch.device("meta"):
        model = Qwen3_5ForConditionalGeneration(Qwen3_5Config.from_dict(dict(config)))
    return {
        name: _trunk_tensor(name, tuple(tensor.shape), _generator(seed, name))
        for name, tensor in model.state_dict().items()
    }


def head_weights(config: Mapping[str, int], seed: int) -> Weights:
    """bf16 weights for the joint head; `config` is a release's joint_head_config.json."""
    shapes = head_shapes(HeadConfig(**config))
    return {name: _head_tensor(name, shape, _generator(seed, name)) for name, shape in shapes.items()}


def _trunk_tensor(name: str, shape: Shape, generator: np.random.Generator) -> torch.Tensor:
    if name.endswith("A_log"):
        return _bfloat16(np.log(generator.uniform(1.0, 16.0, shape)))
    if name.endswith("dt_bias"):  # the inverse of softplus at steps of 0.001 to 0.1
        return _bfloat16(np.log(np.expm1(np.exp(generator.uniform(np.log(1e-3), np.log(1e-1), shape)))))
    if name.endswith(("embed_tokens.weight", "lm_head.weight", "pos_embed.weight")):
        return _bfloat16(0.4 * generator.standard_normal(shape))
    if len(shape) > 1:
        return _bfloat16(generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))
    # Qwen3.5 adds one to the scale of every norm of the language model but the DeltaNet's own.
    adds_one = "language_model" in name and not name.endswith("linear_attn.norm.weight")
    centre = 1.0 if name.endswith("weight") and not adds_one else 0.0
    return _bfloat16(centre + 0.1 * generator.standard_normal(shape))


def _head_tensor(name: str, shape: Shape, generator: np.random.Generator) -> torch.Tensor:
    if name in SCALARS:
        return _bfloat16(SCALARS[name])
    if name == "type_embedding.weight":
        return _bfloat16(generator.standard_normal(shape))
    if len(shape) > 1:
        return _bfloat16(generator.standard_normal(shape) / np.sqrt(shape[1]))
    centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
    return _bfloat16(centre + 0.1 * generator.standard_normal(shape))


def _generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _bfloat16(values: ArrayLike) -> torch.Tensor:
    return torch.tensor(np.asarray(values), dtype=torch.float32).to(torch.bfloat16)
