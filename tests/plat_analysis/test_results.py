"""The join of wanted runs and the store: nothing dropped, reasons told."""

from __future__ import annotations

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.results import Results


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


def test_separate_tables_for_base_and_peak_are_found(make_experiment, make_frames):
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
    experiment.cells = [(run.axes | {"variant": row}, run.id) for row in ("PPO", "3B") for run in experiment.runs]
    results = Results(make_frames(experiment), experiment)
    assert len(results.runs) == 2 and [p.axis("variant") for p in results.positions] == ["PPO", "PPO", "3B", "3B"]


def test_an_empty_store_is_all_not_run(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"])
    frames = make_frames(experiment, holes={run.id: "absent" for run in experiment.runs})
    assert {run.missing for run in Results(frames, experiment).runs} == {"not run"}
