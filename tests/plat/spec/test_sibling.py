"""A run that is made from its sibling is the run that would have been resolved in full."""

import pytest

from plat.spec import runs
from plat.spec.experiment import load_experiment
from plat.spec.sibling import Sibling

MATRICES = {
    "one axis of new values": "{seed: [0, 1, 2, 3]}",
    "one axis of new values of a key that decides": "{train.iterations: [3, 4, 5]}",
    "options of the environment": "{task: [frozenlake], task.env.size: [4, 5, 6]}",
    "the seed varies fastest": "{task: [sokoban, frozenlake], filter.value: [0.9, 0.8], seed: [0, 1, 2]}",
    "the seed varies slowest": "{seed: [0, 1, 2], task: [sokoban, countdown], filter: [none, top_p]}",
    "a key of a section that others set too": "{filter: [none, top_p], filter.value: [0.5, 0.6, 0.7]}",
    "keys of one section": "{task: [frozenlake], train.iterations: [3, 4], train.prompts: [2, 4, 8]}",
    "an operational key": "{seed: [0], threads: [1, 2, 3]}",
    "bundles of several keys": "{both: {a: {seed: 7, train.iterations: 3}, b: {seed: 8}, c: {seed: 9}}}",
    "a value at its legacy": "{seed: [0, 1], algorithm.norm_by_std: [true, false], algorithm: [grpo]}",
    "a key that a check reads": "{seed: [0, 1], scale: [smoke, laptop]}",
}


@pytest.mark.parametrize("line", [(), ("seed=4",), ("mi.every=2",)])
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_runs_are_those_that_are_resolved_in_full(tmp_path, monkeypatch, matrix, line):
    if line == ("seed=4",) and "b: {seed" in matrix:
        line = ()
    file = tmp_path / "mine.yaml"
    file.write_text(f"title: mine\nmatrix: {matrix}\n")
    shared = load_experiment(file, line)
    monkeypatch.setattr(runs.Sibling, "of", lambda *_: None)
    in_full = load_experiment(file, line)
    assert shared.runs == in_full.runs and shared.cells == in_full.cells
    assert [list(run.config) for run in shared.runs] == [list(run.config) for run in in_full.runs]


def test_most_runs_of_a_large_matrix_are_made_from_a_sibling(tmp_path, monkeypatch):
    """Otherwise the tests above would compare nothing."""
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nbase: {scale: smoke}\nmatrix: {task: [sokoban, frozenlake], seed: 'range(40)'}\n")
    made = []
    changed = Sibling.changed
    monkeypatch.setattr(Sibling, "changed", lambda *given: made.append(changed(*given)) or made[-1])
    experiment = load_experiment(file)
    assert len(experiment.runs) == 80 and sum(run is not None for run in made) == 78
    assert len({run.id for run in experiment.runs}) == len({run.name for run in experiment.runs}) == 80


def test_a_large_matrix_is_told_of_once(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nbase: {scale: smoke}\nmatrix: {seed: 'range(20)'}\n")
    told = []
    load_experiment(file, slow=lambda *what: told.append(what))
    assert told == []
    monkeypatch.setattr("plat.spec.experiment.SLOW_SECONDS", 0)
    load_experiment(file, slow=lambda *what: told.append(what))
    assert told == [(file, 20)]
