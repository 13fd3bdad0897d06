"""The forward pass of an update: all tokens of all prompts and responses at once, with a hand-written gradient.

`hidden_states` computes what `encode` and `extend` compute together. It is faster for the batches that `fits` accepts:

- common beginnings of prompts are computed once;
- tokens lie in one flat array without padding; only attention works on padded blocks of responses of similar length;
- a whole layer is one autograd function, which adds up no gradient twice.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.transformer.attention import SMALL
from plat.trainer.embedded.transformer.flat_attention import attention, attention_backward
from plat.trainer.embedded.transformer.flat_layout import Layout, make_layout
from plat.trainer.embedded.transformer.layers import swiglu_backward, unit_and_norm, unit_norm, unit_norm_backward
from plat.trainer.embedded.transformer.model import Weights


def fits(weights: Weights, batch: Batch) -> bool:
    """Return True if `hidden_states` is faster: on the CPU, in float32 or float64, with few attention scores."""
    longest = int(batch.response_length.max(initial=1))
    seen = max(len(prompt) for prompt in batch.prompts) + longest
    plain = weights.embed.dtype in (torch.float32, torch.float64) and weights.embed.device.type == "cpu"
    return plain and len(batch.response_length) * weights.shape.heads * longest * seen <= SMALL


def hidden_states(weights: Weights, batch: Batch, pad: int) -> Tensor:
    """Return the hidden states (tokens, width) that predict each response token, row after row."""
    layout = make_layout(weights, batch, pad)
    x = F.embedding(layout.ids, weights.embed)
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
