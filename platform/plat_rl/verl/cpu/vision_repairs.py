"""Replace functions of verl for models that see pictures (Qwen2.5-VL), on every device.

    processor          verl loads transformers', which needs torchvision; here `plat_rl.verl.vision.processor`
    texts alone        rows without a picture (padding, for example) still pass through the vision part, so that all
                       processes gather its weights; verl does not know what it returns in transformers 5
"""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor


def repair_vision() -> None:
    """Apply the repairs in this process."""
    from verl import utils
    from verl.models.transformers import qwen2_vl
    from verl.utils import tokenizer

    original = tokenizer.hf_processor

    def hf_processor(name_or_path: str, **options: Any) -> Any:
        from plat_rl.verl.vision.processor import load_processor

        return load_processor(name_or_path, **options) or original(name_or_path, **options)

    names = ("verl.workers.config.model", "verl.utils.tokenizer.tokenizer")  # those that have been imported already
    for module in (utils, tokenizer, *(sys.modules[name] for name in names if name in sys.modules)):
        vars(module)["hf_processor"] = hf_processor
    embeds = qwen2_vl._get_input_embeds

    def with_pictures(model: Any, input_ids: Tensor, *given: Any, **named: Any) -> Any:
        return embeds(_Unpacked(model), input_ids, *given, **named)

    qwen2_vl._get_input_embeds = with_pictures


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
        embeddings: Tensor = self._visual(pixel_values, grid_thw=grid_thw).pooler_output
        return embeddings
