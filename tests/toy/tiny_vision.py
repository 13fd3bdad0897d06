"""A random Qwen2.5-VL with words as tokens, so small that it trains on a CPU core, and pictures for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat_envs.stand_in import IDS, WORDS
from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer

START, PAD, END = range(len(WORDS), len(WORDS) + 3)


def make_checkpoint(folder: Path, merge: int = 1, temporal: int = 1, depth: int = 0, tie: bool = True) -> Path:
    """Write config, weights, tokenizer and image processor of a checkpoint; patches of 8 pixels."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    vision = {
        "depth": depth, "hidden_size": 32, "num_heads": 2, "intermediate_size": 32, "out_hidden_size": 64,
        "patch_size": 8, "spatial_merge_size": merge, "temporal_patch_size": temporal, "window_size": 32,
        "fullatt_block_indexes": [0], "in_channels": 3,
    }  # fmt: skip
    text = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "intermediate_size": 128, "vocab_size": len(WORDS) + 3, "max_position_embeddings": 4096,
        "tie_word_embeddings": tie,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        "pad_token_id": IDS["<pad>"], "eos_token_id": IDS["<eos>"], "bos_token_id": None,
    }  # fmt: skip
    config = Qwen2_5_VLConfig(
        vision_config=vision, text_config=text, image_token_id=PAD, vision_start_token_id=START,
        vision_end_token_id=END, video_token_id=len(WORDS) + 99, tie_word_embeddings=tie,
        pad_token_id=IDS["<pad>"], eos_token_id=IDS["<eos>"],
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than transformers makes them: pictures and positions must show
            if parameter.dim() > 1:
                parameter.normal_(std=0.2)
    model.generation_config.eos_token_id = IDS["<eos>"]
    model.save_pretrained(folder)
    save_word_tokenizer(folder, WordTokenizer(vision=True))
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 8, "merge_size": merge,
        "temporal_patch_size": temporal, "min_pixels": 64, "max_pixels": 1_000_000,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    }  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def picture(seed: int, height: int = 16, width: int = 24) -> NDArray[np.uint8]:
    """A picture of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def load_model(folder: Path) -> Any:
    from transformers import Qwen2_5_VLForConditionalGeneration

    return Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, attn_implementation="sdpa").eval()
