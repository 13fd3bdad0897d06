"""Studies: suggestions are Optuna's own, trials are stored whole, a study asks one question."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import statistics

import optuna
import pytest
from search_files import TOY_SEARCH

from plat.errors import HomeError, SpecError
from plat.search.search_file import read_searches
from plat.search.search_settings import trial_seed
from plat.search.study import open_study, storage_uri
from plat.store.home import Home

TEXT = """
title: A known function
base: {trainer: "plat_toy:Toy"}
space:
  sleep: {float: [0.0, 1.0]}
  at: {int: [1, 50]}
objectives: [{maximize: success}]
sampler: {name: tpe, startup: 5, seed: 3}
trials: 30
"""


@pytest.fixture
def search(write):
    path = write(TEXT, "known.yaml")
    return lambda *overrides: read_searches(path, overrides)[0]


def value(params):
    return -((params["sleep"] - 0.3) ** 2) - ((params["at"] - 20) / 50) ** 2


def explored(home, search, trials):
    """The study after that many trials of the known function."""
    with open_study(home, search) as study:
        for _ in range(trials):
            trial = study.add(study.suggest(), [])
            study.tell(trial.number, [value(trial.params)], 1)
        return [trial.params for trial in study.trials()], study.winners()[0]


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsga2"])
def test_suggestions_are_those_of_optuna_alone(home, search, sampler):
    chosen = search(f"sampler={sampler}")
    ours, _ = explored(home, chosen, 14)
    study = optuna.create_study(direction="maximize")
    distributions = {
        "sleep": optuna.distributions.FloatDistribution(0.0, 1.0),
        "at": optuna.distributions.IntDistribution(1, 50),
    }
    make = {
        "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, n_startup_trials=10),
        "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
        "nsga2": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=20),
    }[sampler]
    for number in range(14):
        study.sampler = make(trial_seed(0, number))
        trial = study.ask(distributions)
        study.tell(trial, value(trial.params))
    assert ours == [trial.params for trial in study.trials]


def test_a_search_that_is_cut_anywhere_suggests_the_same_trials(tmp_path, search):
    whole, _ = explored(Home(tmp_path / "whole").create(), search(), 12)
    home = Home(tmp_path / "cut").create()
    for trials in (1, 11):
        explored(home, search(), trials)
    with open_study(home, search()) as study:
        assert [trial.params for trial in study.trials()] == whole


def test_tpe_beats_random_search_on_a_known_function(tmp_path, home):
    best = {}
    for sampler in ("tpe", "random"):
        results = []
        for seed in range(3):
            path = tmp_path / f"{sampler}-{seed}.yaml"
            path.write_text(TEXT.replace("{name: tpe, startup: 5, seed: 3}", f"{{name: {sampler}, seed: {seed}}}"))
            results.append(explored(home, read_searches(path)[0], 24)[1].values[0])
        best[sampler] = statistics.median(results)
    assert best["tpe"] > best["random"]


def test_a_trial_that_was_asked_and_not_told_is_kept_with_its_runs(home, search):
    with open_study(home, search()) as study:
        asked = study.add(study.suggest(), ["a-run"])
    with open_study(home, search()) as study:
        (stored,) = study.trials()
        assert stored.params == asked.params and stored.state.name == "RUNNING"
        assert stored.user_attrs["plat.runs"] == ["a-run"]


def test_optuna_opens_the_study_itself(home, search):
    explored(home, search(), 3)
    study = optuna.load_study(study_name="known", storage=storage_uri(home))
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    assert study.direction.name == "MAXIMIZE" and study.best_value == max(value(t.params) for t in study.trials)


@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_two_processes_do_not_search_one_study(home, search, monkeypatch, locks):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    if not locks:  # as on some network file systems
        monkeypatch.setattr("fcntl.flock", refuse)
    with open_study(home, search()), pytest.raises(HomeError, match="by another process"), open_study(home, search()):
        pass


def test_a_study_is_not_continued_with_another_question(home, search, tmp_path):
    explored(home, search(), 2)
    explored(home, search("trials=40"), 1)
    (tmp_path / "known.yaml").write_text(TEXT.replace("[1, 50]", "[1, 60]"))
    with pytest.raises(SpecError, match="started with different settings: space") as error, open_study(home, search()):
        pass
    assert "rename the file" in error.value.fix


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM study_directions",
        "DELETE FROM trial_values",
        "DELETE FROM trial_user_attributes",
        "DELETE FROM trial_params",
        "UPDATE trial_params SET param_name = param_name || '!'",
    ],
)
def test_a_study_whose_rows_were_changed_is_named_as_damaged(tmp_path, home, write, change):
    file = write(TOY_SEARCH + "sampler: random\ntrials: 1\nseeds: [0]\n")
    (search,) = read_searches(file, ())
    with open_study(home, search) as study:
        study.add(study.suggest(), ["a" * 16])
        study.tell(0, [0.5], 3)
    with contextlib.closing(sqlite3.connect(home.studies)) as database, database:
        database.execute(change)
    with pytest.raises(HomeError, match="the file of the studies is damaged") as error, open_study(home, search):
        pass
    assert error.value.where and error.value.fix
