"""Curves never average survivors in silence."""

from __future__ import annotations

import numpy as np
import pytest

from plat_analysis.data.results import Results
from plat_analysis.figures.condition_curves import condition_curves, seeds_note


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
