"""What the shipped bases can do before training: the order of their sizes, and retrieval within levels of reasoning.

`pytest -m science tests/plat_rl/base_model/test_what_bases_can_do.py` plays all sizes, builds and tasks.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from plat.spec.expansion.experiment import build_run, config_object
from plat_envs.api import LEVELS
from plat_rl.embedded.base_model import base_record
from plat_rl.embedded.base_model.load import load_base
from plat_rl.embedded.evaluate import evaluate
from plat_rl.embedded.probe import Probe
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.transformer.model import unpack
from plat_rl.loop.randomness import FixedInstances

TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown")
SIZES = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b")
BUILDS = (0, 1, 2)
every_task = pytest.mark.parametrize("task", TASKS)


def shipped(size, build, task, *overrides):
    """(config, weights, tokenizer) of a base that travels with the package: nothing is built here."""
    run = build_run([f"task={task}", f"model={size}", f"model.base.seed={build}", "train.iterations=0", *overrides])
    config = config_object(run, EmbeddedTrainer())
    assert base_record.shipped_base(config.model) is not None, f"{size}, build {build} does not travel with the package"
    base = load_base(config, Path("unused"))
    return config, unpack(base.shape, base.parameters), base.tokenizer


@cache
def success(size, build, task, count):
    """Held-out success of a base."""
    config, weights, tokenizer = shipped(size, build, task)
    return evaluate(weights, tokenizer, config, FixedInstances(config, "heldout", count))[0]["success"]


@pytest.mark.parametrize(("size", "build"), list(product(SIZES, BUILDS)))
def test_three_builds_of_every_size_travel_with_the_package(size, build):
    shipped(size, build, "sokoban")


@every_task
def test_the_largest_does_better_than_the_smallest(task):
    assert success("qwen2.5-7b", 0, task, 256) > success("qwen2.5-0.5b", 0, task, 256)


@pytest.mark.science
@every_task
@pytest.mark.parametrize("larger", SIZES[1:])
def test_every_size_does_better_than_the_smallest(task, larger):
    """A difference of means over three builds, above zero by Welch's t at one-sided 5 %."""
    sides = [[success(size, build, task, 512) for build in BUILDS] for size in (SIZES[0], larger)]
    test = stats.ttest_ind(sides[1], sides[0], equal_var=False, alternative="greater")
    print(f"{task}, {SIZES[0]} {np.mean(sides[0]):.3f}, {larger} {np.mean(sides[1]):.3f}, p {test.pvalue:.4f}")
    assert test.pvalue < 0.05


@every_task
def test_retrieval_is_at_chance_within_templates_and_above_it_within_facts(task):
    """The whole is what the shares of the levels make of these."""
    config, weights, tokenizer = shipped("qwen2.5-3b", 0, task, "mi.probe=512")
    probe = Probe(config, tokenizer, set())
    result = probe.score(weights, probe.draw(weights, 0))
    metrics, chance = result.metrics(), 1 / 8
    templates = result.hits[result.levels == LEVELS.index("template")]
    factual = result.hits[result.levels > LEVELS.index("template")]
    assert len(templates) > 200 and abs(templates.mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / len(templates))
    assert len(factual) > 150 and factual.mean() > 2 * chance
    assert templates.mean() < metrics["probe/retrieval_acc"] < factual.mean()
    others = result.hits[result.levels < 0].sum() / len(result.hits)
    parts = [metrics[f"probe/level/{level}"] * metrics.get(f"probe/retrieval_acc/{level}", 0.0) for level in LEVELS]
    assert metrics["probe/retrieval_acc"] == pytest.approx(sum(parts) + others)
