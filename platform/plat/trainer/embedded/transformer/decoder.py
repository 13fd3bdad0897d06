"""Generation, one token at a time, with preallocated keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.embedded.transformer.layers import rope, rotate, swiglu, unit_norm
from plat.trainer.embedded.transformer.model import Layer, Prefix, Weights


@dataclass
class _LayerCache:
    """Keys and values of one layer. Keys are kept transposed: a query then meets them in the order of memory."""

    keys: Tensor  # (B, kv_heads, head_dim, positions)
    values: Tensor  # (B, kv_heads, positions, head_dim)

    def write(self, position: int, keys: Tensor, values: Tensor) -> None:
        """Store the keys and values (B, kv_heads, head_dim) of one token per row."""
        self.keys[:, :, :, position] = keys
        self.values[:, :, position] = values

    def select(self, rows: Tensor, used: int) -> _LayerCache:
        """The cache of these rows only; what lies behind the first `used` positions is not copied."""
        keys = self.keys.new_empty(len(rows), *self.keys.shape[1:])
        values = self.values.new_empty(len(rows), *self.values.shape[1:])
        keys[:, :, :, :used] = self.keys[rows, :, :, :used]
        values[:, :, :used] = self.values[rows, :, :used]
        return _LayerCache(keys, values)


class Decoder:
    """Extends B rows by one token at a time; row b continues prompt `rows[b]` of the prefix, by at most `room` tokens.

    Use under torch.inference_mode(). It computes what `extend` computes, token by token. A step of a small model costs
    as much for each operation it starts as for the arithmetic, so the operations are few: the residual additions, for
    one, are part of the matrix products.
    """

    def __init__(self, weights: Weights, prefix: Prefix, rows: Tensor, room: int) -> None:
        shape = weights.shape
        self.weights = weights
        self.prefix_length, self.generated = prefix.length, 0
        self.prompt_lengths = None if prefix.lengths is None else prefix.lengths[rows]
        positions = prefix.length + room
        self.caches = [
            _filled_cache(keys, values, rows, positions)
            for keys, values in zip(prefix.keys, prefix.values, strict=True)
        ]
        self.rotations = rope(shape.head_dim, shape.rope_theta, positions, weights.embed)
        self.mask = None if self.prompt_lengths is None else _padding_mask(prefix, self.prompt_lengths, positions)

    def step(self, ids: Tensor) -> Tensor:
        """Feed one token per row, ids (B,); returns the logits (B, vocabulary) of the next one."""
        weights = self.weights
        if self.prompt_lengths is None:
            turns = self.rotations[self.prefix_length + self.generated]
        else:
            turns = self.rotations[self.prompt_lengths + self.generated][:, None]
        x = F.embedding(ids, weights.embed)
        for layer, cache in zip(weights.layers, self.caches, strict=True):
            self._add_attention(x, layer, cache, turns)
            self._add_feed_forward(x, layer)
        self.generated += 1
        return unit_norm(x, weights.shape.eps) @ weights.head.T

    def _add_attention(self, x: Tensor, layer: Layer, cache: _LayerCache, turns: Tensor) -> None:
        """Add the attention block's output to x (B, width), in place; the token's keys and values enter the cache."""
        shape, rows = self.weights.shape, len(x)
        heads, kv_heads, head_dim = shape.heads, shape.kv_heads, shape.head_dim
        fused = torch.addmm(layer.qkv_bias, unit_norm(x, shape.eps), layer.qkv.T)
        fused = fused.view(rows, heads + 2 * kv_heads, head_dim)
        turned = rotate(fused[:, : heads + kv_heads], turns)
        slot = self.prefix_length + self.generated
        cache.write(slot, turned[:, heads:], fused[:, heads + kv_heads :])
        keys, values = cache.keys[:, :, :, : slot + 1].flatten(0, 1), cache.values[:, :, : slot + 1].flatten(0, 1)
        queries = turned[:, :heads].reshape(rows * kv_heads, heads // kv_heads, head_dim)
        scores = torch.bmm(queries, keys)  # the scale 1 / sqrt(head_dim) is part of the queries' matrix
        if self.mask is not None:
            scores.view(rows, heads, -1).add_(self.mask[:, :, : slot + 1])
        mixed = torch.bmm(scores.softmax(-1), values)
        x.addmm_(mixed.view(rows, heads * head_dim), layer.out.T)

    def _add_feed_forward(self, x: Tensor, layer: Layer) -> None:
        """Add the feed-forward block's output to x (B, width), in place."""
        x.addmm_(swiglu(unit_norm(x, self.weights.shape.eps) @ layer.gate_up.T), layer.down.T)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        used = self.prefix_length + self.generated
        self.caches = [cache.select(rows, used) for cache in self.caches]
        if self.prompt_lengths is not None and self.mask is not None:
            self.prompt_lengths, self.mask = self.prompt_lengths[rows], self.mask[rows]


def _filled_cache(keys: Tensor, values: Tensor, rows: Tensor, positions: int) -> _LayerCache:
    """The cache of one layer with the keys and values (U, kv_heads, P, head_dim) of the rows' prompts in it."""
    _, kv_heads, length, head_dim = keys.shape
    cache = _LayerCache(
        keys.new_empty(len(rows), kv_heads, head_dim, positions),
        values.new_empty(len(rows), kv_heads, positions, head_dim),
    )
    cache.keys[:, :, :, :length] = keys.transpose(2, 3)[rows]
    cache.values[:, :, :length] = values[rows]
    return cache


def _padding_mask(prefix: Prefix, prompt_lengths: Tensor, positions: int) -> Tensor:
    """(B, 1, positions): -inf at a prompt's padding, 0 elsewhere."""
    padding = torch.arange(prefix.length, device=prompt_lengths.device) >= prompt_lengths[:, None]
    mask = prefix.keys[0].new_zeros(len(prompt_lengths), 1, positions)
    mask[:, 0, : prefix.length].masked_fill_(padding, float("-inf"))
    return mask
