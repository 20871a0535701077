"""The configuration files of the development release: a Clef release's, with small numbers.

Followed: the layout of `Cloudflare/clef-flash`. Every fourth layer is full attention, the rest are Gated DeltaNet;
a quarter of each attention head is rotated, by three interleaved axes; images are cut by 16 and merged by 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EMBEDDING_ROWS = 2048


@dataclass(frozen=True)
class Size:
    """The numbers in which one development release differs from another; the pattern of layers is Clef's."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    linear_key_heads: int
    linear_value_heads: int
    linear_head_dim: int
    vision_hidden: int
    vision_heads: int
    vision_mlp: int
    width: int
    head_heads: int
    feedforward: int


SIZES = {
    # For correctness on any machine: under 10 MB. Hidden size and width differ, as in the real release.
    "dev": Size(
        hidden=128,
        layers=8,
        heads=4,
        kv_heads=2,
        head_dim=32,
        mlp=256,
        linear_key_heads=2,
        linear_value_heads=4,
        linear_head_dim=16,
        vision_hidden=32,
        vision_heads=2,
        vision_mlp=64,
        width=64,
        head_heads=4,
        feedforward=128,
    ),
    # For measuring: a short request costs about 50 ms on two cores, so that overheads show in proportion.
    "bench": Size(
        hidden=160,
        layers=8,
        heads=4,
        kv_heads=2,
        head_dim=40,
        mlp=480,
        linear_key_heads=2,
        linear_value_heads=4,
        linear_head_dim=32,
        vision_hidden=64,
        vision_heads=4,
        vision_mlp=128,
        width=160,
        head_heads=8,
        feedforward=640,
    ),
    # For measuring a GPU: layers and head as large as Clef-Flash's, which is what a pass reads; 15 GB.
    "flash": Size(
        hidden=4096,
        layers=32,
        heads=16,
        kv_heads=4,
        head_dim=256,
        mlp=12288,
        linear_key_heads=16,
        linear_value_heads=32,
        linear_head_dim=128,
        vision_hidden=1152,
        vision_heads=16,
        vision_mlp=4304,
        width=1024,
        head_heads=16,
        feedforward=4096,
    ),
}


def model_config(size: Size, token_ids: Mapping[str, int]) -> dict[str, Any]:
    """`config.json`."""
    rotated = size.head_dim // 8  # frequencies: half of a quarter of the head
    text = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "eos_token_id": token_ids["<|im_end|>"],
        "full_attention_interval": 4,
        "head_dim": size.head_dim,
        "hidden_act": "silu",
        "hidden_size": size.hidden,
        "initializer_range": 0.02,
        "intermediate_size": size.mlp,
        "layer_types": [
            "full_attention" if (layer + 1) % 4 == 0 else "linear_attention" for layer in range(size.layers)
        ],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": size.linear_head_dim,
        "linear_num_key_heads": size.linear_key_heads,
        "linear_num_value_heads": size.linear_value_heads,
        "linear_value_head_dim": size.linear_head_dim,
        "max_position_embeddings": 32768,
        "model_type": "qwen3_5_text",
        "num_attention_heads": size.heads,
        "num_hidden_layers": size.layers,
        "num_key_value_heads": size.kv_heads,
        "pad_token_id": token_ids["<|endoftext|>"],
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [rotated - 2 * (rotated // 4), rotated // 4, rotated // 4],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000.0,
            "rope_type": "default",
        },
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": EMBEDDING_ROWS,
    }
    vision = {
        "depth": 2,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": size.vision_hidden,
        "in_channels": 3,
        "initializer_range": 0.02,
        "intermediate_size": size.vision_mlp,
        "model_type": "qwen3_5_vision",
        "num_heads": size.vision_heads,
        "num_position_embeddings": 64,
        "out_hidden_size": size.hidden,
        "patch_size": 16,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "axial"},
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "dtype": "bfloat16",
        "image_token_id": token_ids["<|image_pad|>"],
        "model_type": "qwen3_5",
        "text_config": text,
        "tie_word_embeddings": False,
        "video_token_id": token_ids["<|video_pad|>"],
        "vision_config": vision,
        "vision_end_token_id": token_ids["<|vision_end|>"],
        "vision_start_token_id": token_ids["<|vision_start|>"],
    }


def joint_head_config(size: Size) -> dict[str, int]:
    """`joint_head_config.json`: two routing layers and four layers, as every Clef."""
    return {
        "hidden_size": size.hidden,
        "width": size.width,
        "routing_layers": 2,
        "layers": 4,
        "heads": size.head_heads,
        "feedforward": size.feedforward,
    }


def generation_config(token_ids: Mapping[str, int]) -> dict[str, Any]:
    """`generation_config.json`, which nothing here reads; a release has it."""
    return {"eos_token_id": token_ids["<|im_end|>"], "pad_token_id": token_ids["<|endoftext|>"], "use_cache": True}


CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
)

TOKENIZER_CONFIG = {
    "backend": "tokenizers",
    "eos_token": "<|im_end|>",
    "image_token": "<|image_pad|>",
    "pad_token": "<|endoftext|>",
    "processor_class": "Qwen3VLProcessor",
    "tokenizer_class": "TokenizersBackend",
    "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>",
    "vision_eos_token": "<|vision_end|>",
}

_PIXELS = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "merge_size": 2,
    "patch_size": 16,
    "resample": 3,
    "rescale_factor": 1 / 255,
    "temporal_patch_size": 2,
}

PROCESSOR_CONFIG = {
    "image_processor": {
        **_PIXELS,
        "image_processor_type": "Qwen2VLImageProcessor",
        "size": {"longest_edge": 16777216, "shortest_edge": 65536},
    },
    "processor_class": "Qwen3VLProcessor",
    "video_processor": {
        **_PIXELS,
        "do_sample_frames": True,
        "fps": 2,
        "max_frames": 768,
        "min_frames": 4,
        "size": {"longest_edge": 786432, "shortest_edge": 131072},
        "video_processor_type": "Qwen3VLVideoProcessor",
    },
}
