"""Read and write Hugging Face folders of Qwen2, and of Qwen2.5-VL without vision blocks (config, weights, processor).

The flat vector keeps rotary pairs side by side (0 h 1 h+1 ..); Hugging Face keeps the halves apart.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plat.errors import CheckpointError
from plat.plain_files import read_json_value
from plat_envs.stand_in import BOS, EOS, IDS, PAD
from plat_rl.embedded.transformer.model import Shape
from plat_rl.embedded.transformer.vision import MOST, PATCH, sections
from plat_rl.run_config import ShapeConfig

QWEN2, QWEN_VL = "qwen2", "qwen2_5_vl"


def shape_of(config: ShapeConfig, vocabulary: int, vision: int = 0) -> Shape:
    """Return the shape of a config, with this many words and features of a patch."""
    return Shape(vocabulary, **asdict(config), vision=vision)


def _reorder(name: str, tensor: Tensor, head_dim: int, to_hf: bool) -> Tensor:
    """Convert the rows of q_proj and k_proj to or from Hugging Face's order of rotary pairs."""
    if ".q_proj." not in name and ".k_proj." not in name:
        return tensor
    rest = tensor.shape[1:]
    if to_hf:
        return tensor.view(-1, head_dim // 2, 2, *rest).transpose(1, 2).reshape(tensor.shape)
    return tensor.view(-1, 2, head_dim // 2, *rest).transpose(1, 2).reshape(tensor.shape)


def to_state_dict(shape: Shape, flat: Tensor) -> dict[str, Tensor]:
    """Return the flat vector as `Qwen2ForCausalLM.state_dict()`, without `lm_head.weight` if embeddings are tied."""
    tensors, start = {}, 0
    for name, size in shape.entries():
        end = start + torch.Size(size).numel()
        tensors[name] = _reorder(name, flat[start:end].view(size), shape.head_dim, True).contiguous()
        start = end
    return tensors


def from_state_dict(shape: Shape, tensors: dict[str, Tensor]) -> Tensor:
    """Reverse `to_state_dict`; ignore other tensors. Raises CheckpointError for the first missing or misshapen one."""
    tensors = {_hub_name(name): tensor for name, tensor in tensors.items()}
    parts = []
    for name, size in shape.entries():
        if name not in tensors or tuple(tensors[name].shape) != size:
            problem = "missing" if name not in tensors else f"of shape {tuple(tensors[name].shape)}"
            raise CheckpointError(
                f"{name} is {problem}, expected {size}", fix="use a checkpoint of the Qwen2 architecture"
            )
        parts.append(_reorder(name, tensors[name].contiguous(), shape.head_dim, False).reshape(-1))
    return torch.cat(parts)


def _hub_name(name: str) -> str:
    """Return a parameter's name in the checkpoints of the hub, from that or from its name inside transformers."""
    return name.replace("model.language_model.", "model.", 1).replace("model.visual.", "visual.", 1)


def save(folder: Path, shape: Shape, flat: Tensor) -> None:
    """Write config.json and model.safetensors for `from_pretrained(folder)`; `folder` must exist.

    A shape with vision is a `Qwen2_5_VLForConditionalGeneration` and gets the config of its image processor, too. Its
    last three words announce pictures.
    """
    from safetensors.torch import save_file

    config = _config(shape)
    if shape.vision:
        config = _vision_config(config, shape)
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR, indent=2))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_file(to_state_dict(shape, flat), folder / "model.safetensors", metadata={"format": "pt"})


def _config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.ffn,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.eps,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "tie_word_embeddings": shape.tie_embeddings,
        "use_sliding_window": False,
        "torch_dtype": "float32",
    }


# No picture is made larger or smaller, and colours of 0 to 255 become -1 to 1.
PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "patch_size": PATCH,
    "merge_size": 1,
    "temporal_patch_size": 1,
    "min_pixels": PATCH**2,
    "max_pixels": (MOST * PATCH) ** 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def _vision_config(config: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Return the config of a text model as that of Qwen2.5-VL, whose vision tower has no blocks."""
    start, pad, end = range(shape.vocabulary - 3, shape.vocabulary)
    return config | {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": QWEN_VL,
        "bos_token_id": IDS[BOS],
        "eos_token_id": IDS[EOS],
        "pad_token_id": IDS[PAD],
        "rope_scaling": {"type": "mrope", "mrope_section": list(sections(shape.head_dim))},
        "vision_start_token_id": start,
        "image_token_id": pad,
        "vision_end_token_id": end,
        "video_token_id": pad,
        "vision_config": {
            "model_type": QWEN_VL,
            "depth": 0,
            "hidden_size": shape.vision,
            "out_hidden_size": shape.width,
            "intermediate_size": shape.vision,
            "num_heads": 1,
            "in_channels": 3,
            "patch_size": PATCH,
            "spatial_merge_size": 1,
            "temporal_patch_size": 1,
            "window_size": PATCH,
            "fullatt_block_indexes": [],
        },
    }


def load(folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> tuple[Shape, Tensor]:
    """Return shape and flat vector of a local Qwen2 checkpoint (one or several safetensors files).

    Raises CheckpointError if a file is missing or damaged, or the model is not what `model.py` computes.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        shape = _shape_in(read_json_value(folder / "config.json"), folder / "config.json")
        tensors: dict[str, Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            tensors.update(load_file(file))
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint cannot be read: {error}", where=str(folder), fix="copy it again, or name another one"
        ) from error
    return shape, from_state_dict(shape, tensors).to(device=device, dtype=dtype)


def _shape_in(config: Any, where: Path) -> Shape:
    """Return the shape in a config.json of transformers 4 or 5. Raises CheckpointError for unsupported models."""
    is_mapping = isinstance(config, dict)
    parts = [config.get(name) or {} for name in ("vision_config", "text_config")] if is_mapping else []
    if not is_mapping or not all(isinstance(part, dict) for part in parts):
        what = "the checkpoint cannot be read: its config.json is not that of a model"
        raise CheckpointError(what, where=str(where), fix="copy it again, or name another one")
    vision = parts[0] if config.get("model_type") == QWEN_VL else {}
    config = {**config, **config.get("text_config", {}), "model_type": config.get("model_type")} if vision else config
    rotary = config.get("rope_parameters") or config.get("rope_scaling") or {}
    required = ("vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
    missing = [key for key in required if key not in config]
    heads, width = config.get("num_attention_heads", 1), config.get("hidden_size", 1)
    for wrong, what in (
        (
            config.get("model_type") not in (QWEN2, QWEN_VL),
            f"model_type is {config.get('model_type')!r}, not '{QWEN2}' or '{QWEN_VL}'",
        ),
        (vision and not _is_plain(vision), "its vision tower has blocks, or merges patches"),
        (missing, f"config.json has no {', '.join(missing)}"),
        (
            rotary.get("rope_type", rotary.get("type", "default")) not in ("default", *(["mrope"] if vision else [])),
            "its rotary embedding is scaled",
        ),
        (config.get("use_sliding_window"), "it uses sliding-window attention"),
        (config.get("hidden_act", "silu") != "silu", f"its activation is {config.get('hidden_act')!r}, not 'silu'"),
        (config.get("head_dim") not in (None, width // heads), "its head_dim is not hidden_size / num_attention_heads"),
    ):
        if wrong:
            fix = "name a checkpoint of the Qwen2 architecture"
            if vision and not _is_plain(vision):
                fix = "trainer=verl trains it; here pictures need a stand-in, e.g. model=qwen2.5-vl-3b"
            raise CheckpointError(f"this model cannot be run here: {what}", where=str(where), fix=fix)
    return Shape(
        config["vocab_size"],
        config["num_hidden_layers"],
        config["hidden_size"],
        config["num_attention_heads"],
        config.get("num_key_value_heads", heads),
        config["intermediate_size"],
        config.get("rope_theta") or rotary.get("rope_theta", 10000.0),
        config.get("rms_norm_eps", 1e-6),
        config.get("tie_word_embeddings", False),
        vision.get("hidden_size", 0),
    )


def _is_plain(vision: dict[str, Any]) -> bool:
    """Return True for a vision tower as a stand-in has it: no blocks, and a patch of 8 x 8 pixels a token."""
    sizes = {"depth": 0, "patch_size": PATCH, "spatial_merge_size": 1, "temporal_patch_size": 1}
    return all(vision.get(name) == size for name, size in sizes.items())
