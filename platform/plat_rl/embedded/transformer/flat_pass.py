"""The forward pass of an update: all tokens of all prompts and responses at once, with a hand-written gradient.

`hidden_states` computes what `encode` and `extend` compute together. It is faster for the batches that `fits` accepts:

- common beginnings of prompts are computed once;
- tokens lie in one flat array without padding; only attention works on padded blocks of responses of similar length,
  block by block, with the scores written out;
- a whole layer is one autograd function, which adds up no gradient twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat_rl.embedded.batch import Batch, length_groups, pad_prompts
from plat_rl.embedded.transformer.attention import SMALL
from plat_rl.embedded.transformer.layers import (
    after_prompts,
    causal_mask,
    rope,
    swiglu_backward,
    unit_and_norm,
    unit_norm,
    unit_norm_backward,
)
from plat_rl.embedded.transformer.model import Shape, Weights
from plat_rl.embedded.transformer.vision import embedded, turns_at
from plat_rl.embedded.transformer.vision import positions as positions_of


def fits(weights: Weights, batch: Batch) -> bool:
    """Return True if `hidden_states` is faster: on the CPU, in float32 or float64, with few attention scores."""
    longest = int(batch.response_length.max(initial=1))
    seen = max(len(prompt) for prompt in batch.prompts) + longest
    plain = weights.embed.dtype in (torch.float32, torch.float64) and weights.embed.device.type == "cpu"
    return plain and len(batch.response_length) * weights.shape.heads * longest * seen <= SMALL


def hidden_states(weights: Weights, batch: Batch, pad: int) -> Tensor:
    """Return the hidden states (tokens, width) that predict each response token, row after row."""
    layout = make_layout(weights, batch, pad)
    x = embedded(weights, layout.ids)
    for number, layer in enumerate(weights.layers):
        last = number + 1 == len(weights.layers)
        x = _Layer.apply(x, layer.qkv, layer.qkv_bias, layer.out, layer.gate_up, layer.down, layout, last)  # type: ignore[no-untyped-call]
    return unit_norm(x if layout.order is None else x[layout.order], weights.shape.eps)


class _Layer(torch.autograd.Function):
    """x + attention + feed-forward over flat tokens. The last layer returns response tokens only."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        qkv: Tensor,
        qkv_bias: Tensor,
        out: Tensor,
        gate_up: Tensor,
        down: Tensor,
        layout: Layout,
        last: bool,
    ) -> Tensor:
        eps = layout.shape.eps
        unit1, norm1 = unit_and_norm(x, eps)
        fused = torch.addmm(qkv_bias, unit1, qkv.T)
        _rotate_(fused, layout.rotations)
        mixed, attended = attention(fused, layout, last)
        x = torch.addmm(x[layout.prompt_tokens :] if last else x, mixed, out.T)
        unit2, norm2 = unit_and_norm(x, eps)
        gate, up = (fused := unit2 @ gate_up.T).chunk(2, -1)
        opened = F.silu(gate)
        inner = opened * up
        ctx.layout, ctx.last, ctx.attended = layout, last, attended
        ctx.save_for_backward(qkv, out, gate_up, down, unit1, norm1, mixed, unit2, norm2, fused, opened, inner)
        return torch.addmm(x, inner, down.T)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        layout: Layout = ctx.layout
        qkv, out, gate_up, down, unit1, norm1, mixed, unit2, norm2, fused, opened, inner = ctx.saved_tensors
        grad_down = grad.T @ inner
        grad_fused = swiglu_backward(grad @ down, fused, opened)
        grad_gate_up = grad_fused.T @ unit2
        grad = unit_norm_backward(grad_fused @ gate_up, unit2, norm2).add_(grad)
        grad_out = grad.T @ mixed
        grad_fused = attention_backward(grad @ out, ctx.attended, layout, ctx.last)
        _rotate_(grad_fused, layout.rotations.conj())
        grad_qkv, grad_bias = grad_fused.T @ unit1, grad_fused.sum(0)
        grad_x = unit_norm_backward(grad_fused @ qkv, unit1, norm1)
        (grad_x[layout.prompt_tokens :] if ctx.last else grad_x).add_(grad)
        return grad_x, grad_qkv, grad_bias, grad_out, grad_gate_up, grad_down, None, None


def _rotate_(fused: Tensor, rotations: Tensor) -> None:
    """Apply the rotary embedding to queries and keys of fused projections (tokens, ..), in place."""
    turned = fused[:, : 2 * rotations.shape[1]]
    torch.view_as_complex(turned.view(len(turned), -1, 2)).mul_(rotations)


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


# The layout of a batch's tokens in the flat array of `flat_pass`: prompts first, then responses.

WORTH = 128  # padded attention positions that cost as much as the operations of one more block


@dataclass(frozen=True)
class Block:
    """Rows that attend together: B sequences of at most T new tokens each, after nothing or after a prompt each."""

    rows: int  # B
    length: int  # T
    padded: Tensor  # (B * T,) index of the flat token at each position; any at padding
    flat: Tensor  # (tokens,) position of each flat token among the B * T; one of them if it is in several rows
    prompt_of_row: Tensor | None  # (B,)
    mask: Tensor  # (B or 1, 1, T, S): 0 where a token sees another, -inf elsewhere


@dataclass(frozen=True)
class Layout:
    """Positions of a batch's tokens: those of U prompts, common beginnings once, then the responses by block."""

    shape: Shape
    ids: Tensor  # (tokens,) what is fed
    rotations: Tensor  # (tokens, (heads + kv_heads) * head_dim / 2) complex
    prompt_tokens: int  # distinct beginnings of prompts, at most U * P
    prompts: Block
    responses: list[Block]
    order: Tensor | None  # from the blocks' order of response tokens to row after row; None: the same


def make_layout(weights: Weights, batch: Batch, pad: int) -> Layout:
    """Return the layout of the prompts and responses of a batch; `pad` is the token id of padding.

    A prompt is fed without its last token, which begins each of its responses: what is fed at a position predicts the
    response's token there. Responses are put into blocks of similar length.
    """
    prompt_of_row, responses, lengths = batch.prompt_of_row, batch.responses, batch.response_length
    ids, prompt_lengths, last = pad_prompts(batch.prompts, pad, "cpu")
    count, longest_prompt = ids.shape
    whole = np.full(count, longest_prompt) if prompt_lengths is None else prompt_lengths.numpy()
    number, first = distinct_beginnings(ids.numpy())
    mask = causal_mask(longest_prompt, 0, weights.embed)[None, None]
    prompt_block = Block(count, longest_prompt, torch.from_numpy(number), torch.from_numpy(first), None, mask)
    blocks, fed, targets = [], [ids.flatten()[prompt_block.flat]], []
    where = positions_of(ids.numpy()) if weights.vision is not None else None
    if where is not None:  # text continues at another position than the length
        whole = where[np.arange(count), whole, 0]
    positions = [first % longest_prompt]
    starts = np.cumsum(lengths) - lengths  # of each row among all response tokens
    for group in length_groups(lengths, worth=WORTH):
        longest = int(lengths[group].max())
        row, column = np.nonzero(np.arange(longest) < lengths[group][:, None])
        padded = np.zeros((len(group), longest), dtype=np.int64)
        padded[row, column] = np.arange(len(row))
        of_row = torch.from_numpy(prompt_of_row[group])
        inputs = torch.cat((last[of_row, None], torch.from_numpy(responses[group, : longest - 1])), 1)
        flat = torch.from_numpy(row * longest + column)
        mask = causal_mask(longest, longest_prompt, weights.embed)[None, None]
        if prompt_lengths is not None:
            hidden = torch.arange(longest_prompt) >= prompt_lengths[of_row, None]
            mask = mask.repeat(len(group), 1, 1, 1)
            mask[..., :longest_prompt].masked_fill_(hidden[:, None, None], float("-inf"))
        blocks.append(Block(len(group), longest, torch.from_numpy(padded.ravel()), flat, of_row, mask))
        fed.append(inputs.flatten()[flat])
        positions.append(whole[prompt_of_row[group]][row] + column)
        targets.append(starts[group][row] + column)
    shape = weights.shape
    position = np.concatenate(positions)
    if where is None:
        table = rope(shape.head_dim, shape.rope_theta, int(position.max(initial=0)) + 1, weights.embed)
        rotations = table.repeat(1, shape.heads + shape.kv_heads)[torch.from_numpy(position)]
    else:
        of_prompts = where[first // longest_prompt, first % longest_prompt]
        threefold = np.concatenate((of_prompts, np.repeat(position[len(first) :, None], 3, 1)))
        rotations = turns_at(shape, threefold, weights.embed).repeat(1, shape.heads + shape.kv_heads)
    order = torch.from_numpy(np.argsort(np.concatenate(targets))) if len(blocks) > 1 else None
    return Layout(shape, torch.cat(fed), rotations, len(first), prompt_block, blocks, order)


def distinct_beginnings(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct beginnings of the rows of ids (U, P).

    Returns number (U * P,), where number[u * P + p] is that of ids[u, :p + 1], and first (distinct,), a position
    u * P + p at which each beginning ends.
    """
    if not ids.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.lexsort(ids.T[::-1])  # rows that begin alike become neighbours
    ordered = ids[order]
    new = np.ones(ids.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
    numbered = np.where(new, np.cumsum(new).reshape(ids.shape) - 1, 0)
    number = np.empty_like(numbered)
    number[order] = np.maximum.accumulate(numbered, axis=0)
    row, column = np.nonzero(new)
    return number.ravel(), order[row] * ids.shape[1] + column
