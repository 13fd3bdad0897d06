"""Log-probabilities of the policy and values of the critic for a batch's responses, differentiable.

Results are flat (tokens,): one number for each response token, row after row of the batch.
"""

from __future__ import annotations

import math
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.heartbeat import beat
from plat_rl.embedded.batch import Batch, length_groups, pad_prompts
from plat_rl.embedded.transformer import flat_pass
from plat_rl.embedded.transformer.layers import ScoreTokens, at_least_float32
from plat_rl.embedded.transformer.model import Shape, Weights, encode, extend, unpack
from plat_rl.embedded.transformer.vision import VISUAL, blanked
from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import MIConfig
from plat_rl.run_config import RunConfig


def token_log_probs(weights: Weights, batch: Batch, pad: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies (tokens,) in nats under softmax(logits / temperature)."""
    logits = at_least_float32(F.linear(hidden_states(weights, batch, pad), weights.head))
    if temperature != 1:
        logits = logits / temperature
    chosen = torch.from_numpy(batch.responses[batch.token_mask]).to(logits.device)
    return ScoreTokens.apply(logits, chosen)  # type: ignore[no-any-return, no-untyped-call]


def token_values(shape: Shape, critic: Tensor, batch: Batch, pad: int) -> Tensor:
    """Return the critic's value (tokens,) of the state before each response token.

    critic: the flat parameters of a transformer of this shape, then the value head: width weights and a bias. The head
    reads the RMS-normalised hidden state, without the final norm's learned weight.
    """
    transformer, head = critic[: -(shape.width + 1)], critic[-(shape.width + 1) :]
    hidden = hidden_states(unpack(shape, transformer), batch, pad)
    return hidden @ (head[:-1] * math.sqrt(shape.width)) + head[-1]


def hidden_states(weights: Weights, batch: Batch, pad: int) -> Tensor:
    """Return the final hidden states (tokens, width), after `unit_norm`, that predict each response token."""
    if flat_pass.fits(weights, batch):
        return flat_pass.hidden_states(weights, batch, pad)
    return _by_length(weights, batch, pad)


def _by_length(weights: Weights, batch: Batch, pad: int) -> Tensor:
    """Compute `hidden_states` for any device, dtype and length, in padded groups of responses of similar length."""
    device = str(weights.embed.device)
    ids, lengths, last = pad_prompts(batch.prompts, pad, device)
    prefix = encode(weights, ids, lengths)
    starts = np.cumsum(batch.response_length) - batch.response_length  # where each row begins in the result
    positions, outputs = [], []
    for group in length_groups(batch.response_length):
        beat()
        longest = int(batch.response_length[group].max())
        prompts = torch.from_numpy(batch.prompt_of_row[group]).to(device)
        inputs = torch.from_numpy(batch.responses[group, : longest - 1]).to(device)
        row, column = np.nonzero(batch.token_mask[group, :longest])
        positions.append(starts[group][row] + column)
        token_index = torch.from_numpy(row * longest + column).to(device)
        outputs.append(
            extend(weights, prefix, prompts, torch.cat((last[prompts, None], inputs), 1)).flatten(0, 1)[token_index]
        )
    return torch.cat(outputs)[torch.from_numpy(np.argsort(np.concatenate(positions))).to(device)]


# How a run computes on its device: with which threads and, on a GPU, with the same bits each time.


def set_up(config: RunConfig) -> None:
    """Prepare this process to compute a run of this config. Call it before the first tensor is made on the device.

    On a GPU, operations take deterministic forms, so that a resumed run has the bits of an uninterrupted one; one that
    has none prints a warning. Products of float32 have its full precision, also where TORCH_ALLOW_TF32_CUBLAS_OVERRIDE
    asks for less. (NVIDIA_TF32_OVERRIDE reaches cuBLAS itself; a run records both.)
    """
    torch.set_num_threads(config.threads)
    if config.device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_float32_matmul_precision("highest")


# Cross-scoring: the log-likelihood of sampled reasonings under prompts, by the current policy (Table 1).

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
    has_pictures = any(token >= VISUAL for prompt in batch.prompts for token in prompt)
    return mutual_information(batch, prompts, config, sigmas, rng, score, blanked if has_pictures else None)
