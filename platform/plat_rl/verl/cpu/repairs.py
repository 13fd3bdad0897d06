"""Replace functions of verl that need a GPU or flash-attention, while verl is being imported.

On the CPU only:

    process group      verl asks for the backend `cpu:gloo,<device>:<backend>`, which names the CPU twice
    offload            verl keeps the reference policy in pinned memory, which needs a GPU

On every device:

    critic             verl loads it with flash_attention_2, whatever the model's config says, and none that sees
                       pictures (`plat_rl.verl.vision.value_model`)
    label log-probs    without flash-attention verl computes them token by token, some 60 us each; here in chunks.
                       With flash-attention verl does not call this function
    pictures           see `vision_repairs`

`test_compatibility` shows which repairs no longer fit a newer verl.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plat_rl.verl.cpu.vision_repairs import repair_vision
from plat_rl.verl.vision.processor import MODEL_TYPE

CHUNK = 2048  # tokens whose log-probabilities over the vocabulary are in memory at once


def repair(on_cpu: bool) -> None:
    """Apply the repairs in this process; those of the CPU only if the device is the CPU."""
    from verl.utils import model, torch_functional

    if on_cpu:
        use_gloo()
        do_not_pin()
    model.load_valuehead_model = load_critic
    torch_functional.logprobs_from_logits_v2 = label_log_probs
    repair_vision()


def use_gloo() -> None:
    """Replace `verl.utils.distributed.initialize_global_process_group_ray`: its default backend becomes gloo alone."""
    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> Any:
        return original(timeout_second=timeout_second, backend=backend or "gloo")

    distributed.initialize_global_process_group_ray = initialize


def do_not_pin() -> None:
    """Replace verl's `fsdp_utils.CPUOffloadPolicy` by a subclass that never pins memory.

    The subclass ignores `pin_memory=True`. torch's own class does not change.
    """
    import torch.distributed.fsdp as fsdp
    from verl.utils import fsdp_utils

    class UnpinnedOffloadPolicy(fsdp.CPUOffloadPolicy):
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp_utils.CPUOffloadPolicy = UnpinnedOffloadPolicy


def load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """Load a language model with a value head: one number per token, initially 0."""
    if model_config.model_type == MODEL_TYPE:
        from plat_rl.verl.vision.value_model import load_value_model

        critic = load_value_model(local_path, dtype=torch_dtype, config=model_config)
    else:
        from transformers import AutoModelForTokenClassification

        critic = AutoModelForTokenClassification.from_pretrained(
            local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
        )
    with torch.no_grad():
        for parameter in critic.score.parameters():
            parameter.zero_()
    return critic


def label_log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log softmax(logits (..., vocabulary)) at each label, in float32 or float64."""
    flat, chosen = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    parts = [
        F.log_softmax(part if part.dtype == torch.float64 else part.float(), -1).gather(-1, own[:, None])[:, 0]
        for part, own in zip(torch.split(flat, CHUNK), torch.split(chosen, CHUNK), strict=True)
    ]
    return torch.cat(parts).view(labels.shape)
