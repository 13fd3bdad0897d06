"""A run that runs out of memory goes on with half the micro-batch, and says so; one that cannot shrink is left."""

from __future__ import annotations

import dataclasses
import json

import plat_toy
from runner_runs import make
from toy_runs import no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.runner.execution import execute
from plat.store.run_directory.run_files import read_outcome


def outcomes(paths):
    return [read_outcome(attempt)["outcome"] for attempt in paths.attempts()]


def test_a_run_goes_on_with_half_the_micro_batch_until_it_fits(home):
    run = toy_run(mischief="allocate", micro=8)
    assert sweep(home, [run], 1).counts() == {"done": 1}
    paths = home.run(run.id)
    assert outcomes(paths) == ["failed:oom", "failed:oom", "finished"]
    assert json.loads(paths.result.read_text())["summary"]["after_oom"] == {"micro": 2}
    metas = [json.loads(attempt.meta.read_text()) for attempt in paths.attempts()]
    assert [meta.get("after_oom") for meta in metas] == [None, {"micro": 4}, {"micro": 2}]
    assert metas[2]["restored_step"] == 2 and no_step_twice(paths)
    assert "ran out of memory: now {'micro': 2}" in paths.attempt(3).log.read_text()


def test_a_run_that_cannot_be_smaller_is_tried_no_more(home):
    run = toy_run(mischief="memory", micro=2)
    assert sweep(home, [run], 1).ends[run.id].outcome == "failed:oom"
    assert outcomes(home.run(run.id)) == ["failed:oom"] * 2
    sweep(home, [run], 1)
    assert outcomes(home.run(run.id)) == ["failed:oom"] * 3, "a later sweep tries it once"


def test_a_trainer_that_changes_results_to_need_less_is_refused(home, monkeypatch):
    monkeypatch.setattr(plat_toy.Toy, "less_memory", lambda self, config: dataclasses.replace(config, seed=9))
    paths = make(home, mischief="memory")
    assert [execute(home, paths.id), execute(home, paths.id)] == ["failed:oom", "failed:error"]
    assert "changed seed to need less memory" in read_outcome(paths.attempt(2))["reason"]
