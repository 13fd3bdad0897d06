"""The reasoning probe against one forward pass of transformers per pair, and its nulls."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plat.errors import SpecError
from plat.trainer.embedded.evaluate import FixedInstances
from plat.trainer.embedded.probe import Probe, ProbeResult
from plat.trainer.embedded.transformer.model import initialise, unpack
from plat_envs.api import make_environment

BLOCKS = 2


@pytest.fixture
def config(compose):
    return compose("task=frozenlake", f"mi.probe={8 * BLOCKS}", "train.temperature=0.8")


@pytest.fixture
def probe(config, policy):
    return Probe(config, policy.tokenizer, FixedInstances(config, "heldout", 8).observations())


def slow(policy, prompt, reasoning, temperature):
    whole = torch.tensor([[*prompt, *reasoning]])
    with torch.no_grad():
        logs = F.log_softmax(policy.reference(whole).logits[0, len(prompt) - 1 : -1] / temperature, -1)
    return float(logs.gather(-1, torch.tensor(reasoning)[:, None]).sum())


def test_it_is_what_a_slow_loop_says(probe, policy):
    reasonings = probe.draw(policy.weights, 3)
    result = probe.score(policy.weights, reasonings)
    environment = make_environment("frozenlake", split="heldout")
    for n, length in enumerate(reasonings.lengths.tolist()):
        tokens = reasonings.tokens[n, :length].tolist()
        said = policy.tokenizer.decode(tokens)
        assert result.fluent[n] == (length > 0 and environment.reasoning_parses(said))
        if length == 0:
            assert result.hits[n] == 1 / 8 and math.isnan(result.h_z_given_x[n])
            continue
        block = reasonings.prompts[n // 8 * 8 : n // 8 * 8 + 8]
        scores = [slow(policy, prompt, tokens, 0.8) for prompt in block]
        assert result.h_z_given_x[n] == pytest.approx(-scores[n % 8] / length, abs=1e-4)
        others = scores[: n % 8] + scores[n % 8 + 1 :]
        if min(abs(scores[n % 8] - other) for other in others) > 1e-3:
            assert result.hits[n] == (scores[n % 8] > max(others))
    assert (reasonings.lengths > 0).sum() > BLOCKS  # something was compared


def test_instances_are_fresh_distinct_and_functions_of_seed_and_step(compose, probe, policy):
    first = probe.draw(policy.weights, 0)
    same, later = probe.draw(policy.weights, 0), probe.draw(policy.weights, 10)
    assert first.prompts == same.prompts and np.array_equal(first.tokens, same.tokens)
    assert not np.array_equal(first.prompts, later.prompts)
    other_seed = Probe(compose("task=frozenlake", "mi.probe=16", "seed=1"), policy.tokenizer, set())
    assert first.prompts != other_seed.draw(policy.weights, 0).prompts
    for block in range(BLOCKS):
        assert len(set(first.prompts[block * 8 : block * 8 + 8])) == 8
    heldout = {tuple(policy.tokenizer.prompt(text)) for text in probe.excluded}
    assert len(heldout) == 8 and not heldout & set(first.prompts)


def test_metrics_and_table_say_the_same():
    hits = np.array([1.0] * 4 + [0.5] * 4 + [0.125] * 8)
    entropies = np.array([2.0] * 6 + [math.nan] * 2 + [math.nan] * 8)
    result = ProbeResult(hits, entropies, np.array([True] * 5 + [False] * 11))
    assert result.table() == {
        "block_size": 8,
        "hits": [6.0, 1.0],
        "fluent": [5, 0],
        "h_z_given_x": [2.0, None],
    }
    assert result.metrics() == {
        "probe/retrieval_acc": 7 / 16,
        "probe/retrieval_chance": 1 / 8,
        "probe/fluent": 5 / 16,
        "probe/h_z_given_x": 2.0,
    }
    silent = ProbeResult(np.full(8, 1 / 8), np.full(8, math.nan), np.zeros(8, dtype=bool))
    assert "probe/h_z_given_x" not in silent.metrics() and silent.table()["h_z_given_x"] == [None]


def test_a_policy_that_ignores_its_prompt_is_at_chance(probe, policy):
    """Attention that sees nothing of the prompt but its last token: exactly 1/8, by ties."""
    blind = replace(policy.weights, layers=[replace(layer, out=layer.out * 0) for layer in policy.weights.layers])
    result = probe.score(blind, probe.draw(blind, 0))
    assert result.hits.tolist() == [1 / 8] * len(result.hits)


def test_reasonings_that_tell_their_prompts_apart_are_retrieved(config, policy):
    """Grounded demonstrations name facts of the state: the base model finds the prompts of most of them."""
    import random

    from plat.trainer.embedded.probe import Reasonings

    environment, rng, prompts, said = make_environment("frozenlake", split="heldout"), random.Random(0), [], []
    for seed in range(64):
        prompts.append(tuple(policy.tokenizer.prompt(environment.reset(seed))))
        said.append(policy.tokenizer.encode(environment.demonstrate(rng, True).partition(" </think>")[0]))
    lengths = np.array([len(item) for item in said])
    tokens = np.array([item + [0] * (lengths.max() - len(item)) for item in said])
    probe = Probe(config, policy.tokenizer, set())
    hits = probe.score(policy.weights, Reasonings(prompts, tokens, lengths, np.ones(64, dtype=bool))).hits
    assert hits.mean() > 0.3


def test_the_null_is_a_random_model_on_samples_as_long(probe, policy, monkeypatch):
    reasonings = probe.draw(policy.weights, 0)
    null = probe.untrained(policy.weights, reasonings)
    assert null == probe.untrained(policy.weights, reasonings)
    scored = []
    monkeypatch.setattr(Probe, "score", lambda self, weights, samples: scored.append((weights, samples)) or original)
    original = ProbeResult(np.zeros(16), np.zeros(16), np.zeros(16, dtype=bool))
    probe.untrained(policy.weights, reasonings)
    ((weights, samples),) = scored
    assert np.array_equal(samples.lengths, reasonings.lengths) and samples.prompts == reasonings.prompts
    assert samples.tokens.shape[1] == reasonings.lengths.max()
    assert weights.shape == policy.shape and not torch.equal(weights.embed, policy.weights.embed)
    assert not np.array_equal(samples.tokens[0, :1], reasonings.tokens[0, :1]) or len(np.unique(samples.tokens)) > 20


def test_an_untrained_policy_is_near_its_own_null(compose, policy):
    config = compose("task=frozenlake", "mi.probe=512")
    probe = Probe(config, policy.tokenizer, set())
    untrained = unpack(policy.shape, initialise(policy.shape, 5))
    reasonings = probe.draw(untrained, 0)
    result = probe.score(untrained, reasonings)
    assert result.metrics()["probe/fluent"] == 0.0
    assert result.hits.mean() <= probe.untrained(untrained, reasonings) + 0.1


def test_the_probe_does_not_touch_training(compose, memory_io):
    from plat.trainer.embedded.train import train

    histories = []
    for count in (0, 16):
        io = memory_io()
        train(compose("task=frozenlake", f"mi.probe={count}"), io)
        histories.append({key: value for key, value in io.history().items() if not key[0].startswith("probe/")})
        assert ((f"probe/{'fluent'}", 0) in io.metrics) == (count > 0)
    assert histories[0] == histories[1]


def test_a_probe_that_is_no_number_of_blocks_is_refused(compose):
    with pytest.raises(SpecError, match="blocks of 8") as error:
        compose("mi.probe=12")
    assert "mi.probe" in str(error.value.where)
