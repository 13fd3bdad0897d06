"""Generation, one token at a time, with preallocated keys and values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.embedded.layers import rms_norm, rope, rotate
from plat.trainer.embedded.model import Prefix, Weights, feed_forward


class Decoder:
    """Extends B rows by one token at a time, with preallocated keys and values. Use under torch.inference_mode()."""

    def __init__(self, weights: Weights, prefix: Prefix, rows: Tensor, room: int) -> None:
        shape = weights.shape
        self.weights, self.at, self.start = weights, 0, prefix.length
        self.lengths = None if prefix.lengths is None else prefix.lengths[rows]
        size = (rows.shape[0], shape.kv_heads, prefix.length + room, shape.head_dim)
        self.keys, self.values = [], []
        for keys, values in zip(prefix.keys, prefix.values, strict=True):
            k, v = keys.new_empty(size), values.new_empty(size)
            k[:, :, : prefix.length] = keys[rows]
            v[:, :, : prefix.length] = values[rows]
            self.keys.append(k)
            self.values.append(v)
        self.table = rope(shape.head_dim, shape.rope_theta, prefix.length + room, weights.embed)
        self.mask = None
        if self.lengths is not None:
            hidden = torch.arange(prefix.length, device=rows.device) >= self.lengths[:, None]
            self.mask = torch.zeros(rows.shape[0], 1, 1, prefix.length + room, device=rows.device, dtype=k.dtype)
            self.mask[:, 0, 0, : prefix.length].masked_fill_(hidden, float("-inf"))

    def step(self, ids: Tensor) -> Tensor:
        """Feed one token per row, ids (B,); returns the logits (B, vocabulary) of the next one."""
        weights, shape = self.weights, self.weights.shape
        slot = self.start + self.at
        if self.lengths is None:
            turns = self.table[slot]
        else:
            turns = self.table[self.lengths + self.at][:, None]
        x = F.embedding(ids, weights.embed)
        heads, kv_heads, head_dim = shape.heads, shape.kv_heads, shape.head_dim
        group = heads // kv_heads
        for number, layer in enumerate(weights.layers):
            qkv = F.linear(rms_norm(x, shape.eps), layer.qkv, layer.qkv_bias)
            qkv = qkv.view(-1, heads + 2 * kv_heads, head_dim)
            turned = rotate(qkv[:, : heads + kv_heads], turns)
            self.keys[number][:, :, slot] = turned[:, heads:]
            self.values[number][:, :, slot] = qkv[:, heads + kv_heads :]
            queries = turned[:, :heads].reshape(-1, kv_heads, group, head_dim)
            scores = queries @ self.keys[number][:, :, : slot + 1].transpose(2, 3)
            if self.mask is not None:
                scores = scores + self.mask[..., : slot + 1]
            mixed = scores.softmax(-1) @ self.values[number][:, :, : slot + 1]
            x = x + F.linear(mixed.reshape(-1, heads * head_dim), layer.out)
            x = x + feed_forward(shape, layer, x)
        self.at += 1
        return F.linear(rms_norm(x, shape.eps), weights.head)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows only."""
        used = self.start + self.at
        for cache in (self.keys, self.values):
            for number, old in enumerate(cache):
                new = old.new_empty(rows.shape[0], *old.shape[1:])
                new[:, :, :used] = old[rows, :, :used]
                cache[number] = new
        if self.lengths is not None and self.mask is not None:
            self.lengths, self.mask = self.lengths[rows], self.mask[rows]
