"""A search of a script whose runs diverge at some points, or never log the objective."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

Verb = Callable[..., tuple[int, str, str]]
SEARCH = """
title: s
base: {trainer: script, script.command: "python a.py {x}"}
space: {x: {float: [0.0, 1.0]}}
objectives: [{minimize: loss%s}]
sampler: {name: random, seed: 1}
trials: 4
seeds: [0, 1]
confirm: [9]
"""
SCRIPT = """
import json, sys
x = float(sys.argv[1])
for step in (1, 2): print(json.dumps({"step": step, "%s": float("nan") if x > 0.5 else x}))
"""


@pytest.fixture
def tune(plat: Verb, home, empty_store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAT_HOME", str(home.root))

    def run(option: str = "", metric: str = "loss") -> tuple[int, str, list[optuna.trial.FrozenTrial]]:
        Path("a.yaml").write_text(SEARCH % option)
        Path("a.py").write_text(SCRIPT % metric)
        code, out, err = plat("tune", "a.yaml", "--jobs", 1)
        study = optuna.load_study(study_name="a", storage=f"sqlite:///{home.root}/studies.db")
        return code, " ".join((out + err).split()), study.trials

    return run


def test_a_trial_that_diverges_fails_and_the_search_goes_on(tune) -> None:
    code, said, trials = tune()
    states = [(trial.state.name, trial.params["x"] > 0.5) for trial in trials]
    assert len(states) == 4 and {("FAIL", True), ("COMPLETE", False)} == set(states), said
    failed = next(trial for trial in trials if trial.state.name == "FAIL")
    assert "diverged: it has no finite value of 'loss'" in json.dumps(failed.user_attrs), failed.user_attrs
    assert tune()[0] == code  # the same again, with nothing to do


def test_a_trial_that_diverges_may_count_as_the_worst(tune) -> None:
    code, said, trials = tune(", diverged: worst")
    assert code == 0 and all(trial.state.name == "COMPLETE" for trial in trials), said
    assert {trial.values[0] == float("inf") for trial in trials if trial.params["x"] > 0.5} == {True}


def test_an_objective_that_no_run_logs_ends_with_a_message(tune) -> None:
    code, said, _ = tune(metric="lost")
    assert code == 2 and "has not logged 'loss'" in said and "did you mean 'lost'?" in said, said


def test_another_word_for_a_diverged_trial_is_refused(tune, plat: Verb) -> None:
    Path("a.yaml").write_text(SEARCH % ", diverged: stop")
    code, _, err = plat("plan", "a.yaml")
    assert code == 2 and "diverged is 'stop'" in err and "`fail` or `worst`" in err, err
