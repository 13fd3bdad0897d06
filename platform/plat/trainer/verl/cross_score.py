"""Log-likelihoods of reasonings under prompts (Table 1), by the actor's own workers: short rows of verl's RPC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plat.rl.config import MIConfig
from plat.rl.mutual_information import SigmaEMA
from plat.trainer.loop.scoring import mutual_information
from plat.trainer.verl.play import Played, Tokens

Pairs = Sequence[tuple[Tokens, Tokens]]  # prompts, and reasonings as their continuations
ROWS = 4096  # pairs of a reasoning and a prompt in one request to the workers


def measure(
    batch: Played,
    config: MIConfig,
    ema: SigmaEMA,
    rng: np.random.Generator,
    score_pairs: Callable[[Pairs], NDArray[np.float64]],
) -> dict[str, float]:
    """The `mi/` metrics of a batch before refills and filter (`plat.trainer.loop.scoring`), and `mi/score_gap`.

    Advances the EMA.

    score_pairs   the log-likelihood of each (prompt, reasoning), in nats
    """
    gaps = []

    def score(rows: NDArray[np.int64], prompts: list[Tokens]) -> torch.Tensor:
        pairs = [(prompt, batch.reasonings[row]) for row in rows for prompt in prompts]
        matrix = score_pairs(pairs).reshape(len(rows), len(prompts))
        own = [prompts.index(batch.prompts[row]) for row in rows]
        matched = matrix[np.arange(len(rows)), own]
        gaps.append(float(np.max(np.abs(matched - batch.log_probs[rows]) / batch.reasoning_length[rows])))
        return torch.from_numpy(matrix)

    metrics = mutual_information(batch, batch.prompts, config, ema, rng, score)
    return metrics | ({"mi/score_gap": max(gaps)} if metrics else {})


def log_likelihoods(
    workers: Any,
    pairs: Pairs,
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


def _rows(pairs: Pairs, temperature: float) -> Any:
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
