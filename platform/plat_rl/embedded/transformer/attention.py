"""Attention of padded rows, written out as matrix products, with the gradient that each device affords.

On a CPU the products are 1.5 to 3 times faster than torch's fused kernel while the scores fit into a cache; beyond, the
fused kernel computes. On other devices the products always do. CUDA's fused kernels add up a gradient in an order that
differs from run to run, unless every operation of the program without a deterministic form is to raise an error
(`torch.use_deterministic_algorithms` without `warn_only`), and torch chooses among the kernels by sizes and versions.
Products by cuBLAS give the same bits each time (`plat_rl.embedded.scoring`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 1 << 23  # attention scores that a CPU writes out
# Scores that another device holds at once, 0.5 GB of float32, two or three times over. Take a model of 494 million
# parameters (24 layers, 14 heads of 64) in float32, a mini-batch of 128 rows, each with a prompt of its own of 600
# tokens and 80 new ones. A layer has 128 x 14 x 80 x 680 scores of the new tokens (0.4 GB) and 128 x 14 x 600 x 600 of
# the prompts (2.6 GB). Kept for the gradient, they would take 69 GB. Queries, keys and values are 3 GB for the new
# tokens, 14 GB for the prompts; the scores are computed from them again, a third more products of attention.
AT_ONCE = 1 << 27


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attend from scaled queries (B, heads, T, head_dim) to keys and values (B, kv_heads, S, head_dim).

    mask: (T, S) or (B, 1, T, S), 0 where a query sees a position and -inf elsewhere. Returns (B, T, heads * head_dim).
    """
    batch, heads, tokens, head_dim = queries.shape
    kv_heads, seen = keys.shape[1:3]
    if queries.device.type != "cpu":
        return attend_in_parts(queries, keys, values, mask)
    if batch * heads * tokens * seen > SMALL:
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, scale=1.0, enable_gqa=heads != kv_heads
        )
        return mixed.transpose(1, 2).reshape(batch, tokens, heads * head_dim)
    function = _Attend.apply if torch.is_grad_enabled() else _attend
    return function(queries, keys, values, mask)


def attend_in_parts(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Do what `attend` does with at most AT_ONCE scores in memory: some rows at a time, and nothing kept of them."""
    function = _AttendInParts.apply if torch.is_grad_enabled() else _in_parts
    return function(queries, keys, values, mask)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, keep: list[Tensor] | None = None) -> Tensor:
    """Do what `attend` does by plain matrix products; `keep` receives the tensors for the gradient."""
    batch, heads, tokens, head_dim = queries.shape
    kv_heads, seen = keys.shape[1:3]
    together = heads // kv_heads * tokens  # the heads that share keys, one below the other
    lines = queries.reshape(batch * kv_heads, together, head_dim)
    keys = keys.reshape(batch * kv_heads, seen, head_dim)
    values = values.reshape(batch * kv_heads, seen, head_dim)
    if mask.ndim == 2:
        scores = torch.baddbmm(mask.repeat(heads // kv_heads, 1), lines, keys.transpose(1, 2))
    else:
        scores = torch.bmm(lines, keys.transpose(1, 2)).view(batch, heads, tokens, seen).add_(mask)
    shares = scores.view(batch * kv_heads, together, seen).softmax(-1)
    if keep is not None:
        keep += [lines, keys, values, shares]
    mixed = torch.bmm(shares, values)
    return mixed.view(batch, heads, tokens, head_dim).transpose(1, 2).reshape(batch, tokens, heads * head_dim)


def _attend_backward(
    grad: Tensor, keep: list[Tensor], queries_shape: torch.Size, keys_shape: torch.Size
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values from that of the output of `_attend`, and what it kept."""
    lines, keys, values, shares = keep
    batch, heads, tokens, head_dim = queries_shape
    grad = grad.view(batch, tokens, heads, head_dim).transpose(1, 2).reshape(lines.shape)
    grad_values = torch.bmm(shares.transpose(1, 2), grad).view(keys_shape)
    grad_scores = torch.bmm(grad, values.transpose(1, 2))
    grad_scores = torch.ops.aten._softmax_backward_data(grad_scores, shares, -1, shares.dtype)
    grad_queries = torch.bmm(grad_scores, keys).view(queries_shape)
    grad_keys = torch.bmm(grad_scores.transpose(1, 2), lines).view(keys_shape)
    return grad_queries, grad_keys, grad_values


class _Attend(torch.autograd.Function):
    """`_attend` with its gradient: autograd's has a transposed layout for keys, which is slow to add up."""

    @staticmethod
    def forward(ctx, queries, keys, values, mask):  # type: ignore[no-untyped-def]
        keep: list[Tensor] = []
        mixed = _attend(queries, keys, values, mask, keep)
        ctx.save_for_backward(*keep)
        ctx.shapes = queries.shape, keys.shape
        return mixed

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return *_attend_backward(grad, list(ctx.saved_tensors), *ctx.shapes), None


def _parts(queries: Tensor, keys: Tensor) -> list[slice]:
    """Return the parts of B rows, in order, that have at most AT_ONCE scores each, or are a single row."""
    batch, heads, tokens, _ = queries.shape
    size = max(1, AT_ONCE // max(1, heads * tokens * keys.shape[2]))
    return [slice(start, start + size) for start in range(0, batch, size)] or [slice(0, 0)]


def _in_parts(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    outputs = [
        _attend(queries[part], keys[part], values[part], mask if mask.ndim == 2 else mask[part])
        for part in _parts(queries, keys)
    ]
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


class _AttendInParts(torch.autograd.Function):
    """`_in_parts` with its gradient, for which the scores are computed again."""

    @staticmethod
    def forward(ctx, queries, keys, values, mask):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(queries, keys, values, mask)
        return _in_parts(queries, keys, values, mask)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        queries, keys, values, mask = ctx.saved_tensors
        parts = []
        for part in _parts(queries, keys):
            keep: list[Tensor] = []
            own = queries[part], keys[part], values[part]
            _attend(*own, mask if mask.ndim == 2 else mask[part], keep)
            parts.append(_attend_backward(grad[part], keep, own[0].shape, own[1].shape))
        if len(parts) == 1:
            return *parts[0], None
        return *map(torch.cat, zip(*parts, strict=True)), None
