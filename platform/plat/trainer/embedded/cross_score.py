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
from plat.trainer.embedded.batch import Batch, length_groups, pad_prompts
from plat.trainer.embedded.layers import at_least_float32
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
    """L (N, M): summed log-likelihood of reasonings[i, :lengths[i]] (N, K) as the continuation of prompts[m] (M).

    Equal reasonings are scored once, those of similar length together, `chunk` pairs at a time.
    """
    device = str(weights.embed.device)
    inside = np.arange(reasonings.shape[1]) < lengths[:, None]
    distinct, first, number = np.unique(
        np.where(inside, reasonings, -1), axis=0, return_index=True, return_inverse=True
    )
    ids, prompt_lengths, last = pad_prompts(prompts, pad, device)
    prefix = encode(weights, ids, prompt_lengths)
    found = torch.empty(len(distinct), len(prompts), dtype=torch.float64, device=device)
    for group in length_groups(lengths[first], worth=512 // len(prompts)):
        own = lengths[first[group]]
        longest = int(own.max())
        targets = torch.from_numpy(reasonings[first[group], :longest]).to(device)
        mask = torch.from_numpy(np.arange(longest) < own[:, None]).to(device)
        at_once = max(1, chunk // len(group))
        for start in range(0, len(prompts), at_once):
            here = torch.arange(start, min(start + at_once, len(prompts)), device=device)
            rows = here.repeat_interleave(len(group))
            wanted = targets.repeat(len(here), 1)
            hidden = extend(weights, prefix, rows, torch.cat((last[rows, None], wanted[:, :-1]), 1))
            scores = at_least_float32(F.linear(hidden, weights.head))
            logs = F.log_softmax(scores if temperature == 1 else scores / temperature, -1)
            chosen = logs.gather(-1, wanted[..., None])[..., 0].view(len(here), len(group), longest)
            found[torch.from_numpy(group).to(device), start : start + len(here)] = (chosen * mask).double().sum(-1).T
    return found[torch.from_numpy(number.reshape(-1)).to(device)]


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
