"""The flat pass of an update against `encode` and `extend` under plain autograd, in float64."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plat_rl.embedded import scoring
from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.transformer import flat_pass
from plat_rl.embedded.transformer.attention import SMALL
from plat_rl.embedded.transformer.flat_pass import distinct_beginnings, fits, hidden_states
from plat_rl.embedded.transformer.model import Shape, encode, extend, unpack

SHAPES = {
    "two layers": Shape(40, 2, 16, 4, 4, 24),
    "shared keys": Shape(40, 3, 24, 6, 2, 20),
    "one layer, own head": Shape(40, 1, 16, 2, 1, 24, tie_embeddings=False),
}
PAD = 0


def batch_of(prompt_lengths, response_lengths, seed=0):
    """Random prompts and responses; row b continues prompt b modulo their number."""
    rng = np.random.default_rng(seed)
    prompts = [tuple(rng.integers(1, 40, length).tolist()) for length in prompt_lengths]
    responses = rng.integers(1, 40, (len(response_lengths), max(response_lengths)))
    lengths = np.array(response_lengths)
    responses[np.arange(responses.shape[1]) >= lengths[:, None]] = PAD
    return SimpleNamespace(
        prompts=prompts, prompt_of_row=np.arange(len(lengths)) % len(prompts), responses=responses,
        response_length=lengths,
    )  # fmt: skip


def row_by_row(weights, batch):
    """What `hidden_states` promises, one response at a time."""
    parts = []
    for row, length in enumerate(batch.response_length):
        ids, _, last = pad_prompts([batch.prompts[batch.prompt_of_row[row]]], PAD, "cpu")
        fed = torch.cat((last[:, None], torch.from_numpy(batch.responses[row : row + 1, : length - 1])), 1)
        prefix = encode(weights, ids)
        parts.append(extend(weights, prefix, torch.zeros(1, dtype=torch.long), fed)[0])
    return torch.cat(parts)


BATCHES = {
    "equal prompts, equal responses": ([5, 5], [4, 4, 4]),
    "equal prompts": ([5, 5], [3, 1, 6, 2]),
    "prompts of other lengths": ([3, 7, 5], [3, 1, 6, 2, 6]),
    "responses of one token": ([3, 4], [1, 1]),
}


@pytest.mark.parametrize("worth", [0, 1, 10_000], ids=["every length apart", "similar lengths", "one block"])
@pytest.mark.parametrize("sizes", BATCHES.values(), ids=BATCHES.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_states_and_gradients_are_those_of_encode_and_extend(lively_parameters, monkeypatch, shape, sizes, worth):
    monkeypatch.setattr(flat_pass, "WORTH", worth)
    batch = batch_of(*sizes)
    results = []
    for function in (lambda weights: hidden_states(weights, batch, PAD), lambda weights: row_by_row(weights, batch)):
        flat = lively_parameters(shape).double().requires_grad_()
        states = function(unpack(shape, flat))
        direction = torch.randn(states.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        (states * direction).sum().backward()
        results.append((states.detach(), flat.grad))
    for fast, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow, atol=1e-10, rtol=1e-8)
    assert float(results[0][1].abs().max()) > 1e-3


def test_without_a_gradient_the_states_are_the_same(lively_parameters):
    shape = SHAPES["two layers"]
    flat = lively_parameters(shape).requires_grad_()
    batch = batch_of([3, 7, 5], [3, 1, 6, 2, 6])
    with torch.no_grad():
        states = hidden_states(unpack(shape, flat), batch, PAD)
    assert torch.equal(states, hidden_states(unpack(shape, flat), batch, PAD).detach())


def test_a_batch_whose_attention_does_not_fit_is_left_to_extend(lively_parameters):
    shape = SHAPES["two layers"]
    flat = lively_parameters(shape)
    batch = batch_of([5], [4, 4])
    assert fits(unpack(shape, flat), batch)
    assert not fits(unpack(shape, flat.bfloat16()), batch)
    batch.response_length = np.full(SMALL // (4 * 4 * 9) + 1, 4)
    assert not fits(unpack(shape, flat), batch)


@pytest.mark.parametrize("name", ["flat pass", "groups of similar length"])
def test_scores_of_a_rollout_do_not_depend_on_how_they_are_computed(compose, play, policy, monkeypatch, name):
    """Both ways give what the rollout recorded."""
    batch = play(compose("task=frozenlake"))
    if name != "flat pass":
        monkeypatch.setattr(flat_pass, "fits", lambda *_: False)
    log_probs, entropies = scoring.token_log_probs(policy.weights, batch, policy.tokenizer.pad, 1.0)
    np.testing.assert_allclose(log_probs.detach().numpy(), batch.log_probs[batch.token_mask], atol=1e-4)
    np.testing.assert_allclose(entropies.detach().numpy(), batch.entropies[batch.token_mask], atol=1e-4)


def test_beginnings_that_prompts_share_have_one_number():
    ids = np.array([[5, 1, 2], [5, 1, 3], [4, 1, 2], [5, 2, 2]])
    number, first = distinct_beginnings(ids)
    beginnings = [tuple(row[: end + 1]) for row in ids.tolist() for end in range(3)]
    assert len(first) == len(set(beginnings)) == 9
    assert [beginnings[place] for place in first[number]] == beginnings


def test_prompts_of_one_token_have_no_beginnings():
    number, first = distinct_beginnings(np.zeros((3, 0), dtype=np.int64))
    assert not len(number) and not len(first)
