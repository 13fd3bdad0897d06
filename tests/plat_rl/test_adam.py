"""The optimiser against torch's AdamW, and a gradient that is no number."""

from __future__ import annotations

import pytest
import torch

from plat.errors import RunError
from plat_rl.embedded.adam import Adam


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_gradient_that_is_no_number_ends_the_run_and_leaves_the_weights(value):
    flat = torch.ones(4)
    adam = Adam(flat, 0.1, (0.9, 0.999), 0.0, 1.0)
    (adam.parameter * torch.tensor([1.0, 1.0, value, 1.0])).sum().backward()
    with pytest.raises(RunError) as raised:
        adam.step()
    assert raised.value.failure_class == "nan" and raised.value.fix
    assert torch.equal(adam.parameter, torch.ones(4)) and not adam.state("a").keys() - {"a.parameters"}


def test_the_optimiser_is_torchs_adamw_with_clipping():
    generator = torch.Generator().manual_seed(0)
    flat = torch.randn(20, generator=generator)
    plain = flat.clone().requires_grad_()
    ours = Adam(flat.clone(), 0.01, (0.8, 0.95), 0.1, 0.5)
    theirs = torch.optim.AdamW([plain], lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)
    for _ in range(5):
        gradient = torch.randn(20, generator=generator)
        ours.parameter.grad, plain.grad = gradient.clone(), gradient.clone()
        norm = ours.step()
        assert norm == pytest.approx(float(torch.nn.utils.clip_grad_norm_([plain], 0.5)))
        theirs.step()
    torch.testing.assert_close(ours.parameter.detach(), plain.detach(), atol=1e-6, rtol=1e-5)


def descend(adam, steps):
    for _ in range(steps):
        adam.parameter.grad = torch.ones_like(adam.parameter)
        adam.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_steps_of_half_precision_add_up(dtype):
    """One step of 1e-6 vanishes beside 1 in half precision; ten thousand of them do not."""
    half, full = (Adam(torch.ones(3, dtype=kind), 1e-6, (0.9, 0.999), 0.0, 100.0) for kind in (dtype, torch.float32))
    for adam in (half, full):
        descend(adam, 10_000)
    assert half.parameter.dtype == dtype and float(full.parameter[0].detach()) == pytest.approx(0.99, abs=2e-4)
    assert torch.equal(half.parameter.detach(), full.parameter.detach().to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_optimiser_goes_on_from_its_state_to_the_bit(dtype):
    whole, first, second = (Adam(torch.ones(3, dtype=dtype), 1e-3, (0.9, 0.999), 0.1, 100.0) for _ in range(3))
    descend(whole, 9)
    descend(first, 4)
    second.restore("a", {name: value.clone() for name, value in first.state("a").items()})
    descend(second, 5)
    for name, value in whole.state("a").items():
        assert torch.equal(value, second.state("a")[name]), name
    assert ("a.master" in whole.state("a")) == (dtype == torch.bfloat16)
