"""Our forward pass against transformers' Qwen2: logits, gradients, and every way of cutting a sequence in two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.generate import Decoder
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape, encode, extend, initialise, unpack

SHAPES = {
    "tied": Shape(50, 2, 32, 4, 4, 48),
    "untied": Shape(50, 2, 32, 4, 4, 48, tie_embeddings=False),
    "grouped": Shape(50, 3, 48, 4, 2, 64, rope_theta=1e6),
    "one-key-head": Shape(50, 1, 24, 6, 1, 40, eps=1e-5, tie_embeddings=False),
}
PROMPTS = [(3, 4, 5, 6, 7, 8, 9), (10, 11), (12, 13, 14, 15), (16,)]
RESPONSES = torch.tensor([[20, 21, 22, 23, 24], [30, 31, 32, 33, 34], [25, 26, 27, 28, 29], [5, 6, 7, 8, 9]])


@pytest.fixture(params=SHAPES.values(), ids=SHAPES.keys(), scope="module")
def pair(
    request: Any, tmp_path_factory: Any, reference: Any, lively_parameters: Any
) -> tuple[Shape, torch.Tensor, Any]:
    """A shape, parameters, and transformers' model with them."""
    shape = request.param
    flat = lively_parameters(shape)
    return shape, flat, reference(shape, flat, tmp_path_factory.mktemp("reference"))


def logits_of(model: Any, prompt: tuple[int, ...], response: torch.Tensor) -> torch.Tensor:
    """Logits that predict each response token, from one whole unpadded sequence."""
    whole = torch.tensor([[*prompt, *response.tolist()]])
    return model(whole).logits[0, len(prompt) - 1 : -1]


def ours(weights: Any, prompts: list[tuple[int, ...]], rows: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
    ids, lengths, last = pad_prompts(prompts, 0, "cpu")
    fed = torch.cat((last[rows, None], responses[:, :-1]), 1)
    return F.linear(extend(weights, encode(weights, ids, lengths), rows, fed), weights.head)


def test_a_whole_sequence_without_prompt(pair):
    shape, flat, model = pair
    ids = torch.randint(0, shape.vocabulary, (3, 11), generator=torch.Generator().manual_seed(1))
    weights = unpack(shape, flat)
    with torch.no_grad():
        logits = F.linear(extend(weights, None, None, ids), weights.head)
        torch.testing.assert_close(logits, model(ids).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("prompts", [PROMPTS, [PROMPTS[0], PROMPTS[0][::-1]], PROMPTS[3:]], ids=["mixed", "equal", "1"])
def test_continuations_of_shared_prompts(pair, prompts):
    """Several responses per prompt, in any order, on prompts of different lengths and of one length."""
    shape, flat, model = pair
    rows = torch.arange(6) % len(prompts)
    responses = RESPONSES[torch.arange(6) % 4]
    with torch.no_grad():
        actual = ours(unpack(shape, flat), prompts, rows, responses)
        wanted = [logits_of(model, prompts[row], response) for row, response in zip(rows, responses, strict=True)]
    torch.testing.assert_close(actual, torch.stack(wanted), atol=1e-5, rtol=0)


@pytest.mark.parametrize("prompts", [PROMPTS, [PROMPTS[0], PROMPTS[0][::-1]]], ids=["mixed", "equal"])
def test_the_decoder_step_by_step_also_after_a_selection(pair, prompts):
    shape, flat, model = pair
    weights = unpack(shape, flat)
    rows = torch.arange(4) % len(prompts)
    with torch.inference_mode():
        ids, lengths, last = pad_prompts(prompts, 0, "cpu")
        decoder = Decoder(weights, encode(weights, ids, lengths), rows, 5)
        fed = torch.cat((last[rows, None], RESPONSES), 1)
        keep = torch.tensor([2, 0])
        for at in range(5):
            if at == 3:
                decoder.select(keep)
            alive = range(4) if at < 3 else keep.tolist()
            logits = decoder.step(fed[list(alive), at])
            for line, row in enumerate(alive):
                wanted = logits_of(model, prompts[rows[row]], RESPONSES[row])[at]
                torch.testing.assert_close(logits[line], wanted, atol=1e-5, rtol=0)


def test_gradients_of_every_parameter(pair):
    shape, flat, model = pair
    rows = torch.arange(4)
    parameter = flat.clone().requires_grad_()
    scores = ours(unpack(shape, parameter), PROMPTS, rows, RESPONSES)
    F.cross_entropy(scores.flatten(0, 1), RESPONSES.flatten()).backward()

    model.zero_grad()
    wanted = torch.cat([logits_of(model, PROMPTS[row], RESPONSES[row]) for row in range(4)])
    F.cross_entropy(wanted, RESPONSES.flatten()).backward()
    theirs = {name: weight.grad for name, weight in model.named_parameters()}
    actual = hf.to_state_dict(shape, parameter.grad)
    assert set(actual) == set(theirs)
    for name, gradient in actual.items():
        torch.testing.assert_close(
            gradient, theirs[name], atol=2e-6, rtol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.bfloat16, 0.06)])
def test_other_dtypes_stay_near_float32(dtype, tolerance, lively_parameters):
    shape = SHAPES["grouped"]
    flat = lively_parameters(shape)
    rows = torch.arange(4)
    with torch.no_grad():
        exact = ours(unpack(shape, flat), PROMPTS, rows, RESPONSES).double()
        actual = ours(unpack(shape, flat.to(dtype)), PROMPTS, rows, RESPONSES)
    assert actual.dtype == dtype
    assert float((actual.double() - exact).norm() / exact.norm()) < tolerance


def test_a_shape_counts_its_parameters(pair):
    shape, flat, model = pair
    assert shape.parameters == flat.numel() == sum(weight.numel() for weight in model.parameters())


def test_initialisation_depends_on_the_seed_alone():
    shape = SHAPES["tied"]
    assert torch.equal(initialise(shape, 3), initialise(shape, 3))
    assert not torch.equal(initialise(shape, 3), initialise(shape, 4))
    state = hf.to_state_dict(shape, initialise(shape, 0))
    assert bool((state["model.norm.weight"] == 1).all())
    assert bool((state["model.layers.0.self_attn.q_proj.bias"] == 0).all())


def test_parameters_fit_the_flat_vector_of_a_path(tmp_path: Path):
    """`entries` covers the flat vector without gaps: reading back gives the same bits."""
    for shape in SHAPES.values():
        flat = torch.arange(shape.parameters, dtype=torch.float32)
        assert torch.equal(hf.from_state_dict(shape, hf.to_state_dict(shape, flat)), flat)
