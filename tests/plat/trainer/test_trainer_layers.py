"""The hand-written gradients against plain autograd."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from plat.trainer.embedded.layers import SwiGLU, TurnQKV, rms_norm, rope, rotate


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_swiglu_passes_gradcheck():
    assert torch.autograd.gradcheck(SwiGLU.apply, (random(2, 3, 8).requires_grad_(),))


def test_swiglu_is_silu_of_the_gate_times_up():
    fused = random(4, 10)
    gate, up = fused.chunk(2, -1)
    torch.testing.assert_close(SwiGLU.apply(fused), F.silu(gate) * up)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_rms_norm_and_its_gradient(scale):
    x = (random(5, 6, dtype=torch.float32) * scale).requires_grad_()
    y = x.detach().clone().requires_grad_()
    weight = random(5, 6, seed=1, dtype=torch.float32)
    found = rms_norm(x, 1e-6)
    wanted = y * (y.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(found, wanted)
    (found * weight).sum().backward()
    (wanted * weight).sum().backward()
    torch.testing.assert_close(x.grad * scale, y.grad * scale, atol=1e-5, rtol=1e-4)


def turned(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Pairs side by side, each turned by its angle, written with sines and cosines."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)


def test_the_rope_table_and_the_rotation():
    positions = torch.arange(200).float()
    angles = positions[:, None] / 10000.0 ** (torch.arange(0, 8, 2).float() / 8)
    table = rope(8, 10000.0, 200, torch.zeros(1))[:200]
    x = random(200, 8, dtype=torch.float32)
    torch.testing.assert_close(rotate(x, table), turned(x, angles), atol=1e-5, rtol=1e-5)


def test_the_rope_table_serves_passes_with_gradients_after_one_without():
    with torch.inference_mode():
        table = rope(6, 123.0, 5, torch.zeros(1))
    x = random(5, 6, dtype=torch.float32).requires_grad_()
    rotate(x, table[:5]).sum().backward()
    assert x.grad is not None


def test_turning_queries_and_keys_and_its_gradient():
    heads, kv_heads, head_dim = 4, 2, 6
    fused = random(3, 7, heads + 2 * kv_heads, head_dim, dtype=torch.float32)
    table = rope(head_dim, 100.0, 7, fused)[:7, None]
    angles = torch.angle(table)
    found, wanted = fused.clone().requires_grad_(), fused.clone().requires_grad_()
    outputs = TurnQKV.apply(found, table, heads, kv_heads)
    queries, keys, values = wanted.split((heads, kv_heads, kv_heads), 2)
    plain = [each.transpose(1, 2) for each in (turned(queries, angles), turned(keys, angles), values)]
    loss, reference = 0.0, 0.0
    for number, (one, other) in enumerate(zip(outputs, plain, strict=True)):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
        weight = random(*one.shape, seed=number, dtype=torch.float32)
        loss, reference = loss + (one * weight).sum(), reference + (other * weight).sum()
    loss.backward()
    reference.backward()
    torch.testing.assert_close(found.grad, wanted.grad, atol=1e-5, rtol=1e-5)
