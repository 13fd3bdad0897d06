"""Cross-scoring: the log-likelihood of sampled reasonings under prompts, by the current policy (Table 1)."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.heartbeat import beat
from plat_rl.embedded.batch import Batch, length_groups, pad_prompts
from plat_rl.embedded.transformer.layers import at_least_float32
from plat_rl.embedded.transformer.model import Weights, encode, extend
from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import MIConfig

CHUNK = 256  # pairs of a reasoning and a prompt that are scored at a time


@torch.inference_mode()
def log_likelihoods(
    weights: Weights,
    prompts: list[tuple[int, ...]],
    reasonings: np.ndarray,
    lengths: np.ndarray,
    pad: int,
    temperature: float = 1.0,
    candidates: np.ndarray | None = None,
) -> Tensor:
    """Return L (N, C), float64 on the CPU: summed log-likelihoods (nats) of reasonings[i, :lengths[i]] after prompts.

    reasonings  (N, K) token ids, padded
    lengths     (N,) tokens of each reasoning; an empty one has log-likelihood 0
    candidates  (N, C) indices into prompts; None: every prompt, in order

    Equal reasonings with equal candidates are scored once. A prompt's keys and values are computed once.
    """
    device = str(weights.embed.device)
    if candidates is None:
        candidates = np.broadcast_to(np.arange(len(prompts)), (len(lengths), len(prompts)))
    inside = np.arange(reasonings.shape[1]) < lengths[:, None]
    pairs = np.concatenate((np.where(inside, reasonings, -1), candidates), 1)
    _, first, number = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    ids, prompt_lengths, last = pad_prompts(prompts, pad, device)
    prefix = encode(weights, ids, prompt_lengths)
    count = candidates.shape[1]
    scored = np.empty((len(first), count))
    for group in length_groups(lengths[first], worth=max(1, 512 // count)):
        for part in np.array_split(group, -(-len(group) * count // CHUNK)):
            if not len(part):
                continue
            beat()
            own = lengths[first[part]]
            targets = np.repeat(reasonings[first[part], : max(1, own.max())], count, axis=0)
            rows = torch.from_numpy(candidates[first[part]].reshape(-1)).to(device)
            tokens = torch.from_numpy(targets).to(device)
            hidden = extend(weights, prefix, rows, torch.cat((last[rows, None], tokens[:, :-1]), 1))
            scores = at_least_float32(F.linear(hidden, weights.head))
            logs = F.log_softmax(scores if temperature == 1 else scores / temperature, -1)
            chosen = logs.gather(-1, tokens[..., None])[..., 0]
            mask = np.arange(targets.shape[1]) < np.repeat(own, count)[:, None]
            summed = (chosen * torch.from_numpy(mask).to(device)).double().sum(-1)
            scored[part] = summed.view(len(part), count).cpu().numpy()
    return torch.from_numpy(scored[number.reshape(-1)])


def measure(
    weights: Weights,
    batch: Batch,
    config: MIConfig,
    sigmas: dict[str, float],
    pad: int,
    temperature: float,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return the `mi/` metrics of a batch before filtering (`proxy_scoring.mutual_information`); updates `sigmas`."""

    def score(rows: np.ndarray, prompts: list[tuple[int, ...]]) -> Tensor:
        lengths = batch.reasoning_length[rows]
        return log_likelihoods(weights, prompts, batch.responses[rows], lengths, pad, temperature)

    prompts = [batch.prompts[number] for number in batch.prompt_of_row]
    return mutual_information(batch, prompts, config, sigmas, rng, score)
