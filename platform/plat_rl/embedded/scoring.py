"""Log-probabilities of the policy and values of the critic for a batch's responses, differentiable.

Results are flat (tokens,): one number for each response token, row after row of the batch.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.heartbeat import beat
from plat_rl.embedded.batch import Batch, length_groups, pad_prompts
from plat_rl.embedded.transformer import flat_pass
from plat_rl.embedded.transformer.layers import ScoreTokens, at_least_float32
from plat_rl.embedded.transformer.model import Shape, Weights, encode, extend, unpack


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
