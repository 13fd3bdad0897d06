"""Curves never average survivors in silence."""

from __future__ import annotations

import numpy as np
import pytest

from plat.spec.expansion.experiment import load_experiment
from plat_analysis.artifact import Figure
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.figures.condition_curves import GRID, condition_curves, draw, seeds_note
from plat_analysis.figures.learning_curves import caption


def quickstart(make_experiment, **fields):
    return make_experiment(rows=["GRPO"], tasks=["frozenlake"], **fields)


def test_the_mean_ends_where_the_first_seed_ends(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    stopped = experiment.runs[0]
    frames = make_frames(experiment, holes={stopped.id: "stopped:low_success"})
    results = Results(frames, experiment)
    none = [run for run in results.runs if run.axis("filter") == "none"]
    lines = condition_curves(results, none, "val/success")
    assert list(lines.steps) == [0, 10, 20, 30] and len(lines.lines) == 3
    assert [len(steps) for steps, _ in lines.lines] == [4, 7, 7]
    at_30 = [results.curve(run.id, "val/success")[1][3] for run in none]
    assert lines.mean[3] == pytest.approx(np.mean(at_30)) and lines.low[3] < lines.mean[3] < lines.high[3]
    assert seeds_note(lines) == ""


def test_a_failed_run_is_drawn_but_not_averaged(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    frames = make_frames(experiment, holes={experiment.runs[0].id: "failed:nan"})
    results = Results(frames, experiment)
    lines = condition_curves(results, [run for run in results.runs if run.axis("filter") == "none"], "val/success")
    assert (
        len(lines.lines) == 3
        and lines.counted == 2
        and lines.low is None
        and seeds_note(lines) == "2/3 seeds: failed:nan"
    )
    assert list(lines.steps) == [0, 10, 20, 30, 40, 50, 60]


def test_one_seed_has_the_band_of_its_instances(make_experiment, make_frames):
    experiment = quickstart(make_experiment)
    results = Results(make_frames(experiment), experiment)
    success = condition_curves(results, results.runs[:1], "val/success")
    assert success.high is not None and 0.05 < (success.high - success.low)[-1] < 0.15
    assert condition_curves(results, results.runs[:1], "actor/entropy").low is None
    assert condition_curves(results, results.runs[:1], "no/such").mean.size == 0


def test_seeds_that_log_at_different_steps_are_interpolated_where_all_have_values(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    results = Results(make_frames(experiment), experiment)
    runs = [run for run in results.runs if run.axis("filter") == "none"]
    steps = [np.array([0, 300, 900]), np.array([100, 500, 1000]), np.array([50, 700, 1100])]
    curves = {run.id: (at, at * slope) for run, at, slope in zip(runs, steps, (1.0, 2.0, 3.0), strict=True)}
    lines = condition_curves(results, runs, "x", lambda run: curves[run.id])
    assert (lines.steps[0], lines.steps[-1], len(lines.steps)) == (100, 900, GRID) and lines.interpolated
    assert lines.mean == pytest.approx(2.0 * lines.steps) and np.all(lines.low < lines.mean)
    assert "interpolated at 100 steps" in caption(["x"], [lines], True)


def test_the_x_axis_of_a_script_has_the_name_of_its_step(tmp_path):
    text = "title: x\nbase: {trainer: script, script.command: run%s}\nmatrix: {seed: [0, 1]}\n"
    for given, name in (("", "step"), (", script.step: global_step", "global_step")):
        (tmp_path / "x.yaml").write_text(text % given)
        assert Results.planned(load_experiment(tmp_path / "x.yaml")).step_name == name


def test_values_that_no_axis_can_hold_are_not_drawn(make_experiment, make_frames):
    experiment = quickstart(make_experiment, seeds=range(3))
    results = Results(make_frames(experiment), experiment)
    runs = [run for run in results.runs if run.axis("filter") == "none"]
    at = np.arange(3)
    lines = condition_curves(results, runs, "x", lambda run: (at, np.array([1.0, 2.0, 1e308 * (-1) ** run.seed])))
    figure = style.canvas(3, 2)
    axis = figure.subplots()
    draw(axis, lines, style.looks(["a"], "a")["a"])
    assert all(style.images(Figure("x", "x", lambda: figure)).values()) and axis.dataLim.y1 < 10
