"""Runs that are stopped, killed and resumed leave no trace of it, and early stops are outcomes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from plat.errors import RunError
from plat_rl.embedded.train import train

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
from plat_rl.embedded.train import train
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


def test_a_checkpoint_of_another_step_is_refused(compose, memory_io):
    io = memory_io()
    train(compose("train.iterations=1"), io)
    state, peak = io.checkpoints[1]
    state.meta["step"] = 0
    io.checkpoints = {1: (state, peak)}
    with pytest.raises(RunError, match="says it is of step 0"):
        train(compose("train.iterations=1"), io.resumed())
