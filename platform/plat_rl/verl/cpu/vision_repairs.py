"""Replace functions of verl for models that see pictures (Qwen2.5-VL), on every device.

processor          verl loads transformers', which needs torchvision; here `plat_rl.verl.vision.processor`
texts alone        rows without a picture (padding, for example) still pass through the vision part, so that all
                   processes gather its weights; verl does not know what it returns in transformers 5
positions          rows of equal length come from TransferQueue with four positions as their varying length; verl
                   takes this for the usual layout
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor


def repair_vision() -> None:
    """Apply the repairs in this process."""
    from verl.models.transformers import qwen2_vl
    from verl.utils import tensordict_utils, tokenizer  # noqa: F401  # where the names below are taken from

    original = tokenizer.hf_processor

    def hf_processor(name_or_path: str, **options: Any) -> Any:
        from plat_rl.verl.vision.processor import load_processor

        return load_processor(name_or_path, **options) or original(name_or_path, **options)

    _replace("hf_processor", hf_processor)
    _replace("maybe_fix_3d_position_ids", right_positions)
    embeds = qwen2_vl._get_input_embeds

    def with_pictures(model: Any, input_ids: Tensor, *given: Any, **named: Any) -> Any:
        return embeds(_Unpacked(model), input_ids, *given, **named)

    qwen2_vl._get_input_embeds = with_pictures


def _replace(name: str, replacement: Any) -> None:
    """Set a function in all modules of verl that have been imported and know it by this name."""
    for module in [module for place, module in sys.modules.items() if place.startswith("verl.")]:
        if callable(vars(module).get(name)):
            vars(module)[name] = replacement


def right_positions(data: Any) -> None:
    """Make position ids (B, 4, varying) of `data` vary along the tokens, as its `input_ids` do.

    It takes the place of verl's `maybe_fix_3d_position_ids`, which only says that they do.
    """
    positions = data["position_ids"] if "position_ids" in data.keys() else None
    if positions is None or positions.dim() != 3 or not positions.is_nested:
        return
    values, offsets = positions._values, data["input_ids"].offsets()
    if not torch.equal(positions._offsets, offsets):  # (B x 4, length): all rows are equally long
        rows, length = len(offsets) - 1, values.shape[-1]
        values = values.view(rows, -1, length).transpose(0, 1).reshape(-1, rows * length)
        data["position_ids"] = torch.nested.nested_tensor_from_jagged(values, offsets, jagged_dim=2)
    data["position_ids"]._ragged_idx = 2


class _Unpacked:
    """A model whose vision part returns the pictures' embeddings alone, as in transformers 4."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def visual(self) -> Any:
        return _Visual(self._model.visual)


class _Visual:
    def __init__(self, visual: Any) -> None:
        self.dtype, self._visual = visual.dtype, visual

    def __call__(self, pixel_values: Tensor, grid_thw: Tensor) -> Tensor:
        output = self._visual(pixel_values, grid_thw=grid_thw)
        embeddings: Tensor = getattr(output, "pooler_output", output)
        return embeddings
