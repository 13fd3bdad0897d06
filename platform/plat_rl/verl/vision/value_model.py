"""A Qwen2.5-VL with a value head: transformers has no token classifier of this kind. Imports transformers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel, Qwen2_5_VLPreTrainedModel


class Qwen2_5_VLForTokenValues(Qwen2_5_VLPreTrainedModel):
    """One number per token. `from_pretrained` reads the checkpoint of a Qwen2.5-VL, and leaves out its language head."""

    _keys_to_ignore_on_load_unexpected = ["lm_head.weight"]

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = Qwen2_5_VLModel(config)
        self.score = nn.Linear(config.get_text_config().hidden_size, 1)
        self.post_init()

    def forward(self, input_ids: Tensor, **inputs: Any) -> TokenClassifierOutput:
        """Return an output whose `logits` are (B, T, 1). `inputs` are those of Qwen2_5_VLModel."""
        return TokenClassifierOutput(logits=self.score(self.model(input_ids=input_ids, **inputs)[0]))
