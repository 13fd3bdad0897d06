"""Log-likelihoods of reasonings under prompts (Table 1), by the actor's own workers: short rows of verl's RPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plat.trainer.verl.play import Tokens

ROWS = 4096  # pairs of a reasoning and a prompt in one request to the workers


def log_likelihoods(
    workers: Any,
    pairs: Sequence[tuple[Tokens, Tokens]],
    temperature: float,
    processes: int,
) -> NDArray[np.float64]:
    """Of each (prompt, reasoning): the summed log-likelihood of the reasoning's tokens as the prompt's continuation.

    workers    verl's worker group of the actor
    processes  of data parallelism; requests are filled up to a multiple of it
    An empty reasoning has log-likelihood 0. Equal pairs are scored once.
    """
    distinct = [pair for pair in dict.fromkeys(pairs) if pair[1]]
    scored: dict[tuple[Tokens, Tokens], float] = {}
    for start in range(0, len(distinct), ROWS):
        part = distinct[start : start + ROWS]
        filled = part + part[:1] * (-len(part) % processes)
        output = workers.compute_log_prob(_rows(filled, temperature))
        for pair, logs in zip(part, output["log_probs"].unbind(), strict=False):
            length = len(pair[1])
            # Position t of verl's log-probs is that of token t + 1.
            scored[pair] = float(logs[-length - 1 : -1].double().sum())
    return np.array([scored.get(pair, 0.0) for pair in pairs])


def _rows(pairs: Sequence[tuple[Tokens, Tokens]], temperature: float) -> Any:
    """The pairs as verl's workers take a batch without padding."""
    from verl.utils import tensordict_utils as tu

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    prompts = [torch.tensor(prompt) for prompt, _ in pairs]
    responses = [torch.tensor(reasoning) for _, reasoning in pairs]
    whole = [torch.cat(parts) for parts in zip(prompts, responses, strict=True)]
    mask = nested([torch.ones_like(response) for response in responses])
    return tu.get_tensordict(
        {
            "input_ids": nested(whole),
            "position_ids": nested([torch.arange(len(ids)) for ids in whole]),
            "prompts": nested(prompts),
            "responses": nested(responses),
            "response_mask": mask,
            "loss_mask": mask,
        },
        {"calculate_entropy": False, "compute_loss": False, "temperature": temperature},
    )
