"""Random weights for the development release: the trunk's and the joint head's, by the names of a real release.

Each tensor's values come from a generator seeded with the release's seed and the tensor's name: they depend neither
on the order of the tensors nor on what else the release holds. Scales are those of a fresh network, so that hidden
states keep their size through the layers, and the DeltaNet layers forget slowly enough that the far past counts.

Axis letters: H hidden size of the trunk, W width of the head, F its feed-forward size.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

Shape = tuple[int, ...]
Weights = dict[str, torch.Tensor]

PROJECTIONS = (
    "memory_projection",
    "question_projection",
    "option_question_projection",
    "global_projection",
    "option_context_projection",
    "option_lexical_projection",
)
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
    return {name: _head_tensor(name, shape, _generator(seed, name)) for name, shape in head_shapes(config).items()}


def head_shapes(config: Mapping[str, int]) -> dict[str, Shape]:
    """The tensors of `joint_head.safetensors` for these sizes."""
    hidden, width, feedforward = config["hidden_size"], config["width"], config["feedforward"]
    shapes: dict[str, Shape] = {name: () for name in SCALARS}
    shapes |= _norm("hidden_norm", hidden)
    for name in ("field_norm", "option_norm", "option_summary_norm"):
        shapes |= _norm(name, width)
    for name in PROJECTIONS:
        shapes[f"{name}.weight"] = (width, hidden)
    shapes["type_embedding.weight"] = (3, width)
    for layer in range(config["routing_layers"]):
        prefix = f"evidence_layers.{layer}"
        shapes |= _attention(f"{prefix}.attention", width)
        shapes |= _linear(f"{prefix}.feedforward.0", width, feedforward)
        shapes |= _linear(f"{prefix}.feedforward.3", feedforward, width)
        for name in ("query_norm", "memory_norm", "feedforward_norm"):
            shapes |= _norm(f"{prefix}.{name}", width)
    for layer in range(config["layers"]):
        prefix = f"layers.{layer}"
        shapes |= _attention(f"{prefix}.self_attn", width)
        shapes |= _attention(f"{prefix}.multihead_attn", width)
        shapes |= _linear(f"{prefix}.linear1", width, feedforward)
        shapes |= _linear(f"{prefix}.linear2", feedforward, width)
        for name in ("norm1", "norm2", "norm3"):
            shapes |= _norm(f"{prefix}.{name}", width)
    shapes |= _linear("residual_scorer.0", 4 * width, width)
    shapes |= _linear("residual_scorer.3", width, 1)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> dict[str, Shape]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, size: int) -> dict[str, Shape]:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def _attention(name: str, width: int) -> dict[str, Shape]:
    projections = {f"{name}.in_proj_weight": (3 * width, width), f"{name}.in_proj_bias": (3 * width,)}
    return projections | _linear(f"{name}.out_proj", width, width)


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
