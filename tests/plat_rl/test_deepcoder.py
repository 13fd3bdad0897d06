"""A run of DeepCoder in chat: the record names its sandbox, and its metrics name the constant and the tricks."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from plat.errors import RunError, SpecError
from plat.planning.check import need_lines
from plat_envs.api import make_environment
from plat_envs.programs.chat import _grader
from plat_envs.sandbox import levels
from plat_envs.sandbox.hack import KINDS
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.embedded.train import train
from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape
from plat_rl.environments import facts_of_task, needs_of_task
from plat_rl.loop.trajectory_table import trick_shares
from plat_rl.loop.turns import NO_PROGRAM, play_response
from plat_rl.metric_names import METRICS


@pytest.fixture
def without_levels(monkeypatch):
    """A machine that has no level of the sandbox."""
    monkeypatch.setattr(levels, "problem_of", lambda level, url=None: "not here")
    _grader.cache_clear()
    yield
    _grader.cache_clear()


@pytest.fixture
def checkpoint(real, tmp_path, lively_parameters):
    """A tiny model with a byte-level tokenizer, as a real checkpoint has."""
    folder = tmp_path / "model"
    shutil.copytree(real, folder)
    shape = Shape(300, 1, 16, 2, 2, 24)
    hf.save(folder, shape, lively_parameters(shape))
    return folder


@pytest.fixture
def chat(compose, checkpoint):
    """Options -> a config in chat."""
    return lambda *options: compose("task=deepcoder", "train.rendering=chat", f"model.path={checkpoint}", *options)


@pytest.fixture
def has_sandbox():
    if levels.problem_of("namespaces") and levels.problem_of("landlock"):
        pytest.skip("no sandbox here")


def test_a_run_records_its_sandbox_and_measures_what_a_constant_earns(chat, memory_io, has_sandbox):
    sizes = ("eval.instances=3", "eval.heldout=3", "train.prompts=2", "train.group_size=2", "task.response_tokens=8")
    io = memory_io()
    config = chat("train.iterations=1", *sizes)
    assert train(config, io).kind == "finished"
    assert io.recorded["sandbox_level"] in ("namespaces", "landlock") and io.recorded["sandbox_python"]
    assert "base_sha256" in io.recorded and not any("kernel" in name for name in io.recorded)
    assert 0 < io.metrics["rollout/constant_reward", 1] < 1 and 0 < io.metrics["val/constant_reward", 0] < 1
    assert {f"hack/{kind}" for kind in ("any", *KINDS)} <= {name for name, _ in io.metrics}
    assert {name for name, _ in io.metrics} <= set(METRICS) | {
        name for name, _ in io.metrics if name.startswith("time/")
    }


def test_other_tasks_have_neither_facts_nor_these_metrics(compose, memory_io):
    io = memory_io()
    train(compose("task=countdown", "train.iterations=0"), io)
    assert set(io.recorded) == {"base_sha256"}
    assert not [name for name, _ in io.metrics if "constant" in name or "hack" in name]


def test_the_identity_does_not_depend_on_the_sandbox(chat, without_levels):
    assert EmbeddedTrainer().fingerprint(chat())["environment"] == "1"


def test_the_plan_names_the_sandbox(chat, has_sandbox, compose):
    (need,) = needs_of_task(chat())
    assert need_lines([need]) == [f"needs a sandbox (level {facts_of_task(chat())['sandbox_level']}): it is here"]
    compact = compose("task=deepcoder", "model.base.version=v3")
    assert needs_of_task(compact) == [] == list(facts_of_task(compact))


def test_a_sandbox_that_cannot_be_had_is_one_message(chat, without_levels, memory_io):
    lines = need_lines(needs_of_task(chat()))
    assert len(lines) == 2 and "no level of the sandbox" in lines[0] and "apt-get install bubblewrap" in lines[1]
    with pytest.raises(SpecError, match="no level of the sandbox") as raised:
        train(chat(), memory_io())
    assert (
        "task.env.sandbox=remote task.env.grader=URL" in raised.value.fix and raised.value.where == "task.env.sandbox"
    )


def test_the_plan_names_files_and_a_grader_that_does_not_answer(chat, monkeypatch):
    monkeypatch.setattr("plat_envs.sandbox.levels.ATTEMPTS", 1)
    remote = ("+task.env.sandbox=remote", "+task.env.grader=http://127.0.0.1:9")
    (sandbox,) = needs_of_task(chat(*remote))
    assert "http://127.0.0.1:9" in sandbox.what and "answer" in sandbox.absent
    with pytest.raises(RunError, match="the grader does not answer") as away:
        facts_of_task(chat(*remote))
    assert away.value.failure_class == "service"
    with pytest.raises(SpecError, match="cannot read the data") as raised:
        chat("+task.env.data=file", "+task.env.path=/nowhere.jsonl")
    assert "task.env.path=FILE" in raised.value.fix


def test_tricks_of_a_program_are_counted():
    environment = make_environment("deepcoder", {"data": "generated"}, "train", "chat")
    environment.reset(0)
    text = "x </think> <answer> import os\nos._exit(0) </answer>"
    effect = play_response(environment, text, 1, 0.0).effect
    assert effect.tricks == (1 << KINDS.index("imports")) + (1 << KINDS.index("ends")) and effect.rewards == 0
    shares = trick_shares(np.array([effect.tricks, 0, NO_PROGRAM]))
    assert shares["hack/any"] == shares["hack/imports"] == 0.5 and shares["hack/frames"] == 0
    assert trick_shares(np.array([NO_PROGRAM])) == {}
