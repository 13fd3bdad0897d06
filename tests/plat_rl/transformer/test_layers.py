"""The hand-written gradients against plain autograd."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from plat_rl.embedded.transformer.layers import (
    ScoreTokens,
    after_prompts,
    rope,
    rotate,
    swiglu,
    turn_into,
    turn_qkv,
    unit_norm,
)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_swiglu_passes_gradcheck():
    assert torch.autograd.gradcheck(swiglu, (random(2, 3, 8).requires_grad_(),))


def test_swiglu_is_silu_of_the_gate_times_up():
    fused = random(4, 10)
    gate, up = fused.chunk(2, -1)
    torch.testing.assert_close(swiglu(fused), F.silu(gate) * up)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_unit_norm_and_its_gradient(scale):
    x = (random(5, 6, dtype=torch.float32) * scale).requires_grad_()
    y = x.detach().clone().requires_grad_()
    weight = random(5, 6, seed=1, dtype=torch.float32)
    ours = unit_norm(x, 1e-6)
    wanted = y * (y.pow(2).sum(-1, keepdim=True) + 6e-6).rsqrt()
    torch.testing.assert_close(ours, wanted)
    (ours * weight).sum().backward()
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


@pytest.mark.parametrize("kinds", [(), (2,)], ids=["keys", "keys and values"])
def test_keys_after_those_of_their_prompts(kinds):
    prompts, rows = torch.randn(*kinds, 3, 4, 5, 8), torch.tensor([2, 0, 2, 1, 2])
    own = torch.randn(*kinds, 5, 6, 4, 8).transpose(-3, -2)  # tokens first, as projections are
    expected = torch.cat((prompts[..., rows, :, :, :], own), -2)
    assert torch.equal(after_prompts(prompts, rows, own), expected)
    with torch.no_grad():
        assert torch.equal(after_prompts(prompts, rows, own), expected)


@pytest.mark.parametrize("head_dim", [12, 14, 16, 32])
def test_a_rotation_in_place_has_the_bits_of_one_that_is_not(head_dim):
    fused = torch.randn(7, 12, head_dim)
    turns = rope(head_dim, 10000.0, 20, fused)[torch.randint(0, 20, (7,))][:, None]
    expected = rotate(fused[:, :8], turns)
    turn_into(fused[:, :8], turns, fused[:, :8])
    assert torch.equal(fused[:, :8], expected)


def test_turning_queries_and_keys_and_its_gradient():
    heads, kv_heads, head_dim = 4, 2, 6
    fused = random(3, 7, heads + 2 * kv_heads, head_dim, dtype=torch.float32)
    table = rope(head_dim, 100.0, 7, fused)[:7, None]
    angles = torch.angle(table)
    ours, wanted = fused.clone().requires_grad_(), fused.clone().requires_grad_()
    outputs = turn_qkv(ours, table, heads, kv_heads)
    queries, keys, values = wanted.split((heads, kv_heads, kv_heads), 2)
    plain = [tensor.transpose(1, 2) for tensor in (turned(queries, angles), turned(keys, angles), values)]
    loss, reference = 0.0, 0.0
    for number, (output, other) in enumerate(zip(outputs, plain, strict=True)):
        torch.testing.assert_close(output, other, atol=1e-5, rtol=1e-5)
        weight = random(*output.shape, seed=number, dtype=torch.float32)
        loss, reference = loss + (output * weight).sum(), reference + (other * weight).sum()
    loss.backward()
    reference.backward()
    torch.testing.assert_close(ours.grad, wanted.grad, atol=1e-5, rtol=1e-5)


def test_token_scores_pass_gradcheck_and_equal_the_plain_formulas():
    scores, chosen = random(6, 9).requires_grad_(), torch.tensor([0, 8, 3, 3, 1, 5])
    assert torch.autograd.gradcheck(lambda s: ScoreTokens.apply(s, chosen), (scores,))
    log_probs, entropies = ScoreTokens.apply(scores, chosen)
    plain = torch.distributions.Categorical(logits=scores)
    torch.testing.assert_close(log_probs, plain.log_prob(chosen))
    torch.testing.assert_close(entropies, plain.entropy())


def test_a_certain_token_has_finite_scores_and_gradients():
    scores = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    log_probs, entropies = ScoreTokens.apply(scores, torch.tensor([1]))
    (log_probs + entropies).sum().backward()
    assert bool(
        torch.isfinite(log_probs).all() and torch.isfinite(entropies).all() and torch.isfinite(scores.grad).all()
    )


@pytest.mark.parametrize("function", [unit_norm, swiglu])
def test_passes_without_gradient_give_the_same(function):
    arguments = (random(4, 8, dtype=torch.float32), 1e-6)[: 2 if function is unit_norm else 1]
    with torch.no_grad():
        plain = function(*arguments)
    torch.testing.assert_close(function(*arguments), plain)
