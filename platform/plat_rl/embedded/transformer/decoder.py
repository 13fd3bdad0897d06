"""Generation, one token at a time, with preallocated keys and values.

The cache of a layer is one array (2, B, kv_heads, positions, head_dim), keys first, values second. While the text is
short, attention reads masked zeros beyond it: on a CPU, very small batched products and softmaxes take slow paths.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plat_rl.embedded.transformer.layers import rope, swiglu, turn_into, unit_norm
from plat_rl.embedded.transformer.model import Layer, Prefix, Weights

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
        if self.prompt_lengths is None:
            turns = self.rotations[self.prefix_length + self.generated]
        else:
            turns = self.rotations[self.prompt_lengths + self.generated][:, None]
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
