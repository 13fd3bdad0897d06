"""Cross-scoring against one forward pass of transformers per pair, and the EMA across a resume."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plat_rl.embedded import scoring
from plat_rl.embedded.scoring import log_likelihoods, measure
from plat_rl.rl.config import MIConfig


def slow(policy, prompt, reasoning, temperature):
    whole = torch.tensor([[*prompt, *reasoning]])
    with torch.no_grad():
        logs = F.log_softmax(policy.reference(whole).logits[0, len(prompt) - 1 : -1] / temperature, -1)
    return float(logs.gather(-1, torch.tensor(reasoning)[:, None]).sum())


@pytest.mark.parametrize("task", ["frozenlake", "metamathqa"])  # prompts of one length, and of several
@pytest.mark.parametrize(("temperature", "chunk"), [(1.0, 2048), (0.7, 5)])
def test_the_matrix_is_that_of_a_slow_loop(compose, play, policy, monkeypatch, task, temperature, chunk):
    monkeypatch.setattr(scoring, "CHUNK", chunk)
    batch = play(compose(f"task={task}"), groups=3, size=4)
    rows = np.flatnonzero(batch.reasoning_length > 0)[:10]
    rows = np.concatenate((rows, rows[:2]))  # repeated reasonings
    lengths = batch.reasoning_length[rows]
    prompts = [batch.prompts[number] for number in dict.fromkeys(batch.prompt_of_row[rows].tolist())][:5]
    actual = log_likelihoods(policy.weights, prompts, batch.responses[rows], lengths, 0, temperature)
    assert actual.shape == (len(rows), len(prompts)) and actual.dtype == torch.float64
    for i, row in enumerate(rows):
        for m, prompt in enumerate(prompts):
            wanted = slow(policy, prompt, batch.responses[row, : lengths[i]].tolist(), temperature)
            assert float(actual[i, m]) == pytest.approx(wanted, abs=1e-4)


def test_the_own_column_is_what_the_rollout_recorded(compose, play, policy):
    batch = play(compose("task=frozenlake"), groups=3, size=4)
    rows = np.flatnonzero(batch.reasoning_length > 0)
    lengths = batch.reasoning_length[rows]
    actual = log_likelihoods(policy.weights, batch.prompts, batch.responses[rows], lengths, 0)
    own = actual[np.arange(len(rows)), batch.prompt_of_row[rows]].numpy()
    wanted = [batch.log_probs[row, :length].sum() for row, length in zip(rows, lengths, strict=True)]
    np.testing.assert_allclose(own, wanted, atol=1e-4)


def test_both_scopes_are_measured_and_the_ema_survives_a_resume(compose, play, policy):
    config = MIConfig(samples=8)
    first, second = (play(compose("task=frozenlake"), groups=3, size=4, key=(key,)) for key in (1, 2))

    def score(batch, ema):
        return measure(policy.weights, batch, config, ema, 0, 1.0, np.random.default_rng(5))

    whole = {}
    single, two = score(first, whole), score(second, whole)
    resumed = {}
    assert score(first, resumed) == single
    assert score(second, json.loads(json.dumps(resumed))) == two
    assert score(second, {}) != two
    for scope in ("first_turn", "trajectory"):
        assert {f"mi/{scope}/retrieval_acc", f"mi/{scope}/mi_est", f"mi/{scope}/mi_zscore_ema_code"} <= set(single)
        assert single[f"mi/{scope}/mi_est"] <= single[f"mi/{scope}/upper_bound"]
    assert single["mi/first_turn/upper_bound"] == pytest.approx(math.log(3))
    assert all(map(math.isfinite, single.values()))


def test_scopes_can_be_switched_off_and_nothing_to_compare_is_nothing(compose, play, policy):
    batch = play(compose("task=countdown"), groups=2, size=3)

    def score(batch, **options):
        config = MIConfig(samples=8, **options)
        return measure(policy.weights, batch, config, {}, 0, 1.0, np.random.default_rng(0))

    assert {name.split("/")[1] for name in score(batch, trajectory=False)} == {"first_turn"}
    assert {name.split("/")[1] for name in score(batch, first_turn=False)} == {"trajectory"}
    assert score(batch.select(np.arange(3))) == {}  # one prompt
    batch.reasoning_length[:] = -1
    assert score(batch) == {}  # no reasoning
