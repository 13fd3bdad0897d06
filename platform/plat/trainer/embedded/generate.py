"""Responses of a policy: one to each of many prompts at once, drawn token by token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from plat.trainer.embedded.batch import pad_prompts
from plat.trainer.embedded.transformer.decoder import Decoder
from plat.trainer.embedded.transformer.layers import at_least_float32
from plat.trainer.embedded.transformer.model import Weights, encode
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.heartbeat import beat

# Keys and values of so many rows of a small model stay in a core's cache; those of 256 and more do not.
_ROWS_AT_ONCE = 128
_ENOUGH_LEFT = 0.8  # share of rows still speaking at which the others are dropped, which takes a copy


@torch.inference_mode()
def generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    uniforms: torch.Tensor,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One response per row to prompts[rows[b]]; `uniforms` (tokens, B) decide what is drawn, at most `tokens` each.

    Returns ids (B, R) padded, lengths (B,) including eos, log-probabilities and entropies (B, R) under
    softmax(logits / temperature); at temperature 0 the likeliest token is taken, with certainty.
    """
    at_once = _ROWS_AT_ONCE if weights.embed.device.type == "cpu" else len(rows)
    parts = []
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        used, own = np.unique(rows[part], return_inverse=True)
        own_prompts = [prompts[number] for number in used]
        parts.append(_generate(weights, tokenizer, own_prompts, own, uniforms[:, part], temperature))
    ids, lengths, log_probs, entropies = zip(*parts, strict=True)
    return _below(ids, tokenizer.pad), np.concatenate(lengths), _below(log_probs, 0), _below(entropies, 0)


def _below(arrays: Sequence[np.ndarray], padding: int) -> np.ndarray:
    """Arrays (B, R) of several parts one below the other, padded to the longest R."""
    width = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=padding) for array in arrays]
    )


def _generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    uniforms: torch.Tensor,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`generate` for all rows at once."""
    device = weights.embed.device
    ids, lengths, last = pad_prompts(prompts, tokenizer.pad, str(device))
    where = torch.from_numpy(rows).to(device)
    decoder = Decoder(weights, encode(weights, ids, lengths), where, uniforms.shape[0])
    uniforms = uniforms.to(device)
    drawn = torch.full(uniforms.shape, tokenizer.pad, device=device)
    log_probs, entropies = torch.zeros_like(uniforms), torch.zeros_like(uniforms)
    token = last[where]
    active = torch.arange(len(rows), device=device)  # rows that are still decoded
    ended = torch.zeros_like(active, dtype=torch.bool)
    chances, steps, since = uniforms, [], 0
    for at in range(len(uniforms)):
        beat()
        scores = at_least_float32(decoder.step(token))
        if temperature:
            steps.append(_draw(scores if temperature == 1 else scores / temperature, chances[at]))
        else:
            steps.append((scores.argmax(-1), scores.new_zeros(len(scores)), scores.new_zeros(len(scores))))
        token = steps[-1][0]
        ended |= token == tokenizer.eos
        left = len(active) - int(ended.sum())
        few = left <= _ENOUGH_LEFT * len(active)
        if few or at + 1 == len(uniforms):
            for array, values in zip((drawn, log_probs, entropies), zip(*steps, strict=True), strict=True):
                array[since : at + 1, active] = torch.stack(values).to(array.dtype)
            steps, since = [], at + 1
        if not left:
            break
        if few:
            keep = torch.nonzero(~ended)[:, 0]
            decoder.select(keep)
            active, token, ended, chances = active[keep], token[keep], ended[keep], chances[:, keep]
    return _responses(drawn[: at + 1].T, log_probs[: at + 1].T, entropies[: at + 1].T, tokenizer)


def _draw(scores: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens drawn from softmax(scores (B, vocabulary)) by one uniform number each, their log-probs, the entropies."""
    probs = scores.softmax(-1)
    mass = probs.cumsum(-1)
    token = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None])
    log_prob = probs.gather(-1, token).clamp_min_(torch.finfo(probs.dtype).tiny).log_()
    # H = log Z - sum p s, and log Z = s - log p of any token
    entropy = scores.gather(-1, token).sub_(log_prob)[:, 0] - torch.linalg.vecdot(probs, scores)
    return token[:, 0], log_prob[:, 0], entropy


def _responses(
    drawn: torch.Tensor, log_probs: torch.Tensor, entropies: torch.Tensor, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `generate` returns, from (B, R) arrays in which anything may follow the first eos."""
    stops = (drawn == tokenizer.eos).cumsum(1)
    alive = (stops == 0) | ((stops == 1) & (drawn == tokenizer.eos))
    outputs = torch.where(alive, drawn, tokenizer.pad), alive.sum(1), log_probs * alive, entropies * alive
    ids, lengths, masked_log_probs, masked_entropies = (output.cpu().numpy() for output in outputs)
    return ids, lengths, masked_log_probs, masked_entropies
