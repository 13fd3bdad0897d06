"""Attention and its gradient against the plain formula, in each of the ways in which it is computed."""

from __future__ import annotations

import pytest
import torch

from plat_rl.embedded.transformer import attention


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("way", ["products", "fused kernel", "at once", "row by row", "two rows at a time"])
@pytest.mark.parametrize("per_row", [False, True])
def test_attention_and_its_gradient(kv_heads, way, per_row, monkeypatch):
    monkeypatch.setattr(attention, "SMALL", 0 if way == "fused kernel" else attention.SMALL)
    scores_of_a_row = 4 * 5 * 8
    monkeypatch.setattr(
        attention, "AT_ONCE", {"row by row": 1, "two rows at a time": 2 * scores_of_a_row}.get(way, 1 << 30)
    )
    attend = attention.attend if way in ("products", "fused kernel") else attention.attend_in_parts
    batch, heads, tokens, seen, head_dim = 3, 4, 5, 8, 6
    inputs = [random(batch, heads, tokens, head_dim)]
    inputs += [random(batch, kv_heads, seen, head_dim, seed=seed) for seed in (1, 2)]
    allowed = torch.ones(tokens, seen, dtype=torch.bool).tril(seen - tokens)
    if per_row:
        allowed = allowed & (torch.arange(seen) >= torch.arange(batch)[:, None, None, None])
    mask = torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, float("-inf"))
    queries, keys, values = (tensor.clone().requires_grad_() for tensor in inputs)
    ours = attend(queries, keys, values, mask)

    plain = [tensor.clone().requires_grad_() for tensor in inputs]
    wide = [tensor.repeat_interleave(heads // kv_heads, 1) for tensor in plain[1:]]
    shares = (torch.einsum("bhtd,bhsd->bhts", plain[0], wide[0]) + mask).softmax(-1)
    wanted = torch.einsum("bhts,bhsd->bthd", shares, wide[1]).flatten(2)
    torch.testing.assert_close(ours, wanted)
    weight = random(*ours.shape, seed=3)
    (ours * weight).sum().backward()
    (wanted * weight).sum().backward()
    for actual, other in zip((queries, keys, values), plain, strict=True):
        torch.testing.assert_close(actual.grad, other.grad)


def test_parts_without_rows_and_without_gradient():
    queries, keys = random(0, 4, 5, 6), random(0, 2, 8, 6)
    mask = torch.zeros(5, 8, dtype=torch.float64)
    assert attention.attend_in_parts(queries, keys, keys, mask).shape == (0, 5, 24)
    queries, keys = random(3, 4, 5, 6), random(3, 2, 8, 6)
    with torch.no_grad():
        assert torch.equal(
            attention.attend_in_parts(queries, keys, keys, mask), attention.attend(queries, keys, keys, mask)
        )
