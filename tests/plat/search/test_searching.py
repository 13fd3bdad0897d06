"""Whole searches with real runs: what is told, what a kill leaves, what giving up early does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from search_files import TOY_SEARCH
from sweep_processes import wait_for

from plat.dispatch.driver import sweep
from plat.search.following import summarise
from plat.search.search_file import read_searches
from plat.search.study import Study, open_study
from plat.search.trial_source import TrialSource
from plat.store.run_directory.state import run_state
from plat.words.outcomes import PRUNED

TOY = Path(__file__).parents[2] / "toy"
TEXT = (
    TOY_SEARCH
    + """
sampler: {name: tpe, startup: 2}
trials: 4
seeds: range(2)
confirm: [10, 11, 12]
"""
)


@pytest.fixture
def file(write):
    return write(TEXT)


def searched(home, search, at_once=2):
    """Do a search here: the driver's report, the trials, the summary."""
    with open_study(home, search) as study:
        source = TrialSource(home, search, study, at_once)
        report = sweep(home, source, at_once)
        assert source.exhausted
        return report, study.trials(), summarise(home, search, study)


def facts(trials):
    return [[trial.number, trial.state.name, trial.params, trial.values] for trial in trials]


def test_a_trial_is_the_mean_of_its_seeds_and_the_winner_is_confirmed(home, file):
    (search,) = read_searches(file)
    report, trials, summary = searched(home, search)
    assert report.exit_code == 0 and len(trials) == 4
    for trial in trials:
        runs = search.runs_of(trial.params, search.seeds)
        best = []
        for run in runs:
            events = home.run(run.id).attempts()[0].events.read_text().splitlines()
            metrics = [json.loads(line).get("metrics", {}) for line in events]
            best.append(max(values["val/success"] for values in metrics if "val/success" in values))
        assert trial.values == [pytest.approx(sum(best) / 2)]
        assert trial.user_attrs["plat.runs"] == [run.id for run in runs]
    (winner,) = summary.winners
    assert trials[winner.trial].values[0] == max(trial.values[0] for trial in trials)
    assert not summary.all_tie and replace(summary, trials=(summary.trials[0],) * 3).all_tie
    assert (len(winner.searched), len(winner.fresh)) == (2, 3)
    again, trials_again, _ = searched(home, search)
    assert facts(trials_again) == facts(trials) and not any(end.fresh for end in again.ends.values())


def test_runs_of_a_sweep_are_not_done_again(home, file):
    (search,) = read_searches(file)
    with open_study(home, search) as study:
        stored = study.add(study.suggest(), [])
    sweep(home, search.runs_of(stored.params, [0]), 1)
    report, _, _ = searched(home, search)
    done_before = search.runs_of(stored.params, [0])[0].id
    assert not report.ends[done_before].fresh and len(home.run(done_before).attempts()) == 1


def test_a_kill_between_the_end_of_the_runs_and_the_telling_loses_nothing(home, file, monkeypatch):
    (search,) = read_searches(file, ["trials=2", "confirm=[]"])

    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Study, "tell", killed)
        with pytest.raises(KeyboardInterrupt):
            searched(home, search, at_once=1)
    with open_study(home, search) as study:
        (stored,) = study.trials()
        assert stored.state.name == "RUNNING"
    report, trials, _ = searched(home, search, at_once=1)
    assert trials[0].params == stored.params and [trial.state.name for trial in trials] == ["COMPLETE"] * 2
    assert not any(report.ends[run.id].fresh for run in search.runs_of(stored.params, search.seeds))


@pytest.mark.slow
def test_a_search_killed_in_the_middle_ends_as_an_undisturbed_one(tmp_path, file):
    file.write_text(TEXT.replace('"plat_toy:Toy"}', '"plat_toy:Toy", sleep: 0.05}'))
    environment = os.environ | {"PYTHONPATH": str(TOY)}

    def start(home):
        command = [sys.executable, str(TOY / "toy_search.py"), str(home), str(file), "confirm=[]"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment)

    killed = tmp_path / "killed"
    for results in (1, 4):
        process = start(killed)
        wait_for(lambda least=results: len(list(killed.glob("runs/*/*/result.json"))) >= least, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = start(killed)
    output = process.communicate(timeout=120)[0]
    undisturbed = start(tmp_path / "undisturbed").communicate(timeout=120)[0]
    assert process.returncode == 0
    assert json.loads(output)["trials"] == json.loads(undisturbed)["trials"]
    assert len(json.loads(output)["trials"]) == 4


class GivesUp:
    """In place of one of Optuna's pruners: gives up the second trial at this step."""

    def __init__(self, step):
        self.step = step

    def prune(self, study, trial):
        return trial.number == 1 and trial.last_step >= self.step


def test_a_trial_is_given_up_while_its_run_goes_on(home, file, monkeypatch):
    text = TEXT.replace("train.iterations: {int: [3, 8]}", "micro: [1, 2]")
    file.write_text(text.replace('"plat_toy:Toy"}', '"plat_toy:Toy", sleep: 0.2, train.iterations: 12}'))
    monkeypatch.setattr("plat.search.trial_source.make_pruner", lambda *_: GivesUp(3))
    (search,) = read_searches(file, ["trials=2", "confirm=[]", "seeds=[0]", "pruner=median"])
    report, trials, _ = searched(home, search, at_once=1)
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED"]
    (run,) = search.runs_of(trials[1].params, [0])
    paths = home.run(run.id)
    now = run_state(paths)
    assert (now.state, now.outcome) == ("interrupted", PRUNED) and now.reason.startswith("median")
    assert not paths.result.exists() and list(paths.attempts()[0].checkpoints.iterdir())
    assert report.ends[run.id].outcome == PRUNED and trials[1].user_attrs["plat.iterations"] == 3
    assert sweep(home, [run], 1).counts() == {"done": 1}  # whoever wants it goes on from its checkpoint
    assert len(paths.attempts()) == 2


def test_a_run_that_was_done_is_judged_as_if_it_went_on(home, file, monkeypatch):
    monkeypatch.setattr("plat.search.trial_source.make_pruner", lambda *_: GivesUp(2))
    (search,) = read_searches(file, ["trials=2", "confirm=[]", "pruner=median"])
    with open_study(home, search) as study:
        asked = [study.add(study.suggest(), []) for _ in range(2)]
    sweep(home, [run for trial in asked for run in search.runs_of(trial.params, [0])], 2)
    report, trials, _ = searched(home, search)
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED"]
    assert trials[1].user_attrs["plat.iterations"] == 2
    second_seed = search.runs_of(trials[1].params, [1])[0]
    assert second_seed.id not in report.ends  # it was spared


def test_a_failing_trial_is_told_and_the_search_goes_on(home, file):
    file.write_text(TEXT.replace("at: {int: [10, 50]}", "mischief: [none, error]"))
    (search,) = read_searches(file, ["sampler=grid", "trials=4", "confirm=[]", "seeds=[0]"])
    report, trials, _ = searched(home, search)
    failed = [trial for trial in trials if trial.state.name == "FAIL"]
    assert len(trials) == 4 and failed and "failed:error" in failed[0].user_attrs["plat.reason"]
    assert report.exit_code == 3


def test_a_budget_ends_the_search(home, file):
    (search,) = read_searches(file, ["budget=20", "trials=50", "confirm=[]"])
    _, trials, summary = searched(home, search, at_once=1)
    assert summary.iterations >= 20 > summary.iterations - trials[-1].user_attrs["plat.iterations"]
