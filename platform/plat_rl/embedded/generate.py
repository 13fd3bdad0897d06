"""Generate responses of a policy to many prompts at once, token by token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from plat.trainer.heartbeat import beat
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.transformer.decoder import Decoder
from plat_rl.embedded.transformer.layers import at_least_float32
from plat_rl.embedded.transformer.model import Weights, encode
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.trajectory_table import stacked

# Keys and values of so many rows of a small model stay in a core's cache; those of 256 and more do not.
_ROWS_AT_ONCE = 128
_ENOUGH_LEFT = 0.8  # share of unfinished rows at which finished ones are dropped, which takes a copy


class Responses(NamedTuple):
    """B responses of at most R tokens, by the names of `plat_rl.embedded.batch.Batch`."""

    responses: np.ndarray  # (B, R) token ids, padded
    response_length: np.ndarray  # (B,) including eos
    log_probs: np.ndarray  # (B, R) nats, under softmax(logits / temperature)
    entropies: np.ndarray  # (B, R) nats


@torch.inference_mode()
def generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    chances: np.ndarray,
    temperature: float,
) -> Responses:
    """Generate one response to prompts[rows[b]] for each row b; of the tokenizer only `pad` and `eos` are used.

    rows       (B,) indices into prompts
    chances    (B, T) float32 in [0, 1): one number decides each token; a response has at most T tokens

    Temperature 0 is greedy, with log-probabilities and entropies of 0.
    """
    at_once = _ROWS_AT_ONCE if weights.embed.device.type == "cpu" else len(rows)
    parts = []
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        used, own = np.unique(rows[part], return_inverse=True)
        uniforms = torch.from_numpy(np.ascontiguousarray(chances[part].T))
        own_prompts = [prompts[number] for number in used]
        parts.append(_generate(weights, tokenizer, own_prompts, own, uniforms, temperature))
    ids, lengths, log_probs, entropies = zip(*parts, strict=True)
    return Responses(stacked(ids, tokenizer.pad), stacked(lengths), stacked(log_probs), stacked(entropies))


def _generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    uniforms: torch.Tensor,
    temperature: float,
) -> Responses:
    """Do what `generate` does, for all rows at once; uniforms (T, B)."""
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
    drawn, log_probs, entropies = (array[: at + 1].T for array in (drawn, log_probs, entropies))
    stops = (drawn == tokenizer.eos).cumsum(1)
    alive = (stops == 0) | ((stops == 1) & (drawn == tokenizer.eos))  # values after the first eos are arbitrary
    outputs = torch.where(alive, drawn, tokenizer.pad), alive.sum(1), log_probs * alive, entropies * alive
    return Responses(*(output.cpu().numpy() for output in outputs))


def _draw(scores: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw a token from softmax(scores[b]) by uniforms[b].

    scores (B, vocabulary), uniforms (B,). Returns tokens, their log-probabilities, and entropies, (B,) each.
    """
    probs = scores.softmax(-1)
    token = (_by_floats if probs.device.type == "cpu" else _by_whole_numbers)(probs, uniforms)
    log_prob = probs.gather(-1, token).clamp_min_(torch.finfo(probs.dtype).tiny).log_()
    # H = log Z - sum p s, and log Z = s - log p of any token
    entropy = scores.gather(-1, token).sub_(log_prob)[:, 0] - torch.linalg.vecdot(probs, scores)
    return token[:, 0], log_prob[:, 0], entropy


def _by_floats(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return the tokens (B, 1) at which the cumulated probs (B, vocabulary) reach uniforms (B,)."""
    mass = probs.cumsum(-1)
    return torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None])


def _by_whole_numbers(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Return what `_by_floats` does, but for rounding, and with the same bits each time on any device.

    CUDA adds up floating-point numbers in an order that may change from run to run. Sums of whole numbers have no
    rounding: probabilities are counted in units of 2^-40, of which one is too few to be drawn in practice.
    """
    mass = (probs * 2.0**40).long().cumsum(-1)
    token = torch.searchsorted(mass, (uniforms.double() * mass[:, -1]).long()[:, None], right=True)
    # probabilities that are NaN would give a token that does not exist, and CUDA would end the process there; so they
    # give a loss that is NaN, which ends the run with that reason
    return token.clamp_(max=probs.shape[-1] - 1)
