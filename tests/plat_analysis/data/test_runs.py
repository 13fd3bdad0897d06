"""The join of wanted runs and the store: nothing dropped, reasons told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.data.results import Results, spell


def test_every_wanted_run_stays_with_its_reason(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    ids = [run.id for run in experiment.runs]
    holes = {ids[0]: "failed:oom", ids[1]: "absent", ids[2]: None, ids[3]: "stopped:low_success", ids[4]: "cancelled"}
    results = Results(make_frames(experiment, holes=holes), experiment)
    assert [run.missing for run in results.runs] == ["failed:oom", "not run", "unfinished", "", "cancelled", ""]


def test_runs_the_file_does_not_ask_for_are_left_out(make_experiment, make_frames):
    wide = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    frames = make_frames(wide)
    results = Results(frames, make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=[1]))
    assert [run.seed for run in results.runs] == [1, 1]


def test_curve_and_instances(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    results = Results(make_frames(experiment), experiment)
    run = results.runs[0].id
    steps, values = results.curve(run, "val/success")
    assert list(steps) == [0, 10, 20, 30, 40, 50, 60] and values.dtype == np.float64
    assert results.instances(run, ("val_instances",), step=20).mean() == pytest.approx(values[2])
    assert results.instances(run, ("heldout_instances",), role="peak").shape == (256,)
    assert results.instances(run, ("heldout_instances",), role="other") is None
    assert len(results.curve(run, "no/such")[0]) == 0 and results.curve("nobody", "val/success")[0].size == 0


def test_a_metric_is_never_taken_for_one_that_plat_0_4_stored_alike(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    frames.metrics.loc[frames.metrics["key"] == "val/success", "key"] = "pass_1"
    results = Results(frames, experiment)
    assert len(results.curve(results.runs[0].id, "pass^1")[0]) == 0
    assert results.unlogged(["pass^1"]) == [
        "No run logged 'pass^1': did you mean 'pass_1', as plat 0.4 stored that name?"
    ]
    assert results.unlogged(["pass_1"]) == []


def test_what_was_logged_is_named_for_a_metric_that_was_not(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    frames.metrics = frames.metrics[frames.metrics["key"] == "val/success"]
    results = Results(frames, experiment)
    assert results.unlogged(["zq"]) == ["No run logged 'zq', but val/success."]


def test_separate_tables_for_base_and_peak_are_read(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    held = frames.tables["name"] == "heldout_instances"
    frames.tables.loc[held, "name"] = ["heldout_" + data["role"] for data in frames.tables.loc[held, "data"]]
    results = Results(frames, experiment)
    names = ("heldout_peak", "heldout_instances")
    assert results.instances(results.runs[0].id, names, role="peak") is not None


def test_an_axis_that_was_not_varied_is_read_from_the_config(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    for run in experiment.runs:
        run.axes.pop("task")
    results = Results(make_frames(experiment), experiment)
    assert results.runs[0].axis("task") == "sokoban"
    with pytest.raises(SpecError, match="keep_rate"):
        results.runs[0].axis("keep_rate")


def test_one_run_may_fill_several_positions(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    cells = [(run.axes | {"variant": row}, run.id) for row in ("PPO", "3B") for run in experiment.runs]
    experiment = replace(experiment, cells=cells)
    results = Results(make_frames(experiment), experiment)
    assert len(results.runs) == 2 and [p.axis("variant") for p in results.positions] == ["PPO", "PPO", "3B", "3B"]


def test_an_empty_store_is_all_not_run(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment, holes={run.id: "absent" for run in experiment.runs})
    assert {run.missing for run in Results(frames, experiment).runs} == {"not run"}


def test_axis_values_have_one_spelling_that_can_be_shown():
    assert spell(1) == spell(1.0) == "1" and spell(0.90) == "0.9" and spell(True) == "True"
    assert spell("a\x1b[31mb\ud800\n") == "a\ufffd[31mb\ufffd "
    assert len(spell(10**400)) == 40  # too large for a float, and too long for a table
    assert spell(1000001) != spell(1000002) and spell(0.1234567) == "0.1234567" and spell(float("nan")) == "nan"


def test_runs_of_two_trainer_versions_are_named(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment)
    frames.runs["tag.plat.trainer"] = ["embedded 1.0", "embedded 1.0"]
    frames.runs["tag.plat.identity_scheme"] = ["1", "2"]
    assert "identity schemes are compared here: 1 (1 run), 2 (1 run)" in Results(frames, experiment).warnings()[0]
    frames.runs["tag.plat.identity_scheme"] = ["2", "2"]
    assert Results(frames, experiment).warnings() == []
    frames.runs["tag.plat.trainer"] = ["embedded 1.0", "embedded 2.0"]
    (warning,) = Results(frames, experiment).warnings()
    assert "embedded 1.0 (1 run), embedded 2.0 (1 run)" in warning
