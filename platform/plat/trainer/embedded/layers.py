"""The pieces of a Qwen2 layer that plain autograd would compute in more passes over memory than needed."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_rope_tables: dict[tuple, Tensor] = {}


def rope(head_dim: int, theta: float, positions: int, like: Tensor) -> Tensor:
    """Complex rotations (at least `positions`, head_dim / 2), cached."""
    size = 1 << max(7, (positions - 1).bit_length())
    key = (head_dim, theta, size, like.device, like.dtype)
    if key not in _rope_tables:
        with torch.inference_mode(False):  # the table is kept, also for passes with gradients
            frequency = 1.0 / theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
            angles = torch.outer(torch.arange(size).float(), frequency)
            _rope_tables[key] = torch.polar(torch.ones_like(angles), angles).to(like.device)
    return _rope_tables[key]


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Rotary embedding of x (..., head_dim), pairs side by side, by complex turns (..., head_dim / 2)."""
    pairs = torch.view_as_complex(x.to(_at_least_float32(x)).unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def _at_least_float32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def rms_norm(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps), without the learned weight: `Weights` carries it in the matrix that follows."""
    return _RMSNorm.apply(x, eps)  # type: ignore[no-any-return]


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):  # type: ignore[no-untyped-def,override]
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=_at_least_float32(x))
        scale = scale.square_().div_(x.shape[-1]).add_(eps).rsqrt_().to(x.dtype)
        normed = x * scale
        ctx.save_for_backward(normed, scale)
        return normed

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def,override]
        normed, scale = ctx.saved_tensors
        along = (grad * normed).mean(-1, keepdim=True)
        return torch.addcmul(grad, normed, along, value=-1).mul_(scale), None


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up of a fused (..., 2 ffn); the fused gradient is written in place of being concatenated."""

    @staticmethod
    def forward(ctx, fused):  # type: ignore[no-untyped-def,override]
        gate, up = fused.chunk(2, -1)
        ctx.save_for_backward(fused)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def,override]
        (fused,) = ctx.saved_tensors
        gate, up = fused.chunk(2, -1)
        out = torch.empty_like(fused)
        sigmoid = torch.sigmoid(gate)
        silu = gate * sigmoid
        torch.mul(grad, silu, out=out[..., fused.shape[-1] // 2 :])
        slope = torch.addcmul(sigmoid, silu, 1 - sigmoid)
        torch.mul(slope.mul_(up), grad, out=out[..., : fused.shape[-1] // 2])
        return out


class TurnQKV(torch.autograd.Function):
    """Splits a fused (B, T, heads + 2 kv_heads, head_dim) into rotated queries and keys, and values, heads first."""

    @staticmethod
    def forward(ctx, fused, turns, heads, kv_heads):  # type: ignore[no-untyped-def,override]
        ctx.save_for_backward(turns)
        ctx.heads, ctx.kv_heads = heads, kv_heads
        turned = rotate(fused[:, :, : heads + kv_heads], turns)
        return (
            turned[:, :, :heads].transpose(1, 2),
            turned[:, :, heads:].transpose(1, 2),
            fused[:, :, heads + kv_heads :].transpose(1, 2),
        )

    @staticmethod
    def backward(ctx, grad_queries, grad_keys, grad_values):  # type: ignore[no-untyped-def,override]
        (turns,) = ctx.saved_tensors
        heads, kv_heads = ctx.heads, ctx.kv_heads
        batch, _, tokens, head_dim = grad_keys.shape
        out = grad_keys.new_empty(batch, tokens, heads + 2 * kv_heads, head_dim)
        out[:, :, :heads] = grad_queries.transpose(1, 2)
        out[:, :, heads : heads + kv_heads] = grad_keys.transpose(1, 2)
        out[:, :, heads + kv_heads :] = grad_values.transpose(1, 2)
        turning = out[:, :, : heads + kv_heads]
        turning.copy_(rotate(turning, turns.conj()))
        return out, None, None, None
