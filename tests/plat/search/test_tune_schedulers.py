"""Tune's schedulers for the pruners of a search, without a Ray: what they decide, and what they write."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from plat.search.search_file import read_searches
from plat.search.study import Study
from plat.search.trials import Trials
from plat.store.run_directory.attempts import requested_end
from plat.store.run_directory.creation import create
from plat.words.outcomes import PRUNED

pytest.importorskip("ray")
TEXT = """
title: Slopes
base: {trainer: "plat_slope:Slope", train.iterations: 16}
space: {slope: {float: [0.01, 0.09]}}
objectives: [{maximize: success}]
sampler: random
pruner: {name: asha, min_steps: 4, reduction: 2}
trials: 20
seeds: [0, 1]
"""


class Tune:
    """A search as the driver has it; `report` is what a trial reports."""

    def __init__(self, home, search):
        from plat.search.ray.scheduler import StudyScheduler, TunedTrials

        self.study = Study(home, search)
        self.scheduler = StudyScheduler(search, self.study, contextlib.nullcontext)
        self.trials = self.scheduler.trials = TunedTrials(home, search, self.study, self.scheduler)

    def begin(self):
        [packet] = self.trials.packets()
        return self.resume(packet.trial)

    def resume(self, trial):
        from ray.tune.experiment import Trial

        self.trials.begin(trial)
        tuned = Trial("one", stub=True, config={"trial": trial.number})
        self.scheduler.on_trial_add(None, tuned)
        return tuned

    def report(self, trial, position, value):
        result = {"position": position, "success": value, "step": position, "iterations": position}
        assert self.scheduler.on_trial_result(None, trial, result) == "CONTINUE"
        return self.study.trials()[trial.config["trial"]].state.name


@pytest.fixture
def search(write):
    (search,) = read_searches(write(TEXT))
    return search


def test_asha_stops_the_worse_half_at_each_rung(home, search):
    tune = Tune(home, search)
    good, bad, better = (tune.begin() for _ in range(3))
    assert tune.report(good, 3, 0.0) == "RUNNING" and tune.report(good, 4, 0.4) == "RUNNING"
    assert tune.report(bad, 3, 0.0) == "RUNNING" and tune.report(bad, 4, 0.3) == "PRUNED"
    assert tune.report(better, 4, 0.5) == "RUNNING"
    stored = tune.study.trials()[1]
    assert stored.user_attrs["plat.reason"] == "asha: 0.3 at step 4" and stored.user_attrs["plat.iterations"] == 4
    assert stored.intermediate_values == {3: 0.0, 4: 0.3}


def test_median_compares_with_the_running_means_of_the_others(home, write):
    text = TEXT.replace("{name: asha, min_steps: 4, reduction: 2}", "{name: median, startup: 2, warmup: 2}")
    (search,) = read_searches(write(text))
    tune = Tune(home, search)
    first, second, third = (tune.begin() for _ in range(3))
    for trial, value in ((first, 0.4), (second, 0.5)):
        assert [tune.report(trial, at, value) for at in (2, 3)] == ["RUNNING"] * 2
    assert tune.report(third, 1, 0.1) == "RUNNING"  # before the warm-up
    assert tune.report(third, 2, 0.2) == "PRUNED"


def test_a_stop_is_in_the_study_before_it_acts(home, search, monkeypatch):
    """Whoever goes on after a kill between the two ends the runs."""
    tune = Tune(home, search)
    good, bad = tune.begin(), tune.begin()
    tune.report(good, 4, 0.4)

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("plat.search.trials.Trials._end_runs", killed)
        with pytest.raises(KeyboardInterrupt):
            tune.report(bad, 4, 0.3)
    stored = tune.study.trials()[1]
    assert stored.state.name == "PRUNED"
    run = search.runs_of(stored.params, search.seeds)[0]
    paths = create(home, run, search.name)
    monkeypatch.setattr("plat.search.trials.run_state", lambda paths: SimpleNamespace(state="running"))
    Trials(home, search, Study(home, search))
    assert requested_end(paths) == (PRUNED, "its trial was given up")


def test_a_resumed_search_judges_as_the_one_before(home, search):
    """Ended trials and the earlier evaluations of open ones are given to Tune's scheduler again."""
    tune = Tune(home, search)
    good, begun = tune.begin(), tune.begin()
    for at in (4, 8):
        tune.report(good, at, 0.1 * at)
    assert tune.report(begun, 4, 0.5) == "RUNNING"
    again = Tune(home, search)
    trial = again.trials.open_trial(1)
    for number in (0, 1):
        resumed = again.resume(again.trials.open_trial(number))
    assert trial is not None and again.report(resumed, 4, 0.1) == "RUNNING"  # it was judged before
    assert again.study.trials()[1].intermediate_values == {4: 0.5}
    assert again.report(resumed, 8, 0.7) == "PRUNED"


def test_a_trial_that_was_done_before_is_judged_by_its_curve(home, search):
    tune = Tune(home, search)
    assert tune.scheduler.judge_past({at: 0.1 * at for at in range(1, 33)}) is None
    assert tune.scheduler.judge_past({at: 0.05 * at for at in range(1, 33)}) == 4


def test_a_trial_that_is_stopped_gets_no_further_evaluations(home, write):
    """Median of Tune asserts that; a search over runs that were done before gives it whole curves."""
    text = TEXT.replace("{name: asha, min_steps: 4, reduction: 2}", "{name: median, startup: 2, warmup: 2}")
    (search,) = read_searches(write(text))
    tune = Tune(home, search)
    for factor in (0.4, 0.5):
        assert tune.scheduler.judge_past({at: factor for at in range(1, 33)}) is None
    assert tune.scheduler.judge_past({at: 0.1 for at in range(1, 33)}) == 2
    assert tune.scheduler.judge_past({at: 0.6 for at in range(1, 33)}) is None


def test_asha_has_rungs_beyond_the_iterations_that_a_trainer_states(home, search, monkeypatch):
    """A script states none."""
    monkeypatch.setattr(type(search), "iterations", 1)
    tune = Tune(home, search)
    assert tune.scheduler.judge_past({at: 0.5 for at in range(1, 33)}) is None
    assert tune.scheduler.judge_past({at: 0.5 if at < 16 else 0.1 for at in range(1, 33)}) == 16


def test_least_options_are_those_that_tune_takes(home, write):
    for number, pruner in enumerate(("{name: asha, min_steps: 0, reduction: 0}", "{name: median, startup: 0}")):
        text = TEXT.replace("{name: asha, min_steps: 4, reduction: 2}", pruner)
        (search,) = read_searches(write(text, f"toy{number}.yaml"))
        tune = Tune(home, search)
        trial = tune.begin()
        assert [tune.report(trial, at, 0.1) for at in range(1, 33)] == ["RUNNING"] * 32
