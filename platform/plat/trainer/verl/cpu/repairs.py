"""Functions of verl that need a GPU or flash-attention, replaced while verl is being imported.

    process group      verl asks for the backend `cpu:gloo,<device>:<backend>`, which names the CPU twice
    offload            the reference policy is kept in pinned memory, which needs a GPU
    critic             is loaded with flash_attention_2, whatever the model's config says
    label log-probs    without flash-attention verl computes them token by token, some 60 us each; here in chunks

Each repair is a function of its own. `test_compatibility` says which of them no longer fits a newer verl.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 2048  # tokens whose log-probabilities over the vocabulary are in memory at once


def repair() -> None:
    """Make all repairs in this process."""
    use_gloo()
    do_not_pin()
    load_critic_as_configured()
    score_labels_in_chunks()


def use_gloo() -> None:
    """Processes talk over gloo alone."""
    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> Any:
        return original(timeout_second=timeout_second, backend=backend or "gloo")

    distributed.initialize_global_process_group_ray = initialize


def do_not_pin() -> None:
    """`CPUOffloadPolicy(pin_memory=True)` keeps ordinary memory."""
    import torch.distributed.fsdp as fsdp
    from verl.utils import fsdp_utils

    class UnpinnedOffloadPolicy(fsdp.CPUOffloadPolicy):
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp_utils.CPUOffloadPolicy = UnpinnedOffloadPolicy


def load_critic_as_configured() -> None:
    """The critic's attention is the one that its config names."""
    from verl.utils import model

    model.load_valuehead_model = load_critic


def load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """A language model with a value head of one number per token, all zeros at the beginning."""
    from transformers import AutoModelForTokenClassification

    critic = AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
    )
    with torch.no_grad():
        for parameter in critic.score.parameters():
            parameter.zero_()
    return critic


def score_labels_in_chunks() -> None:
    """Replace verl's loop over tokens, which is used where flash-attention is missing."""
    from verl.utils import torch_functional

    torch_functional.logprobs_from_logits_v2 = label_log_probs


def label_log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """The log-probability of each label under softmax(logits (..., vocabulary)), in float32 at least."""
    flat, chosen = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    parts = [
        F.log_softmax(part if part.dtype == torch.float64 else part.float(), -1).gather(-1, own[:, None])[:, 0]
        for part, own in zip(torch.split(flat, CHUNK), torch.split(chosen, CHUNK), strict=True)
    ]
    return torch.cat(parts).view(labels.shape)
