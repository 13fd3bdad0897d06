"""Attention of a layer of `flat_pass` and its gradient: block by block, with the scores written out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from plat.trainer.embedded.transformer.flat_layout import Block, Layout
from plat.trainer.embedded.transformer.layers import after_prompts
from plat.trainer.embedded.transformer.model import Shape


@dataclass(frozen=True)
class Attended:
    """Tensors for the gradient of a block's attention; heads that share keys are stacked."""

    queries: Tensor  # (B * kv_heads, heads / kv_heads * T, head_dim)
    keys: Tensor  # (B * kv_heads, S, head_dim)
    values: Tensor
    shares: Tensor  # (B * kv_heads, heads / kv_heads * T, S), the softmax of the scores


def attention(fused: Tensor, layout: Layout, last: bool) -> tuple[Tensor, list[Attended]]:
    """Return attention's output (tokens, heads * head_dim) from fused projections, and what backward needs by block.

    last  leave out the output at the prompts' tokens, which nothing needs after the last layer
    """
    prompts = layout.prompts
    attended: list[Attended] = []
    queries, prompt_kv = _heads_first(fused[: layout.prompt_tokens], prompts, layout.shape)
    prompt_kv = prompt_kv.contiguous()
    outputs = []
    if not last:
        mixed, kept = _attend(queries, prompt_kv, prompts, layout.shape)
        outputs.append(mixed)
        attended.append(kept)
    start = layout.prompt_tokens
    for block in layout.responses:
        queries, own = _heads_first(fused[start : start + len(block.flat)], block, layout.shape)
        assert block.prompt_of_row is not None
        mixed, kept = _attend(queries, after_prompts(prompt_kv, block.prompt_of_row, own), block, layout.shape)
        outputs.append(mixed)
        attended.append(kept)
        start += len(block.flat)
    return torch.cat(outputs), attended


def _heads_first(fused: Tensor, block: Block, shape: Shape) -> tuple[Tensor, Tensor]:
    """Return queries (B * kv_heads, heads / kv_heads * T, head_dim), keys and values (2, B, kv_heads, T, head_dim)."""
    heads, kv_heads, head_dim = shape.heads, shape.kv_heads, shape.head_dim
    padded = fused.index_select(0, block.padded).view(block.rows, block.length, heads + 2 * kv_heads, head_dim)
    queries = padded[:, :, :heads].transpose(1, 2).reshape(block.rows * kv_heads, -1, head_dim)
    return queries, _by_kind(padded[:, :, heads:]).permute(2, 0, 3, 1, 4)


def _by_kind(keys_and_values: Tensor) -> Tensor:
    """View (B, T, 2 kv_heads, head_dim) as (B, T, 2, kv_heads, head_dim)."""
    rows, length, both, head_dim = keys_and_values.shape
    return keys_and_values.view(rows, length, 2, both // 2, head_dim)


def _attend(queries: Tensor, kv: Tensor, block: Block, shape: Shape) -> tuple[Tensor, Attended]:
    """Return the block's output (tokens, heads * head_dim) and the tensors for its gradient."""
    keys, values = kv.flatten(1, 2)
    scores = torch.bmm(queries, keys.transpose(1, 2))
    scores.view(block.rows, shape.heads, block.length, -1).add_(block.mask)
    shares = scores.softmax(-1)
    mixed = torch.bmm(shares, values).view(block.rows, shape.heads, block.length, shape.head_dim)
    mixed = mixed.transpose(1, 2).reshape(block.rows * block.length, -1)
    return mixed.index_select(0, block.flat), Attended(queries, keys, values, shares)


def attention_backward(grad: Tensor, attended: list[Attended], layout: Layout, last: bool) -> Tensor:
    """Return the gradient of the fused projections from that of attention's output.

    attended, last  what `attention` returned and was given
    """
    shape, prompts = layout.shape, layout.prompts
    total = layout.prompt_tokens + sum(len(block.flat) for block in layout.responses)
    out = grad.new_empty(total, (shape.heads + 2 * shape.kv_heads) * shape.head_dim)
    prompt_kv = grad.new_zeros(2, prompts.rows, shape.kv_heads, prompts.length, shape.head_dim)
    at, start = 0 if last else layout.prompt_tokens, layout.prompt_tokens
    for block, kept in zip(layout.responses, attended if last else attended[1:], strict=True):
        count = len(block.flat)
        queries, kv = _attend_backward(grad[at : at + count], kept, block, shape)
        assert block.prompt_of_row is not None
        prompt_kv.index_add_(1, block.prompt_of_row, kv[:, :, :, : prompts.length])
        padded = _tokens_first(queries, kv[:, :, :, prompts.length :], block, shape)
        torch.index_select(padded, 0, block.flat, out=out[start : start + count])
        at, start = at + count, start + count
    queries = grad.new_zeros(prompts.rows, prompts.length, shape.heads, shape.head_dim).transpose(1, 2)
    if not last:
        queries, kv = _attend_backward(grad[: layout.prompt_tokens], attended[0], prompts, shape)
        prompt_kv += kv
    out[: layout.prompt_tokens] = 0
    out[: layout.prompt_tokens].index_add_(0, prompts.padded, _tokens_first(queries, prompt_kv, prompts, shape))
    return out


def _attend_backward(grad: Tensor, kept: Attended, block: Block, shape: Shape) -> tuple[Tensor, Tensor]:
    """Return gradients of queries (B, heads, T, head_dim), and keys and values (2, B, kv_heads, S, head_dim)."""
    padded = grad.new_zeros(block.rows * block.length, grad.shape[1]).index_copy_(0, block.flat, grad)
    padded = padded.view(block.rows, block.length, shape.heads, shape.head_dim).transpose(1, 2)
    lines = padded.reshape(kept.queries.shape)
    grad_kv = grad.new_empty(2, *kept.keys.shape)
    torch.bmm(kept.shares.transpose(1, 2), lines, out=grad_kv[1])
    grad_scores = torch.bmm(lines, kept.values.transpose(1, 2))
    grad_scores = torch.ops.aten._softmax_backward_data(grad_scores, kept.shares, -1, grad.dtype)
    torch.bmm(grad_scores.transpose(1, 2), kept.queries, out=grad_kv[0])
    queries = torch.bmm(grad_scores, kept.keys).view(padded.shape)
    return queries, grad_kv.view(2, block.rows, shape.kv_heads, -1, shape.head_dim)


def _tokens_first(queries: Tensor, kv: Tensor, block: Block, shape: Shape) -> Tensor:
    """Reverse `_heads_first`, still padded: (B * T, (heads + 2 kv_heads) * head_dim)."""
    heads, kv_heads = shape.heads, shape.kv_heads
    padded = kv.new_empty(block.rows, block.length, heads + 2 * kv_heads, shape.head_dim)
    padded[:, :, :heads] = queries.transpose(1, 2)
    _by_kind(padded[:, :, heads:]).copy_(kv.permute(1, 3, 0, 2, 4))
    return padded.view(block.rows * block.length, -1)
