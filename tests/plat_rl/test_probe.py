"""The reasoning probe against one forward pass of transformers per pair, and its nulls."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plat.errors import SpecError
from plat.spec.expansion.experiment import build_run, config_object
from plat_envs.api import LEVELS, make_environment
from plat_rl.embedded.base_model.load import load_base
from plat_rl.embedded.probe import Probe, ProbeResult, Reasonings
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.transformer.model import initialise, unpack
from plat_rl.loop.randomness import FixedInstances, probe_instances

BLOCKS = 2


@pytest.fixture
def config(compose):
    return compose("task=frozenlake", f"mi.probe={8 * BLOCKS}", "train.temperature=0.8")


@pytest.fixture
def probe(config, policy):
    return Probe(config, policy.tokenizer, FixedInstances(config, "heldout", 8).problems)


def slow(policy, prompt, reasoning, temperature):
    whole = torch.tensor([[*prompt, *reasoning]])
    with torch.no_grad():
        logs = F.log_softmax(policy.reference(whole).logits[0, len(prompt) - 1 : -1] / temperature, -1)
    return float(logs.gather(-1, torch.tensor(reasoning)[:, None]).sum())


def test_it_is_what_a_slow_loop_says(probe, policy):
    reasonings = probe.draw(policy.weights, 3)
    result = probe.score(policy.weights, reasonings)
    environment = make_environment("frozenlake", split="heldout")
    instances = probe_instances(environment, probe.config, 3, probe.excluded)
    for n, length in enumerate(reasonings.lengths.tolist()):
        tokens = reasonings.tokens[n, :length].tolist()
        said = policy.tokenizer.decode(tokens)
        environment.reset(instances[n])
        level = environment.reasoning_level(said) if length else None
        assert result.levels[n] == (-1 if level is None else LEVELS.index(level))
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
    environment = make_environment("frozenlake", split="heldout")
    problems = {
        environment.reset(seed) and environment.problem
        for seed in probe_instances(environment, probe.config, 0, probe.excluded)
    }
    assert len(probe.excluded) == 8 and not probe.excluded & problems


def test_metrics_and_table_say_the_same():
    hits = np.array([1.0] * 4 + [0.5] * 4 + [0.125] * 8)
    entropies = np.array([2.0] * 6 + [math.nan] * 2 + [math.nan] * 8)
    levels = np.array([0, 2, 2, 2, 0] + [-1] * 11)
    result = ProbeResult(hits, entropies, levels)
    assert result.table() == {
        "block_size": 8,
        "hits": [6.0, 1.0],
        "fluent": [5, 0],
        "levels": {
            "template": {"count": [2, 0], "hits": [1.5, 0]},
            "one_fact": {"count": [0, 0], "hits": [0, 0]},
            "several_facts": {"count": [3, 0], "hits": [3.0, 0]},
            "wrong_facts": {"count": [0, 0], "hits": [0, 0]},
        },
        "h_z_given_x": [2.0, None],
    }
    assert result.metrics() == {
        "probe/retrieval_acc": 7 / 16,
        "probe/retrieval_chance": 1 / 8,
        "probe/valid_reasonings": 6.0,
        "probe/fluent": 5 / 16,
        "probe/facts_true": 1.0,
        "probe/h_z_given_x": 2.0,
        "probe/level/template": 2 / 16,
        "probe/level/one_fact": 0.0,
        "probe/level/several_facts": 3 / 16,
        "probe/level/wrong_facts": 0.0,
        "probe/retrieval_acc/template": 0.75,
        "probe/retrieval_acc/several_facts": 1.0,
    }
    silent = ProbeResult(np.full(8, 1 / 8), np.full(8, math.nan), np.full(8, -1))
    assert "probe/h_z_given_x" not in silent.metrics() and silent.table()["h_z_given_x"] == [None]


def test_a_policy_that_ignores_its_prompt_is_at_chance(probe, policy):
    """Attention that sees nothing of the prompt but its last token: exactly 1/8, by ties."""
    blind = replace(policy.weights, layers=[replace(layer, out=layer.out * 0) for layer in policy.weights.layers])
    result = probe.score(blind, probe.draw(blind, 0))
    assert result.hits.tolist() == [1 / 8] * len(result.hits)


def test_reasonings_that_tell_their_prompts_apart_are_retrieved(cache):
    """Facts of the state lead the smallest base that is shipped to most of their prompts, templates to none."""
    config = config_object(build_run(["task=frozenlake", "model=qwen2.5-0.5b"]), EmbeddedTrainer())
    base = load_base(config, cache)
    environment, rng, accuracy = make_environment("frozenlake", split="heldout"), random.Random(0), {}
    for level in ("template", "one_fact"):
        prompts, said = [], []
        for seed in range(128):
            prompts.append(tuple(base.tokenizer.prompt(environment.reset(seed))))
            said.append(base.tokenizer.encode(environment.demonstrate(rng, level).partition(" </think>")[0]))
        lengths = np.array([len(item) for item in said])
        tokens = np.array([item + [0] * (lengths.max() - len(item)) for item in said])
        reasonings = Reasonings(prompts, tokens, lengths, np.full(128, LEVELS.index(level)))
        result = Probe(config, base.tokenizer, set()).score(unpack(base.shape, base.parameters), reasonings)
        accuracy[level] = result.metrics()[f"probe/retrieval_acc/{level}"]
    assert accuracy["one_fact"] > 0.5 and accuracy["template"] < 0.3


def test_the_null_is_a_random_model_on_samples_as_long(probe, policy, monkeypatch):
    reasonings = probe.draw(policy.weights, 0)
    null = probe.untrained(policy.weights, reasonings)
    assert null == probe.untrained(policy.weights, reasonings)
    scored = []
    monkeypatch.setattr(Probe, "score", lambda self, weights, samples: scored.append((weights, samples)) or original)
    original = ProbeResult(np.zeros(16), np.zeros(16), np.zeros(16, dtype=np.int64))
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
    from plat_rl.embedded.train import train

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
