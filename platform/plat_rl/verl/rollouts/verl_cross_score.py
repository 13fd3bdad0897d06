"""Log-likelihoods of reasonings under prompts (Table 1, and the probe), computed by verl's actor workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from plat_rl.embedded.probe import ProbeResult, probe_result
from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import PROBE_BLOCK, MIConfig
from plat_rl.verl.rollouts.play import Played, Tokens

Pairs = Sequence[tuple[Tokens, Tokens]]  # prompts, and reasonings as their continuations
ROWS = 4096  # most pairs in one request to the workers


def measure(
    batch: Played,
    config: MIConfig,
    sigmas: dict[str, float],
    rng: np.random.Generator,
    score_pairs: Callable[[Pairs], NDArray[np.float64]],
) -> dict[str, float]:
    """Return the `mi/` metrics (`plat_rl.loop.proxy_scoring`) of a batch before refills and filter.

    `score_pairs` returns log-likelihoods in nats; `mi/score_gap` is their largest difference per token from the
    rollout's. Updates `sigmas`. Returns {} if no scope can be measured.
    """
    gaps = []

    def score(rows: NDArray[np.int64], prompts: list[Tokens]) -> torch.Tensor:
        pairs = [(prompt, batch.reasonings[row]) for row in rows for prompt in prompts]
        matrix = score_pairs(pairs).reshape(len(rows), len(prompts))
        own = [prompts.index(batch.prompts[row]) for row in rows]
        matched = matrix[np.arange(len(rows)), own]
        gaps.append(float(np.max(np.abs(matched - batch.log_probs[rows]) / batch.reasoning_length[rows])))
        return torch.from_numpy(matrix)

    metrics = mutual_information(batch, batch.prompts, config, sigmas, rng, score)
    return metrics | ({"mi/score_gap": max(gaps)} if metrics else {})


def block_pairs(played: Played) -> list[tuple[Tokens, Tokens]]:
    """Return each reasoning of a probe with the PROBE_BLOCK prompts of its block, in order of the rows."""
    return [
        (played.prompts[row - row % PROBE_BLOCK + other], played.reasonings[row])
        for row in range(len(played.prompts))
        for other in range(PROBE_BLOCK)
    ]


def block_result(played: Played, scores: NDArray[np.float64]) -> ProbeResult:
    """Return the probe's result from the log-likelihoods of `block_pairs`.

    The null, an untrained model, is not measured: it would need a second model of the same size.
    """
    matrix = torch.from_numpy(scores.reshape(-1, PROBE_BLOCK))
    return probe_result(matrix, played.reasoning_length, played.reasoning_level)


def log_likelihoods(workers: Any, pairs: Pairs, temperature: float, processes: int) -> NDArray[np.float64]:
    """Return the summed log-likelihood, in nats, of the reasoning's tokens after the prompt, for each pair.

    workers    verl's worker group of the actor
    pairs      (prompt, reasoning)
    processes  number of data-parallel processes; requests are padded to a multiple of it

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
            # verl's log-prob at position t belongs to token t + 1.
            scored[pair] = float(logs[-length - 1 : -1].double().sum())
    return np.array([scored.get(pair, 0.0) for pair in pairs])


def _rows(pairs: Pairs, temperature: float) -> Any:
    """Return the pairs as a batch without padding, in the format of verl's workers."""
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
