"""The whole loop: every task, resumes that leave no trace, early stops, both contexts, and `plat eval`."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from plat.errors import RunError, SpecError
from plat.trainer.embedded.evaluate import evaluate, evaluate_checkpoint
from plat.trainer.embedded.train import train

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


RESUMED = {
    "ppo": ("task=frozenlake", "algorithm=ppo", "train.critic_warmup=1"),
    "dapo": ("task=frozenlake", "algorithm=dapo", "train.group_size=2", "train.mini_batches=1"),
    "filter": ("task=frozenlake", "algorithm=grpo", "algorithm.kl_coef=0.01", "filter=top_p", "train.prompts=4"),
    "random": ("task=frozenlake", "algorithm=grpo", "filter=random", "filter.kept=as_top_p", "train.prompts=4"),
}
LONG = ("train.iterations=6", "train.checkpoint_every=2", "eval.every=3", "mi.every=2")


@pytest.mark.parametrize("options", RESUMED.values(), ids=RESUMED.keys())
def test_a_run_stopped_at_every_step_and_resumed_is_the_same(compose, memory_io, options):
    config = compose(*options, *LONG)
    whole, io = memory_io(), memory_io(*range(7))
    assert train(config, whole).kind == "finished"
    stops = 0
    while train(config, io).kind == "interrupted":
        io = io.resumed(io.stop_at)
        stops += 1
    assert stops == 6
    assert io.history() == whole.history()
    assert io.tables == whole.tables
    assert io.final() == whole.final()
    if "algorithm=dapo" in options:
        assert sum(value for (key, _), value in whole.metrics.items() if key == "rollout/refills") > 0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("when", [1, 2, 3, 5, 6])
def test_a_run_killed_between_checkpoints_is_the_same(compose, memory_io, when):
    """The kill comes after the metrics of a step and before its checkpoint: they are lost, and done again."""
    config = compose("task=frozenlake", "algorithm=ppo", *LONG)
    whole, io = memory_io(), memory_io()
    train(config, whole)

    def log(step, metrics, kept=io.log):
        kept(step, metrics)
        if step == when:
            raise Killed

    io.log = log
    with pytest.raises(Killed):
        train(config, io)
    io = io.resumed()
    assert train(config, io).kind == "finished"
    assert io.history() == whole.history() and io.tables == whole.tables and io.final() == whole.final()


PROCESS = """
import hashlib, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import MemoryIO, compose_tiny
from plat.trainer.embedded.train import train
io = MemoryIO(Path(sys.argv[2]))
train(compose_tiny(*sys.argv[3:]), io)
said = json.dumps([sorted(map(str, io.history().items())), sorted(map(str, io.tables.items()))])
print(hashlib.sha256(said.encode() + b"".join(io.final()[name] for name in sorted(io.final()))).hexdigest())
"""


def test_two_processes_give_the_same_bits(cache, request):
    options = ("task=frozenlake", "algorithm=ppo", "train.prompts=4")
    command = [sys.executable, "-c", PROCESS, str(request.path.parent), str(cache), *options]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONHASHSEED": str(seed)})
        for seed in (1, 2)
    ]
    said = [process.communicate(timeout=120)[0].splitlines()[-1] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert said[0] == said[1] and len(said[0]) == 64


STOPS = {
    "low_success": ("early_stop.success_floor=1.0", "early_stop.success_window=2", "eval.instances=4"),
    "reward_variance_collapse": (
        "early_stop.variance_fraction=100",
        "early_stop.variance_baseline=1",
        "early_stop.variance_window=1",
    ),
    "empty_batches": ("filter=top_k", "filter.value=0", "filter.at_least_one=false", "early_stop.empty_window=2"),
}


@pytest.mark.parametrize(("reason", "options"), STOPS.items(), ids=STOPS.keys())
def test_an_early_stop_is_an_outcome_and_the_same_after_a_resume(compose, memory_io, reason, options):
    quiet = ("early_stop.success_window=0", "early_stop.variance_window=0", "early_stop.empty_window=0")
    config = compose("task=frozenlake", "algorithm=grpo", *quiet, "train.iterations=8", "eval.every=1", *options)
    config.early_stop.variance_fraction = max(config.early_stop.variance_fraction, 0.1)
    whole, io = memory_io(), memory_io(*range(9))
    outcome = train(config, whole)
    assert outcome.kind == f"stopped:{reason}"
    last = max(step for _, step in whole.metrics)
    assert 1 <= last < 8
    assert ("heldout/success", last) in whole.metrics and ("val/success", last) in whole.metrics
    while (actual := train(config, io)).kind == "interrupted":
        io = io.resumed(io.stop_at)
    assert actual == outcome and io.history() == whole.history() and io.final() == whole.final()
    again = io.resumed()  # killed between the last checkpoint and the result
    assert train(config, again) == outcome and again.history() == whole.history()


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
    "name", ["top_k", "percentile", "top_p_softmax", "min_p", "within_group", "top_k_abs", "length"]
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


def test_without_held_out_instances_there_is_no_such_metric(compose, memory_io):
    io = memory_io()
    assert train(compose("eval.heldout=0", "train.iterations=1"), io).kind == "finished"
    assert not {"heldout/success", "heldout/base_success"} & {key for key, _ in io.metrics}


def test_a_checkpoint_of_another_step_is_refused(compose, memory_io):
    io = memory_io()
    train(compose("train.iterations=1"), io)
    state, peak = io.checkpoints[1]
    state.meta["step"] = 0
    io.checkpoints = {1: (state, peak)}
    with pytest.raises(RunError, match="says it is of step 0"):
        train(compose("train.iterations=1"), io.resumed())


class DamagedPeak:
    """Mixed into a RunIO whose newest peak checkpoint does not load."""

    def __init__(self, io):
        self.io = io

    def __getattr__(self, name):
        return getattr(self.io, name)

    def load_peak(self):
        newest = max(step for step, (_, peak) in self.io.checkpoints.items() if peak)
        left = {step: kept for step, kept in self.io.checkpoints.items() if step != newest}
        peaks = [step for step, (_, peak) in left.items() if peak]
        return (max(peaks), left[max(peaks)][0]) if peaks else None


def test_an_older_checkpoint_never_passes_for_the_peak(compose, memory_io, monkeypatch):
    """Success .1, .5, .3: with the checkpoint of step 1 damaged, that of step 0 must not be called the peak."""
    successes = iter([0.1, 0.5, 0.3])

    def rigged(weights, tokenizer, config, instances):
        metrics, batch = evaluate(weights, tokenizer, config, instances)
        return metrics | ({"success": next(successes)} if instances.split == "validation" else {}), batch

    monkeypatch.setattr("plat.trainer.embedded.train.evaluate", rigged)
    with pytest.raises(RunError, match=r"peak checkpoint of step 1 .* of step 0") as error:
        train(compose("eval.every=1"), DamagedPeak(memory_io()))
    assert error.value.mend
    successes = iter([0.5, 0.1, 0.3])
    with pytest.raises(RunError, match=r"peak checkpoint of step 0 .*none is left"):
        train(compose("eval.every=1"), DamagedPeak(memory_io()))


def test_the_final_policy_is_held_out_beside_the_peak(compose, memory_io, cache, monkeypatch):
    """A run whose first evaluation was its best one: peak is the base model, final the trained one."""

    def rigged(weights, tokenizer, config, instances):
        metrics, batch = evaluate(weights, tokenizer, config, instances)
        return metrics | ({"success": 0.5} if instances.split == "validation" else {}), batch

    monkeypatch.setattr("plat.trainer.embedded.train.evaluate", rigged)
    io, config = memory_io(), compose("eval.heldout=32", "train.lr=0.05", "algorithm=grpo", "train.iterations=3")
    assert train(config, io).summary["peak_step"] == 0
    base, peak, final = (io.tables[f"heldout_{role}", step] for role, step in (("base", 0), ("peak", 3), ("final", 3)))
    assert base["success"] == peak["success"] and base["turns"] == peak["turns"]
    again = evaluate_checkpoint(config, io.checkpoints[3][0], cache)["results"]
    assert {name: final[name] for name in again} == again
    assert final["return"] != peak["return"]


# --- plat eval --------------------------------------------------------------------------------------------------------


def test_evaluating_a_checkpoint_gives_what_training_logged(compose, memory_io, cache):
    config = compose("task=frozenlake", "algorithm=grpo", "eval.instances=10", "eval.heldout=12")
    io = memory_io()
    train(config, io)
    peak = io.load_peak()
    heldout = evaluate_checkpoint(config, peak[1], cache)
    assert heldout["split"] == "heldout" and heldout["instances"] == 12
    assert heldout["success"] == io.metrics["heldout/success", 2]
    assert heldout["results"]["success"] == io.tables["heldout_peak", 2]["success"]
    validation = evaluate_checkpoint(config, peak[1], cache, {"split": "validation"})
    assert validation["success"] == io.metrics["val/success", peak[0]]
    json.dumps(heldout)


@pytest.mark.parametrize("task", ["frozenlake", "sokoban"])
def test_fewer_instances_are_the_beginning_of_more(compose, memory_io, cache, task):
    config = compose(f"task={task}", "train.iterations=0")
    io = memory_io()
    train(config, io)
    state = io.load_peak()[1]
    many = evaluate_checkpoint(config, state, cache, {"instances": 64})["results"]
    assert len(set(many["return"])) > 1 and len(set(many["turns"])) > 1
    for count in (1, 5, 32):
        few = evaluate_checkpoint(config, state, cache, {"instances": count})["results"]
        assert few == {name: values[:count] for name, values in many.items()}


@pytest.mark.parametrize(
    ("options", "says"),
    [({"splitt": "heldout"}, "splitt"), ({"split": "test"}, "'test'"), ({"instances": 0}, "0 instances"),
     ({"instances": "many"}, "'many' instances")],
)  # fmt: skip
def test_wrong_options_of_an_evaluation(compose, memory_io, cache, options, says):
    io = memory_io()
    config = compose("train.iterations=0")
    train(config, io)
    with pytest.raises(SpecError, match=says):
        evaluate_checkpoint(config, io.load_peak()[1], cache, options)


def test_greedy_evaluation(compose, memory_io):
    io = memory_io()
    assert train(compose("task=frozenlake", "eval.temperature=0", "train.iterations=1"), io).kind == "finished"
    assert math.isfinite(io.metrics["val/success", 1])


WITHOUT_ITERATIONS = """
import sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import MemoryIO, compose_tiny
from plat.trainer.embedded.train import train
print(train(compose_tiny("train.iterations=0"), MemoryIO(Path(sys.argv[2]))).kind)
print([name for name in ("verl", "ray", "transformers") if name in sys.modules])
"""


def test_a_run_without_iterations_does_not_import_verl(cache):
    """verl takes seconds to import, and only updates need it: an evaluation of the base model does not wait for it."""
    command = [sys.executable, "-c", WITHOUT_ITERATIONS, str(Path(__file__).parent), str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-2:] == ["finished", "[]"], done.stdout + done.stderr


def test_the_base_every_second_evaluation_and_the_last_policy_are_probed(compose, memory_io):
    io = memory_io()
    train(compose("mi.probe_every=2", "train.iterations=5", "eval.every=1"), io)
    probed = {step for name, step in io.tables if name == "probe"}
    assert probed == {0, 2, 4, 5} == {step for key, step in io.metrics if key == "probe/retrieval_acc"}
    assert {step for key, step in io.metrics if key == "val/success"} == set(range(6))
