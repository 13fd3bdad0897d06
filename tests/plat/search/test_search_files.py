"""Search files are read. A mistake in one gives three lines: what is wrong, where, and how to fix it."""

from __future__ import annotations

import pytest

from plat.errors import SpecError
from plat.search.search_file import read_searches
from plat.search.space import Choice, Range
from plat.spec.reading.experiment_file import is_search

GOOD = """
title: A toy search
base: {trainer: "plat_toy:Toy"}
space:
  train.iterations: {int: [3, 8]}
  micro: [1, 2]
  sleep: {float: [1e-4, 1e-2], log: true}
  kind: {calm: {}, busy: {recipe: soup, train.checkpoint_every: 3}}
objectives: [{maximize: success, of: best}, {minimize: time/step, of: mean}]
sampler: {name: nsga2, population: 4}
trials: 5
seeds: range(2)
confirm: [10, 11]
"""


def test_a_file_gives_a_search(write):
    path = write(GOOD)
    (search,) = read_searches(path)
    assert is_search(path) and search.name == "toy" and search.trials == 5
    assert (search.seeds, search.confirm) == ((0, 1), (10, 11))
    assert isinstance(search.space["micro"], Choice) and isinstance(search.space["sleep"], Range)
    assert [objective.direction for objective in search.objectives] == ["maximize", "minimize"]


def test_a_trial_has_a_run_for_every_seed_and_the_same_ones_as_a_sweep(write):
    from plat.spec.expansion.experiment import load_experiment

    (search,) = read_searches(write(GOOD))
    runs = search.runs_of({"train.iterations": 4, "micro": 1, "sleep": 0.001, "kind": "busy"}, [0, 1])
    assert [run.config["seed"] for run in runs] == [0, 1]
    assert {run.config["recipe"] for run in runs} == {"soup"}
    sweep = write(
        'title: T\nbase: {trainer: "plat_toy:Toy", train.iterations: 4, sleep: 0.001, recipe: soup, '
        "train.checkpoint_every: 3}\nmatrix: {seed: [0, 1]}\n",
        "sweep.yaml",
    )
    assert [run.id for run in load_experiment(sweep).runs] == [run.id for run in runs]


def test_settings_can_be_given_on_the_command_line(write):
    path = write(GOOD)
    (search,) = read_searches(path, ["trials=9", "confirm=[7]", "budget=100"])
    assert (search.trials, search.confirm, search.budget, search.name) == (9, (7,), 100, "toy")
    (other,) = read_searches(path, ["seeds=range(3)", "at=7"])
    assert other.seeds == (0, 1, 2) and other.name.startswith("toy@")
    assert other.runs_of(other.first_corner, [0])[0].config["at"] == 7


def test_several_pruners_are_several_studies_at_equal_budget(write):
    text = GOOD.replace("[{maximize: success, of: best}, {minimize: time/step, of: mean}]", "[{maximize: success}]")
    searches = read_searches(write(text + "pruner: [none, {name: median, startup: 2}]\nbudget: 50\n"))
    assert [search.name for search in searches] == ["toy.none", "toy.median"]
    assert {search.budget for search in searches} == {50}


WRONG = [
    ("trials: 5", "trails: 5", "unknown key 'trails'", "toy.yaml:11:1", "did you mean 'trials'"),
    ("trials: 5", "trials: 0", "trials is 0", "toy.yaml:11:9", "whole number above 0"),
    ("trials: 5", "matrix: {seed: [1]}", "a search has no matrix", "toy.yaml:11:1", "seeds"),
    ("micro: [1, 2]", "micr: [1, 2]", "unknown key 'micr'", "toy.yaml:6:3", "did you mean 'micro'"),
    ("micro: [1, 2]", "micro: [1]", "nothing to choose from", "toy.yaml:6:10", "at least two"),
    ("micro: [1, 2]", "micro: [1, 1]", "lists 1 twice", "toy.yaml:6:14", "remove one"),
    ("micro: [1, 2]", "micro: 3", "needs several values, not 3", "toy.yaml:6:10", "{float:"),
    ("micro: [1, 2]", "seed: [1, 2]", "`seed` cannot be searched over", "toy.yaml:6:3", "seeds: range(3)"),
    ("micro: [1, 2]", "micro: [1, many]", "is not a whole number", "toy.yaml:6:14", "whole number"),
    ("{int: [3, 8]}", "{int: [8, 3]}", "8 is not less than 3", "toy.yaml:5:27", "swap"),
    ("{int: [3, 8]}", "{int: [3, 8], lgo: true}", "unknown key 'lgo'", "toy.yaml:5:35", "did you mean 'log'"),
    ("{int: [3, 8]}", "{int: [3.5, 8]}", "int needs two numbers", "toy.yaml:5:27", "{int: [1, 8]}"),
    ("[1e-4, 1e-2]", "[0, 1e-2]", "a logarithmic scale cannot begin at 0", "toy.yaml:7:18", "above zero"),
    ("maximize: success", "maximise: success", "unknown key 'maximise'", "toy.yaml:9:13", "did you mean 'maximize'"),
    ("of: best", "of: peak", "there is no 'peak' of a run", "toy.yaml:9:13", "last, best, mean"),
    ("name: nsga2", "name: nsga", "unknown sampler 'nsga'", "toy.yaml:10:10", "did you mean 'nsga2'"),
    ("population: 4", "startup: 4", "nsga2 has no option 'startup'", "toy.yaml:10:10", "population"),
    ("confirm: [10, 11]", "confirm: [1, 11]", "seed 1 is in `seeds` and in `confirm`", "toy.yaml:13:10", "does not"),
    ("confirm: [10, 11]", "pruner: median", "several objectives cannot", "toy.yaml:13:9", "pruner: none"),
    ("seeds: range(2)", "seeds: some", "different whole numbers", "toy.yaml:12:8", "range(3)"),
]


@pytest.mark.parametrize(("old", "new", "what", "where", "fix"), WRONG, ids=[case[1] for case in WRONG])
def test_a_wrong_file_is_told_what_where_and_how_to_mend_it(write, old, new, what, where, fix):
    assert old in GOOD
    with pytest.raises(SpecError) as error:
        read_searches(write(GOOD.replace(old, new)))
    assert what in error.value.what
    assert where in str(error.value.where)
    assert fix in str(error.value.fix)


def test_an_objective_that_the_trainer_does_not_log_is_refused(write):
    text = "title: T\nbase: {scale: smoke}\nspace: {train.lr: [1e-3, 1e-4]}\nobjectives: [{maximize: val/sucess}]\n"
    with pytest.raises(SpecError, match="no run logs the metric 'val/sucess'") as error:
        read_searches(write(text))
    assert "toy.yaml:4:13" in str(error.value.where) and "did you mean 'val/success'" in str(error.value.fix)


@pytest.mark.parametrize(
    ("override", "what"),
    [("micro=1", "is searched over"), ("at=1,2", "takes one value"), ("matrix.at=[1]", "no matrix"), ("att=1", "att")],
)
def test_a_wrong_override_is_told_so(write, override, what):
    with pytest.raises(SpecError, match=what) as error:
        read_searches(write(GOOD), [override])
    assert override in str(error.value.where) and error.value.fix


def test_a_grid_needs_steps_and_ends_where_it_is_whole(write):
    text = GOOD.replace("{name: nsga2, population: 4}", "grid")
    with pytest.raises(SpecError, match="sleep is a range without steps"):
        read_searches(write(text))
    text = text.replace("{float: [1e-4, 1e-2], log: true}", "[0.1, 0.2]").replace("trials: 5\n", "")
    (search,) = read_searches(write(text))
    assert search.trials == 6 * 2 * 2 * 2
