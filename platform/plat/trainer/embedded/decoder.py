"""Generation, one token at a time, with preallocated keys and values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.embedded.layers import at_least_float32, rms_norm, rope
from plat.trainer.embedded.model import Prefix, Weights, feed_forward


class Decoder:
    """Extends B rows by one token at a time. Use under torch.inference_mode().

    A step has little to compute, so what counts is the number of operations: keys and values lie in one array per
    layer, (2, B, kv_heads, prefix + room, head_dim), and the whole fused projection is rotated, values by nothing.
    """

    def __init__(self, weights: Weights, prefix: Prefix, rows: Tensor, room: int) -> None:
        shape = weights.shape
        self.weights, self.at, self.start = weights, 0, prefix.length
        self.lengths = None if prefix.lengths is None else prefix.lengths[rows]
        size = (2, rows.shape[0], shape.kv_heads, prefix.length + room, shape.head_dim)
        self.caches = []
        for keys, values in zip(prefix.keys, prefix.values, strict=True):
            cache = keys.new_empty(size)
            cache[0, :, :, : prefix.length] = keys[rows]
            cache[1, :, :, : prefix.length] = values[rows]
            self.caches.append(cache)
        self.table = rope(shape.head_dim, shape.rope_theta, prefix.length + room, weights.embed)
        parts = shape.heads + 2 * shape.kv_heads
        each = () if self.lengths is None else (rows.shape[0],)
        self.turns = self.table.new_ones(*each, parts, shape.head_dim // 2)
        self.mask = None
        if self.lengths is not None:
            hidden = torch.arange(prefix.length, device=rows.device) >= self.lengths[:, None]
            self.mask = weights.embed.new_zeros(rows.shape[0], 1, 1, prefix.length + room)
            self.mask[:, 0, 0, : prefix.length].masked_fill_(hidden, float("-inf"))

    def step(self, ids: Tensor) -> Tensor:
        """Feed one token per row, ids (B,); returns the logits (B, vocabulary) of the next one."""
        weights, shape = self.weights, self.weights.shape
        heads, kv_heads, head_dim, rows = shape.heads, shape.kv_heads, shape.head_dim, len(ids)
        slot = self.start + self.at
        turned = heads + kv_heads
        if self.lengths is None:
            self.turns[:turned] = self.table[slot]
        else:
            self.turns[:, :turned] = self.table[self.lengths + self.at][:, None]
        x = F.embedding(ids, weights.embed)
        for cache, layer in zip(self.caches, weights.layers, strict=True):
            qkv = F.linear(rms_norm(x, shape.eps), layer.qkv, layer.qkv_bias)
            pairs = torch.view_as_complex(at_least_float32(qkv).view(rows, -1, head_dim // 2, 2))
            qkv = torch.view_as_real(pairs * self.turns).to(x.dtype).view(rows, -1, head_dim)
            cache[:, :, :, slot] = qkv[:, heads:].view(rows, 2, kv_heads, head_dim).transpose(0, 1)
            keys, values = cache[:, :, :, : slot + 1]
            scores = qkv[:, :heads].reshape(rows, kv_heads, -1, head_dim) @ keys.transpose(2, 3)
            if self.mask is not None:
                scores = scores + self.mask[..., : slot + 1]
            mixed = scores.softmax(-1) @ values
            x = x + F.linear(mixed.view(rows, -1), layer.out)
            x = x + feed_forward(shape, layer, x)
        self.at += 1
        return F.linear(rms_norm(x, shape.eps), weights.head)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        used = self.start + self.at
        for number, old in enumerate(self.caches):
            new = old.new_empty(2, rows.shape[0], *old.shape[2:])
            new[:, :, :, :used] = old[:, rows, :, :used]
            self.caches[number] = new
        if self.lengths is not None and self.mask is not None:
            self.lengths, self.mask, self.turns = self.lengths[rows], self.mask[rows], self.turns[rows]
