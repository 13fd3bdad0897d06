"""Cross-scoring: the log-likelihood of every sampled reasoning under every prompt, by the current policy (Table 1).

A prompt's keys and values are computed once and shared by all reasonings scored under it.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.rl.config import MIConfig
from plat.rl.mutual_information import (
    FIRST_TURN,
    TRAJECTORY,
    SigmaEMA,
    merge_prompts,
    mi_metrics,
    sample_first_turns,
    sample_turns,
)
from plat.trainer.embedded.batch import Batch, pad_prompts
from plat.trainer.embedded.model import Weights, encode, extend


@torch.inference_mode()
def log_likelihoods(
    weights: Weights,
    prompts: list[tuple[int, ...]],
    reasonings: np.ndarray,
    lengths: np.ndarray,
    pad: int,
    temperature: float = 1.0,
    chunk: int = 2048,
) -> Tensor:
    """L (N, M): summed log-likelihood of reasonings[i, :lengths[i]] (N, K) as the continuation of prompts[m] (M)."""
    device = str(weights.embed.device)
    ids, prompt_lengths, last = pad_prompts(prompts, pad, device)
    prefix = encode(weights, ids, prompt_lengths)
    count, longest = len(reasonings), int(lengths.max())
    targets = torch.from_numpy(np.ascontiguousarray(reasonings[:, :longest])).to(device)
    mask = torch.from_numpy(np.arange(longest) < lengths[:, None]).to(device)
    at_once = max(1, chunk // count)
    columns = []
    for start in range(0, len(prompts), at_once):
        here = torch.arange(start, min(start + at_once, len(prompts)), device=device)
        rows = here.repeat_interleave(count)
        wanted = targets.repeat(len(here), 1)
        hidden = extend(weights, prefix, rows, torch.cat((last[rows, None], wanted[:, :-1]), 1))
        logs = F.log_softmax(F.linear(hidden, weights.head).float() / temperature, -1)
        chosen = logs.gather(-1, wanted[..., None])[..., 0].view(len(here), count, longest)
        columns.append((chosen * mask).double().sum(-1))
    return torch.cat(columns).T


def measure(
    weights: Weights,
    batch: Batch,
    config: MIConfig,
    ema: SigmaEMA,
    pad: int,
    temperature: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Both scopes of the MI family on a batch before filtering; advances the EMA."""
    metrics: dict[str, float] = {}
    usable = batch.reasoning_length > 0
    row_of = np.full((batch.trajectories, int(batch.turn_of_row.max()) + 1), -1)
    row_of[batch.trajectory_of_row, batch.turn_of_row] = np.arange(len(usable))
    if config.first_turn:
        first = row_of[:, 0]
        rows = first[sample_first_turns(usable[first], config.samples, rng)]
        _, one_per_group = np.unique(batch.group, return_index=True)
        columns = [batch.prompts[batch.prompt_of_row[first[n]]] for n in one_per_group]
        metrics |= _score(weights, batch, rows, columns, config, FIRST_TURN, ema, pad, temperature)
    if config.trajectory:
        pairs = sample_turns((row_of >= 0) & usable[row_of], config.samples, rng)
        rows = row_of[pairs[:, 0], pairs[:, 1]]
        columns = [batch.prompts[batch.prompt_of_row[row]] for row in rows]
        metrics |= _score(weights, batch, rows, columns, config, TRAJECTORY, ema, pad, temperature)
    return metrics


def _score(
    weights: Weights,
    batch: Batch,
    rows: np.ndarray,
    columns: list[tuple[int, ...]],
    config: MIConfig,
    scope: str,
    ema: SigmaEMA,
    pad: int,
    temperature: float,
) -> dict[str, float]:
    merged = merge_prompts(columns)
    if len(rows) < 2 or len(merged.first) < 2:
        return {}
    distinct = [columns[column] for column in merged.first]
    number = {prompt: at for at, prompt in enumerate(distinct)}
    own = np.array([number[batch.prompts[batch.prompt_of_row[row]]] for row in rows])
    lengths = batch.reasoning_length[rows]
    matrix = log_likelihoods(weights, distinct, batch.responses[rows], lengths, pad, temperature)
    return mi_metrics(matrix, own, lengths, merged.weight, config=config, scope=scope, ema=ema)
