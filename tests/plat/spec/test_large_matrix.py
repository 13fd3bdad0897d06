"""Runs of one matrix share sections; each is the run that its cell gives without the others."""

import pytest

from plat.spec.expansion.experiment import _as_axes, load_experiment
from plat.spec.expansion.run import RunMaker
from plat.spec.reading.experiment_file import read_file
from plat.spec.reading.overrides import parse_overrides
from plat.spec.reading.yaml_reader import read

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
def test_a_run_of_a_matrix_is_the_run_that_its_cell_gives_alone(tmp_path, matrix, line):
    if line == ("seed=4",) and "b: {seed" in matrix:
        line = ()
    file = tmp_path / "mine.yaml"
    file.write_text(f"title: mine\nmatrix: {matrix}\n")
    shared = load_experiment(file, line)
    document = read(file)
    given = _as_axes(parse_overrides(line), document)
    parsed = read_file(document, given)
    alike = frozenset(axis.name for axis in parsed.matrix.axes if not axis.varies())
    alone = {}
    for cell in parsed.matrix.cells():
        labels = {name: value.label for name, value in cell.items()}
        maker = RunMaker(parsed.base, tuple(given.assignments), alike)
        run = maker.make(labels, [value.assignments for value in cell.values()], parsed.matrix.where)
        alone.setdefault(run.id, run)
    assert shared.runs == list(alone.values())
    assert [list(run.config) for run in shared.runs] == [list(run.config) for run in alone.values()]


def test_a_large_matrix_is_told_of_once(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("title: mine\nbase: {scale: smoke}\nmatrix: {seed: 'range(20)'}\n")
    told = []
    load_experiment(file, slow=lambda *what: told.append(what))
    assert told == []
    monkeypatch.setattr("plat.spec.expansion.experiment.SLOW_SECONDS", 0)
    load_experiment(file, slow=lambda *what: told.append(what))
    assert told == [(file, 20)]
