"""The whole loop: every task, filter, context and dtype, and what a run records."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from plat_rl.embedded.train import train
from plat_rl.metric_names import METRICS

TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown")
ALWAYS = {
    *(f"rollout/{name}" for name in ("return_mean", "reward_std", "reward_var", "rv_std_over_mean", "success")),
    *(f"rollout/{name}" for name in ("zero_variance_prompts", "format_valid", "response_tokens", "entropy")),
    *(f"filter/{name}" for name in ("kept_prompts", "kept_share", "kept_mass", "empty", "loss_scale", "updates")),
    *(f"val/{name}" for name in ("success", "return", "turns", "format_valid", "response_tokens")),
    *(f"val/{name}" for name in ("actions_per_turn", "moves_per_turn")),
    *(f"probe/{name}" for name in ("retrieval_acc", "retrieval_chance", "h_z_given_x", "fluent")),
    *(f"mi/{scope}/mi_zscore_ema" for scope in ("first_turn", "trajectory")),
    *(f"actor/{name}" for name in ("pg_loss", "entropy", "grad_norm", "clip_fraction")),
    *(f"time/{name}" for name in ("rollout", "cross_score", "filter", "update", "eval", "probe", "step")),
    "mem/peak_mb",
}
HELD_OUT = {"heldout/success", "heldout/final_success", "heldout/peak_step"}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algorithm", ["ppo", "drgrpo"])
def test_every_task_runs_and_says_everything(compose, memory_io, task, algorithm):
    io = memory_io()
    outcome = train(compose(f"task={task}", f"algorithm={algorithm}"), io)
    assert outcome.kind == "finished"
    assert {key for key, step in io.metrics if step == 2} >= ALWAYS | HELD_OUT
    assert ("critic/value_loss", 1) in io.metrics or algorithm != "ppo"
    assert {key for key, _ in io.metrics} <= set(METRICS)
    at_start = {key for key, step in io.metrics if step == 0}
    assert {"val/success", "heldout/base_success", "probe/retrieval_acc", "probe/retrieval_untrained"} <= at_start
    assert ("probe/retrieval_untrained", 1) not in io.metrics
    assert all(math.isfinite(value) for (key, _), value in io.metrics.items() if key != "rollout/rv_std_over_mean")
    assert np.array(io.tables["reward_matrix", 1]).shape == (2, 4)
    for role, step in (("base", 0), ("peak", 2), ("final", 2)):
        table = io.tables[f"heldout_{role}", step]
        assert table["role"] == role and len(table["turns"]) == len(table["moves"]) == 8
    assert np.mean(io.tables["heldout_final", 2]["success"]) == io.metrics["heldout/final_success", 2]
    evaluated = io.tables["val_instances", 2]
    assert np.mean(evaluated["success"]) == io.metrics["val/success", 2]
    moves_per_turn = sum(evaluated["moves"]) / sum(evaluated["turns"])
    assert moves_per_turn == io.metrics["val/moves_per_turn", 2] <= io.metrics["val/actions_per_turn", 2]
    successes = [io.metrics["val/success", step] for step in range(3)]
    peak = int(np.argmax(successes))
    assert (
        io.metrics["heldout/peak_step", 2]
        == peak
        == outcome.summary["peak_step"]
        == max(step for step, (_, marked) in io.checkpoints.items() if marked)
    )
    assert outcome.summary["stand_in"] and outcome.summary["peak_success"] == successes[peak]


def test_an_empty_batch_changes_no_weights(compose, memory_io):
    io = memory_io()
    train(compose("filter=top_k", "filter.value=0", "filter.at_least_one=false", "algorithm=ppo"), io)
    first, last = (io.checkpoints[step][0].tensors["actor.parameters"] for step in (0, 2))
    assert torch.equal(first, last)
    assert io.metrics["filter/updates", 1] == 0 and io.metrics["filter/empty", 1] == 1


@pytest.mark.parametrize("rate", ["0.7", "1.0"])
def test_full_context_on_slippery_ice(compose, memory_io, rate):
    config = compose("task=frozenlake", f"+task.env.success_rate={rate}", "train.context=full", "algorithm=ppo")
    io = memory_io()
    assert train(config, io).kind == "finished"
    assert io.metrics["val/turns", 2] > 1
    assert {"mi/trajectory/mi_est", "mi/first_turn/mi_est"} <= {key for key, _ in io.metrics}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_dtypes_train(compose, memory_io, dtype):
    io = memory_io()
    assert train(compose("task=countdown", "algorithm=ppo", f"dtype={dtype}"), io).kind == "finished"
    assert io.checkpoints[2][0].tensors["actor.parameters"].dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    "name",
    [
        "top_k",
        "percentile",
        "top_p_softmax",
        "min_p",
        "within_group",
        "random_within_group",
        "top_k_abs",
        "length",
        "mixed",
    ],
)
def test_every_filter_runs(compose, memory_io, name):
    io = memory_io()
    config = compose("task=frozenlake", "algorithm=grpo", f"filter={name}", "train.prompts=4", "train.iterations=1")
    assert train(config, io).kind == "finished"
    assert 0 <= io.metrics["filter/kept_share", 1] <= 1


def test_instances_of_training_depend_on_the_seed(compose, memory_io):
    actual = []
    for seed in (0, 0, 1):
        io = memory_io()
        train(compose("task=frozenlake", f"seed={seed}", "train.iterations=1"), io)
        actual.append((io.history(), io.metrics["val/success", 0]))
    assert actual[0] == actual[1] != actual[2]
    assert actual[0][1] == actual[2][1]  # the base model on the fixed instances: another seed, the same


def test_no_iterations_evaluate_the_base_model(compose, memory_io):
    io = memory_io()
    outcome = train(compose("train.iterations=0"), io)
    assert outcome.kind == "finished" and outcome.summary["peak_step"] == 0
    assert io.metrics["heldout/success", 0] == io.metrics["heldout/base_success", 0]


WITHOUT_ITERATIONS = """
import sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import MemoryIO, compose_tiny
from plat_rl.embedded.train import train
print(train(compose_tiny("train.iterations=0"), MemoryIO(Path(sys.argv[2]))).kind)
print([name for name in ("verl", "ray", "transformers") if name in sys.modules])
"""


def test_a_run_without_iterations_does_not_import_verl(cache):
    """verl takes seconds to import, and only updates need it: an evaluation of the base model does not wait for it."""
    command = [sys.executable, "-c", WITHOUT_ITERATIONS, str(Path(__file__).parent), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-2:] == ["finished", "[]"], done.stdout + done.stderr


def test_without_held_out_instances_there_is_no_such_metric(compose, memory_io):
    io = memory_io()
    assert train(compose("eval.heldout=0", "train.iterations=1"), io).kind == "finished"
    assert not {"heldout/success", "heldout/base_success"} & {key for key, _ in io.metrics}


def test_the_base_every_second_evaluation_and_the_last_policy_are_probed(compose, memory_io):
    io = memory_io()
    train(compose("mi.probe_every=2", "train.iterations=5", "eval.every=1"), io)
    probed = {step for name, step in io.tables if name == "probe"}
    assert probed == {0, 2, 4, 5} == {step for key, step in io.metrics if key == "probe/retrieval_acc"}
    assert {step for key, step in io.metrics if key == "val/success"} == set(range(6))
