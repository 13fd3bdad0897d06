"""Pieces of a Qwen2 layer with hand-written gradients, which need fewer passes over memory than autograd's."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_rope_tables: dict[tuple[object, ...], Tensor] = {}


def rope(head_dim: int, theta: float, positions: int, like: Tensor) -> Tensor:
    """Return a cached table of complex rotations [`positions` or more, head_dim / 2] on the device of `like`."""
    size = 1 << max(7, (positions - 1).bit_length())
    key = (head_dim, theta, size, like.device, like.dtype)
    if key not in _rope_tables:
        with torch.inference_mode(False):  # the table is kept, also for passes with gradients
            frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
            angles = torch.outer(torch.arange(size).float(), frequency)
            _rope_tables[key] = torch.polar(torch.ones_like(angles), angles).to(like.device)
    return _rope_tables[key]


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Apply rotary position embeddings to x (..., head_dim); return its shape and dtype.

    Elements 2i and 2i + 1 form one complex number, which is multiplied by `turns[..., i]`.

    turns  (..., head_dim / 2), complex, of absolute value 1; broadcasts to the leading dimensions of x
    """
    # the gradient of a fused kernel may lie in memory with the last dimension not innermost
    pairs = torch.view_as_complex(at_least_float32(x).contiguous().view(*x.shape[:-1], x.shape[-1] // 2, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def at_least_float32(x: Tensor) -> Tensor:
    """Return x, as float32 if it is in half precision: too little for rotations, norms and log-probabilities."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def unit_norm(x: Tensor, eps: float) -> Tensor:
    """Return x / sqrt(|x|^2 + width * eps): Qwen2's RMS norm without its weight, divided by sqrt(width).

    `Weights` has both factors in the matrix that follows, which saves a multiplication for each token.
    """
    if torch.is_grad_enabled():
        return _UnitNorm.apply(x, eps)  # type: ignore[no-any-return, no-untyped-call]
    return unit_and_norm(x, eps)[0]


def unit_and_norm(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return `unit_norm(x)` and the norm (..., 1) that x was divided by, in at least float32."""
    norm = torch.linalg.vector_norm(at_least_float32(x), dim=-1, keepdim=True)
    norm.hypot_(_scalar(math.sqrt(x.shape[-1] * eps), norm.dtype, norm.device))
    return (x / norm).to(x.dtype), norm


@lru_cache(maxsize=64)
def _scalar(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a cached 0-d tensor: making one takes as long as a small operation."""
    with torch.inference_mode(False):  # also for passes with gradients
        return torch.full((), value, dtype=dtype, device=device)


def unit_norm_backward(grad: Tensor, unit: Tensor, norm: Tensor) -> Tensor:
    """Return the gradient of x. With u = x / n: dx = (du - u (u . du)) / n, since dn = u . dx."""
    along = torch.linalg.vecdot(grad, unit)[..., None]
    return torch.addcmul(grad, unit, along, value=-1).div_(norm)


class _UnitNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        unit, norm = unit_and_norm(x, eps)
        ctx.save_for_backward(unit, norm)
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return unit_norm_backward(grad, *ctx.saved_tensors), None


def swiglu(fused: Tensor) -> Tensor:
    """Return silu(gate) * up of a fused (..., 2 ffn)."""
    if torch.is_grad_enabled():
        return _SwiGLU.apply(fused)  # type: ignore[no-any-return, no-untyped-call]
    gate, up = fused.chunk(2, -1)
    return F.silu(gate).mul_(up)


def swiglu_backward(grad: Tensor, fused: Tensor, opened: Tensor) -> Tensor:
    """Return the gradient of `fused` (..., 2 ffn); opened: silu(gate)."""
    gate, up = fused.chunk(2, -1)
    out = torch.empty_like(fused)
    out_gate, out_up = out.chunk(2, -1)
    torch.mul(grad, opened, out=out_up)
    torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=out_gate)
    return out


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, fused: Tensor) -> Tensor:
        gate, up = fused.chunk(2, -1)
        opened = F.silu(gate)
        ctx.save_for_backward(fused, opened)
        return opened * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return swiglu_backward(grad, *ctx.saved_tensors)


def turn_qkv(fused: Tensor, turns: Tensor, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split a fused (B, T, heads + 2 kv_heads, head_dim) into rotated queries and keys, and values, heads first."""
    if torch.is_grad_enabled():
        return _TurnQKV.apply(fused, turns, heads, kv_heads)  # type: ignore[no-any-return, no-untyped-call]
    return _split(fused, turns, heads, kv_heads)


def _split(fused: Tensor, turns: Tensor, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, _, head_dim = fused.shape
    queries = fused.new_empty(batch, heads, tokens, head_dim)
    keys = fused.new_empty(batch, kv_heads, tokens, head_dim)
    turn_into(fused[:, :, :heads], turns, queries.transpose(1, 2))
    turn_into(fused[:, :, heads : heads + kv_heads], turns, keys.transpose(1, 2))
    return queries, keys, fused[:, :, heads + kv_heads :].transpose(1, 2)


def turn_into(x: Tensor, turns: Tensor, out: Tensor) -> None:
    """Write rotate(x, turns) into out, without temporary arrays where the dtype allows it."""
    if x.dtype not in (torch.float32, torch.float64):
        out.copy_(rotate(x, turns))
        return
    target = torch.view_as_complex(out.view(*out.shape[:-1], out.shape[-1] // 2, 2))
    if x.stride(-1) == 1:
        torch.mul(torch.view_as_complex(x.view(*x.shape[:-1], x.shape[-1] // 2, 2)), turns, out=target)
    else:
        out.copy_(x)
        target.mul_(turns)


class _TurnQKV(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fused, turns, heads, kv_heads):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(turns)
        ctx.heads, ctx.kv_heads = heads, kv_heads
        return _split(fused, turns, heads, kv_heads)

    @staticmethod
    def backward(ctx, grad_queries, grad_keys, grad_values):  # type: ignore[no-untyped-def]
        (turns,) = ctx.saved_tensors
        heads, kv_heads = ctx.heads, ctx.kv_heads
        batch, _, tokens, head_dim = grad_keys.shape
        out = grad_keys.new_empty(batch, tokens, heads + 2 * kv_heads, head_dim)
        turn_into(grad_queries.transpose(1, 2), turns.conj(), out[:, :, :heads])
        turn_into(grad_keys.transpose(1, 2), turns.conj(), out[:, :, heads : heads + kv_heads])
        out[:, :, heads + kv_heads :] = grad_values.transpose(1, 2)
        return out, None, None, None


class ScoreTokens(torch.autograd.Function):
    """Log-probabilities of chosen tokens (n,) and entropies (n,) of softmax(scores (n, vocabulary))."""

    @staticmethod
    def forward(ctx, scores, chosen):  # type: ignore[no-untyped-def]
        logs = F.log_softmax(scores, -1)
        probs = logs.exp()
        entropies = torch.linalg.vecdot(probs, logs).neg_()
        ctx.save_for_backward(logs, probs, entropies, chosen)
        return logs.gather(-1, chosen[:, None])[:, 0], entropies

    @staticmethod
    def backward(ctx, grad_logs, grad_entropies):  # type: ignore[no-untyped-def]
        logs, probs, entropies, chosen = ctx.saved_tensors
        # d log p_c = onehot(c) - p, and dH = -p (log p + H)
        both = torch.addcmul(grad_logs, grad_entropies, entropies).neg_()
        grad = torch.addcmul(both[:, None], logs, grad_entropies[:, None], value=-1).mul_(probs)
        return grad.scatter_add_(-1, chosen[:, None], grad_logs[:, None]), None


def causal_mask(tokens: int, before: int, like: Tensor) -> Tensor:
    """Return a mask (tokens, before + tokens): 0 where token t sees `before` and tokens <= t, -inf elsewhere."""
    hidden = torch.ones(tokens, before + tokens, dtype=torch.bool, device=like.device).triu_(before + 1)
    return torch.zeros(hidden.shape, dtype=like.dtype, device=like.device).masked_fill_(hidden, float("-inf"))


def after_prompts(prompts: Tensor, rows: Tensor, own: Tensor) -> Tensor:
    """Join keys or values (.., B, kv_heads, P + T, head_dim): those of prompt rows[b], then own[.., b, :, :, :].

    prompts (.., U, kv_heads, P, head_dim); rows (B,); own (.., B, kv_heads, T, head_dim), of any layout.
    """
    if torch.is_grad_enabled():
        return torch.cat((prompts[..., rows, :, :, :], own), -2)
    length = prompts.shape[-2]
    joined = own.new_empty(*own.shape[:-2], length + own.shape[-2], own.shape[-1])
    torch.index_select(prompts, -4, rows, out=joined[..., :length, :])  # each is copied once, unlike by torch.cat
    joined[..., length:, :] = own
    return joined
