"""Runs without tasks, algorithms and filters are laid out by their own axes."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.spec.expansion.experiment import Experiment, load_experiment
from plat_analysis.builder_options import own_axes

PLACES = ("rows", "columns", "pair", "baseline", "treatment")


SCRIPT = "trainer: script, script.command: 'run {lr} {wd} {arm}'"


def experiment(tmp_path: Path, matrix: str, base: str = SCRIPT) -> Experiment:
    (tmp_path / "x.yaml").write_text(f"title: x\nbase: {{{base}}}\nmatrix: {{{matrix}}}\n")
    return load_experiment(tmp_path / "x.yaml")


THREE = "lr: [0.1, 0.2], wd: [0, 1, 2], arm: [a, b], seed: [0, 1]"


@pytest.mark.parametrize(
    ("parameters", "given", "chosen"),
    [
        (PLACES, {}, {"pair": "lr", "baseline": 0.1, "treatment": 0.2, "columns": "wd", "rows": ("arm",)}),
        (PLACES, {"pair": "arm", "baseline": "a"}, {"treatment": "b", "columns": "lr", "rows": ("wd",)}),
        (PLACES, {"pair": "arm"}, {"baseline": "a", "treatment": "b", "columns": "lr", "rows": ("wd",)}),
        (PLACES, {"pair": "wd", "treatment": 0}, {"baseline": 1, "columns": "lr", "rows": ("arm",)}),
        (PLACES, {"pair": "wd", "baseline": 2}, {"treatment": 0, "columns": "lr", "rows": ("arm",)}),
        (PLACES, {"pair": "nothing"}, {"columns": "lr", "rows": ("wd", "arm")}),
        (PLACES, {"columns": "lr", "rows": ["wd"]}, {"pair": "arm", "baseline": "a", "treatment": "b"}),
        (("rows", "columns"), {}, {"rows": ("lr", "wd", "arm"), "columns": ()}),
        (("rows",), {"conditions": "wd"}, {"rows": ("lr", "arm")}),
        (("name",), {}, {}),
    ],
)
def test_every_varied_axis_has_one_place(
    tmp_path: Path, parameters: tuple[str, ...], given: dict[str, object], chosen: dict[str, object]
) -> None:
    assert own_axes(experiment(tmp_path, THREE), parameters, given) == chosen


def test_without_a_varied_axis_nothing_is_compared(tmp_path: Path) -> None:
    alone = experiment(tmp_path, "seed: [0, 1]", "trainer: script, script.command: run")
    assert own_axes(alone, ("rows", "columns", "pair", "baseline"), {}) == {
        "pair": (),
        "baseline": "",
        "columns": (),
        "rows": (),
    }
    assert "pair" not in own_axes(alone, PLACES, {})


def test_runs_with_a_task_keep_the_defaults(tmp_path: Path) -> None:
    assert own_axes(experiment(tmp_path, "task: [sokoban, frozenlake], seed: [0]", "filter: top_p"), PLACES, {}) == {}
