"""Base models that were not trained any further are never called collapsed, in runs of the real trainer.

The science test takes many small builds on all tasks, 50 unless PLAT_TEST_BUILDS says otherwise, and prints the count:
`pytest -m science -s tests/plat_rl/test_untrained_regimes.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from plat.spec.expansion.experiment import build_run, config_object
from plat.store.mlflow.frames import Frames
from plat_analysis.data.results import Results
from plat_ragen2.regimes.regime import COLLAPSED, DIVERSE, UNKNOWN, Thresholds
from plat_ragen2.regimes.regime_table import run_regime
from plat_rl.embedded.base_model.load import build
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.train import train

TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown")
STEPS = (1, 20, 150, 600)  # of supervised training: from a model that knows nothing to one that tells inputs apart
BUILDS = int(os.environ.get("PLAT_TEST_BUILDS", "50"))


def overrides(build_seed: int, task: str, iterations: int) -> list[str]:
    """A small run that learns nothing: with one iteration its rate is zero, so its second probe is of the same
    policy."""
    return [
        "scale=smoke",
        f"task={task}",
        "model.shape.width=32",
        f"model.base.seed={build_seed}",
        f"model.base.steps={STEPS[build_seed % len(STEPS)]}",
        f"train.iterations={iterations}",
        "train.lr=0",
        "train.critic_lr=0",
        "eval.instances=64",
        "eval.heldout=0",
        "mi.every=0",
        "mi.probe=512",
        f"seed={build_seed}",
    ]


def regime_of(memory_io, cache: Path, build_seed: int, task: str, iterations: int):
    """The regime of one such run, by the way from the trainer's tables through the report's own functions."""
    run = build_run(overrides(build_seed, task, iterations))
    build(config_object(run, EmbeddedTrainer()).model, cache / "bases")
    return regime_of_run(run, memory_io())


def regime_of_run(run, io):
    config = config_object(run, EmbeddedTrainer())
    outcome = train(config, io)
    metrics = [(run.id, key, step, value) for (key, step), value in io.metrics.items()]
    tables = [(run.id, name, step, data) for (name, step), data in io.tables.items()]
    frames = Frames(
        runs=pd.DataFrame(
            [
                {
                    "run_id": run.id,
                    "outcome": outcome.kind,
                    "tag.plat.summary.vocabulary": str(outcome.summary["vocabulary"]),
                }
            ]
        ),
        metrics=pd.DataFrame(metrics, columns=["run_id", "key", "step", "value"]),
        tables=pd.DataFrame(tables, columns=["run_id", "name", "step", "data"]),
    )
    results = Results(frames, SimpleNamespace(runs=[run], cells=[(run.axes, run.id)]))
    return run_regime(results, results.runs[0], Thresholds()).regime


@pytest.mark.parametrize("iterations", [0, 1])
def test_an_untrained_base_is_never_called_collapsed(memory_io, cache, iterations):
    for build_seed, task in ((0, "sokoban"), (1, "countdown")):
        regime = regime_of(memory_io, cache, build_seed, task, iterations)
        assert regime.name not in (*COLLAPSED, UNKNOWN), regime


def test_a_base_that_travels_with_the_package_is_diverse_until_it_is_trained(memory_io):
    unchanged = ["train.iterations=1", "train.lr=0", "train.critic_lr=0", "train.prompts=2", "train.group_size=2"]
    smaller = ["eval.instances=64", "eval.heldout=0", "eval.every=1", "mi.every=0", "train.mini_batches=1"]
    run = build_run(["task=sokoban", "model=qwen2.5-1.5b", *unchanged, *smaller])
    assert str(regime_of_run(run, memory_io())) == DIVERSE


@pytest.mark.science
def test_many_untrained_bases_are_never_called_collapsed(memory_io, cache):
    counts = Counter(
        regime_of(memory_io, cache, build_seed, task, iterations=1).name
        for build_seed in range(BUILDS)
        for task in TASKS
    )
    print(f"{BUILDS} builds x {len(TASKS)} tasks: {dict(counts)}")
    assert sum(counts.values()) == BUILDS * len(TASKS)
    assert not set(counts) & {*COLLAPSED, UNKNOWN}, counts
