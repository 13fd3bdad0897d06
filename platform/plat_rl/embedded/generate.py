"""Generate responses of a policy to many prompts at once, token by token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.heartbeat import beat
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.transformer.layers import at_least_float32, rope, swiglu, turn_into, unit_norm
from plat_rl.embedded.transformer.model import Layer, Prefix, Weights, encode
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.trajectory_table import stacked

# Generation, one token at a time, with preallocated keys and values.
#
# The cache of a layer is one array (2, B, kv_heads, positions, head_dim), keys first, values second. While the text is
# short, attention reads masked zeros beyond it: on a CPU, very small batched products and softmaxes take slow paths.

_SMALL_PRODUCT = 400  # rows x columns x contraction below which ATen's bmm on a CPU takes its naive path
_SMALL_SOFTMAX = 16  # float32 elements of the widest vector register


class Decoder:
    """Extends B rows by one token at a time; row b continues prompt `rows[b]` of the prefix, by at most `room` tokens.

    Use under torch.inference_mode(). Computes what `extend` computes, in few operations: for a small model, starting an
    operation costs as much as its arithmetic.
    """

    def __init__(self, weights: Weights, prefix: Prefix, rows: Tensor, room: int) -> None:
        shape = weights.shape
        self.weights = weights
        self.prefix_length, self.generated = prefix.length, 0
        self.prompt_lengths = None if prefix.lengths is None else prefix.lengths[rows]
        self.first_positions = prefix.first_positions(rows)
        # Attention reads at least so many positions, to avoid the slow small products.
        queries_of_a_key = shape.heads // shape.kv_heads
        self.least = max(-(-_SMALL_PRODUCT // (queries_of_a_key * shape.head_dim)), _SMALL_SOFTMAX)
        positions = max(prefix.length + room, self.least)
        self.caches = [
            _filled_cache(keys, values, rows, positions, self.least)
            for keys, values in zip(prefix.keys, prefix.values, strict=True)
        ]
        self.rotations = rope(shape.head_dim, shape.rope_theta, positions, weights.embed)
        self.mask = _mask(prefix, self.prompt_lengths, positions)
        self.reads_ahead = prefix.length < self.least
        if not self.reads_ahead:
            self.mask[:, :, prefix.length :] = 0  # none of these is read before its token is there

    def step(self, ids: Tensor) -> Tensor:
        """Feed one token per row, ids (B,), and return the logits (B, vocabulary) of the next one."""
        weights = self.weights
        if self.first_positions is None:
            turns = self.rotations[self.prefix_length + self.generated]
        else:
            turns = self.rotations[self.first_positions + self.generated][:, None]
        if self.reads_ahead:
            self.mask[:, :, self.prefix_length + self.generated] = 0
        x = F.embedding(ids, weights.embed)
        for layer, cache in zip(weights.layers, self.caches, strict=True):
            self._add_attention(x, layer, cache, turns)
            x.addmm_(swiglu(unit_norm(x, weights.shape.eps) @ layer.gate_up.T), layer.down.T)
        self.generated += 1
        return unit_norm(x, weights.shape.eps) @ weights.head.T

    def _add_attention(self, x: Tensor, layer: Layer, cache: Tensor, turns: Tensor) -> None:
        """Add the attention block's output to x (B, width), in place; the token's keys and values enter the cache."""
        shape, rows = self.weights.shape, len(x)
        heads, kv_heads, head_dim = shape.heads, shape.kv_heads, shape.head_dim
        fused = torch.addmm(layer.qkv_bias, unit_norm(x, shape.eps), layer.qkv.T)
        fused = fused.view(rows, heads + 2 * kv_heads, head_dim)
        turned = fused[:, : heads + kv_heads]  # queries and keys
        turn_into(turned, turns, turned)
        slot = self.prefix_length + self.generated
        cache[:, :, :, slot] = fused[:, heads:].view(rows, 2, kv_heads, head_dim).transpose(0, 1)
        read = max(slot + 1, self.least)
        keys, values = cache[:, :, :, :read].flatten(1, 2)
        queries = fused[:, :heads].reshape(rows * kv_heads, heads // kv_heads, head_dim)
        scores = torch.bmm(queries, keys.transpose(1, 2))  # the scale 1 / sqrt(head_dim) is part of the queries' matrix
        if read > slot + 1 or self.prompt_lengths is not None:
            scores.view(rows, heads, read).add_(self.mask[:, :, :read])
        mixed = torch.bmm(scores.softmax(-1), values)
        x.addmm_(mixed.view(rows, heads * head_dim), layer.out.T)

    def select(self, rows: Tensor) -> None:
        """Continue with these rows only."""
        self.caches = [cache.index_select(1, rows) for cache in self.caches]
        if self.prompt_lengths is not None:
            self.prompt_lengths, self.mask = self.prompt_lengths[rows], self.mask[rows]
        if self.first_positions is not None:
            self.first_positions = self.first_positions[rows]


def _filled_cache(keys: Tensor, values: Tensor, rows: Tensor, positions: int, least: int) -> Tensor:
    """Return the cache of one layer with the keys and values (U, kv_heads, P, head_dim) of the rows' prompts.

    It holds zeros up to position `least`, where it may be read before it is written.
    """
    _, kv_heads, length, head_dim = keys.shape
    cache = keys.new_empty(2, len(rows), kv_heads, positions, head_dim)
    cache[0, :, :, :length] = keys[rows]
    cache[1, :, :, :length] = values[rows]
    cache[:, :, :, length:least] = 0
    return cache


def _mask(prefix: Prefix, prompt_lengths: Tensor | None, positions: int) -> Tensor:
    """Return a mask (B, 1, positions): 0 at the tokens of a row's prompt, -inf elsewhere.

    Its first dimension is 1 if all prompts have one length.
    """
    mask = prefix.keys[0].new_full((1 if prompt_lengths is None else len(prompt_lengths), 1, positions), float("-inf"))
    if prompt_lengths is None:
        mask[:, :, : prefix.length] = 0
    else:
        at_prompt = torch.arange(positions, device=prompt_lengths.device) < prompt_lengths[:, None]
        mask[:, 0].masked_fill_(at_prompt, 0)
    return mask


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
    """Generate one response to prompts[rows[b]] for each row b.

    Of the tokenizer only `pad`, `eos` and `undrawn` are used.

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
            steps.append(_draw(scores if temperature == 1 else scores / temperature, chances[at], tokenizer.undrawn))
        else:
            scores[:, tokenizer.undrawn] = float("-inf")
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


def _draw(
    scores: torch.Tensor, uniforms: torch.Tensor, undrawn: list[int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw a token from softmax(scores[b]) by uniforms[b], but none of `undrawn`.

    scores (B, vocabulary), uniforms (B,). Returns tokens, their log-probabilities, and entropies, (B,) each. The last
    two are those of the whole softmax, as in an update.
    """
    probs = scores.softmax(-1)
    allowed = probs.index_fill(-1, torch.tensor(undrawn, device=probs.device), 0.0) if undrawn else probs
    token = (_by_floats if probs.device.type == "cpu" else _by_whole_numbers)(allowed, uniforms)
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
