"""Axes that the command line adds are laid out in the report, and split entries and claims that do not name them."""

from __future__ import annotations

from pathlib import Path

from plat.spec.expansion.experiment import Experiment, load_experiment
from plat_analysis.plugins.command_line import parts

TEXT = """
title: x
base: {trainer: script, script.command: 'run {lr} {wd} {arm}', wd: 0, arm: a}
matrix: {lr: [0.1, 0.2], seed: [0, 1]}
report: [{builder: learning_curves}]
"""


def experiment(tmp_path: Path, *overrides: str) -> Experiment:
    (tmp_path / "x.yaml").write_text(TEXT)
    return load_experiment(tmp_path / "x.yaml", overrides)


def test_an_entry_is_made_for_each_value_of_an_added_axis(tmp_path: Path) -> None:
    whole = experiment(tmp_path, "wd=0,1", "arm=a,b,c")
    assert whole.added == ("wd", "arm") and len(whole.runs) == 24
    split = parts(whole, {"builder": "learning_curves"})
    assert [part.words for part in split][:2] == ["wd = 0, arm = a", "wd = 0, arm = b"] and len(split) == 6
    for part in split:
        assert len(part.experiment.runs) == len(part.experiment.cells) == 4
        assert {axes["wd"] for axes, _ in part.experiment.cells} == set(part.experiment.axes["wd"])
    assert sorted(run.id for part in split for run in part.experiment.runs) == sorted(run.id for run in whole.runs)
    assert parts(whole, {"builder": "learning_curves"}) is split, "results are shared by the identity of a part"


def test_an_axis_that_the_entry_names_is_not_split(tmp_path: Path) -> None:
    whole = experiment(tmp_path, "wd=0,1", "arm=a,b")
    assert [part.words for part in parts(whole, {"rows": ["arm"]})] == ["wd = 0", "wd = 1"]
    assert [part.words for part in parts(whole, {"rows": ["arm"], "measure": {"metric": "wd"}})] == [""]


def test_other_values_of_an_axis_of_the_file_and_more_seeds_add_nothing(tmp_path: Path) -> None:
    assert experiment(tmp_path, "lr=1,2,3").added == ()
    seeds = experiment(tmp_path, "matrix.seed=range(5)")
    assert parts(seeds, {})[0].experiment is seeds


def test_a_report_keeps_its_name_when_seeds_are_added(tmp_path: Path) -> None:
    assert experiment(tmp_path, "matrix.seed=range(5)").report_name == "x"
    assert experiment(tmp_path, "seed=1").report_name != "x"
    assert experiment(tmp_path, "wd=0,1").report_name != "x"
