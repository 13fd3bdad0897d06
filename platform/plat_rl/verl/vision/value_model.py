"""A Qwen2.5-VL with a value head: transformers has no token classifier of this kind. Imports transformers."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel, Qwen2_5_VLPreTrainedModel

# Names in checkpoints -> names here. transformers has this mapping for its classes alone.
NAMES = {r"^visual\.": "model.visual.", r"^model\.(?!language_model\.|visual\.)": "model.language_model."}


class Qwen2_5_VLForTokenValues(Qwen2_5_VLPreTrainedModel):  # type: ignore[no-untyped-call]
    """One number per token."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._keys_to_ignore_on_load_unexpected = {"lm_head.weight"}
        self.model = Qwen2_5_VLModel(config)  # type: ignore[no-untyped-call]
        self.score = nn.Linear(config.get_text_config().hidden_size, 1)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(self, input_ids: Tensor, **inputs: Any) -> TokenClassifierOutput:
        """Return an output whose `logits` are (B, T, 1). `inputs` are those of Qwen2_5_VLModel."""
        return TokenClassifierOutput(logits=self.score(self.model(input_ids=input_ids, **inputs)[0]))


def load_value_model(path: str, **options: Any) -> Qwen2_5_VLForTokenValues:
    """Return the model of a Qwen2.5-VL checkpoint with a new head in the place of its language head.

    options   for `from_pretrained`

    Raises ValueError if the checkpoint lacks weights.
    """
    load: Any = Qwen2_5_VLForTokenValues.from_pretrained
    model, report = load(path, key_mapping=NAMES, output_loading_info=True, **options)
    if missing := sorted(name for name in report["missing_keys"] if not name.startswith("score.")):
        raise ValueError(f"the checkpoint at {path} lacks weights of the critic: {missing}")
    return cast(Qwen2_5_VLForTokenValues, model)
