"""Claims over tasks with few seeds, and over runs without pairs, from an experiment and its frames to a verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.errors import SpecError
from plat.store.mlflow.frames import Frames
from plat_analysis.claims.checks import mean_delta_positive, mean_delta_small
from plat_analysis.plugins.entry_checking import check_entries

MEASURE = {"metric": "score"}
TASKS = [f"t{number}" for number in range(104)]


def planted(make_experiment, *, effect, tasks=TASKS, seeds=range(3), lost=(), unequal=False, builds=None):
    """Three seeds on many tasks: noise of 1 in each run, 5 between tasks, 1 between the tasks' changes."""
    experiment = make_experiment(rows=["PPO"], tasks=tasks, filters=["none", "top_p"], seeds=seeds, builds=builds)
    if unequal:  # the baseline lacks its last seeds
        runs = [r for r in experiment.runs if r.axes["filter"] == "top_p" or r.axes["seed"] < 5]
        experiment = replace(experiment, runs=runs, cells=[(run.axes, run.id) for run in runs])
    random = np.random.default_rng(1)
    of_task = {task: (5 * random.normal(), effect + random.normal()) for task in tasks}
    rows = []
    for index, run in enumerate(experiment.runs):
        level, change = of_task[run.axes["task"]]
        value = level + random.normal() + change * (run.axes["filter"] == "top_p")
        rows += [(run.id, "score", 5, value)] if index not in lost else []
    kept = {row[0] for row in rows}
    frames = Frames(
        runs=pd.DataFrame(
            [{"run_id": r.id, "name": r.name, "outcome": "finished"} for r in experiment.runs if r.id in kept]
        ),
        metrics=pd.DataFrame(rows, columns=["run_id", "key", "step", "value"]),
        tables=pd.DataFrame([], columns=["run_id", "name", "step", "data"]),
    )
    return frames, experiment


def changes(frames, experiment):
    """The mean change of each task."""
    value = dict(zip(frames.metrics.run_id, frames.metrics.value, strict=True))
    table = pd.DataFrame([{**run.axes, "value": value[run.id]} for run in experiment.runs if run.id in value])
    means = table.groupby(["task", "filter"]).value.mean().unstack()
    return means["top_p"] - means["none"]


def judge(planted, check=mean_delta_positive, **options):
    return check(*planted, **{"measure": MEASURE, "smallest": 0.5, "units": "tasks"} | options)


def test_three_seeds_on_many_tasks_decide(make_experiment):
    store = planted(make_experiment, effect=0.6)
    assert judge(store, units="pairs").status == "not_enough_data"
    verdict, by_task = judge(store), changes(*store)
    assert verdict.status == "shown"
    assert verdict.value["PPO"] == pytest.approx(by_task.mean())
    assert verdict.bounds["PPO"] == pytest.approx(stats.t.interval(0.95, 103, by_task.mean(), stats.sem(by_task)))
    assert (
        "about this build of the base model, over tasks like these" in verdict.lines
        and "(signed ranks)" in verdict.lines[1]
    )
    assert verdict.lines[-1].startswith("PPO: further runs of these tasks, paired by seed: [+")
    assert judge(planted(make_experiment, effect=-0.6)).status in ("contradicted", "not_of_this_size")
    assert judge(planted(make_experiment, effect=0.0), mean_delta_small, smallest=1).status == "shown"


def test_a_missing_run_decides_nothing(make_experiment):
    verdict = judge(planted(make_experiment, effect=3.0, lost=[7]))
    assert verdict.status == "not_enough_data" and "t1: seed 1: not run" in verdict.detail


def test_few_tasks_are_refused_with_the_reason(make_experiment):
    verdict = judge(planted(make_experiment, effect=3.0, tasks=TASKS[:7]))
    assert verdict.status == "not_enough_data"
    assert "7 of the 8 tasks that a verdict over tasks needs" in verdict.detail
    assert "a verdict needs at least 8 tasks" in verdict.detail
    alone = judge(planted(make_experiment, effect=3.0, tasks=TASKS[:9]), by_column=True)
    assert alone.status == "not_enough_data" and "1 of the 8 tasks" in alone.detail


def test_sides_with_different_seeds_are_refused_unless_units_say_so(make_experiment):
    store = planted(make_experiment, effect=8.0, tasks=["a"], seeds=range(10), unequal=True)
    claim = {"id": "x", "check": "mean_delta_positive", "rows": "variant", "measure": "final"}
    claimed = replace(store[1], claims=[claim])
    with pytest.raises(SpecError, match="different runs") as refused:
        check_entries(claimed)
    assert "units: runs" in refused.value.fix
    check_entries(replace(claimed, claims=[claim | {"units": "runs"}]))
    check_entries(replace(claimed, claims=[claim | {"units": "tasks"}]))
    verdict = judge(store, units="runs")
    assert verdict.status == "shown" and "over runs, unpaired" in verdict.detail
    assert "p below .0001 (Welch), .0003 (permutation of runs, at least .0003)" in verdict.detail
    assert judge(
        planted(make_experiment, effect=-8.0, tasks=["a"], seeds=range(10), unequal=True), units="runs"
    ).status == ("contradicted")


def test_unpaired_runs_against_scipy(make_experiment):
    store = planted(make_experiment, effect=0.5, tasks=["a"], seeds=range(10), unequal=True)
    verdict = judge(store, units="runs")
    value = dict(zip(store[0].metrics.run_id, store[0].metrics.value, strict=True))
    sides = [[value[r.id] for r in store[1].runs if r.axes["filter"] == side] for side in ("top_p", "none")]
    both = stats.ttest_ind(*sides, equal_var=False).confidence_interval()
    assert verdict.bounds["PPO"] == pytest.approx((both.low, both.high))


def test_few_runs_on_a_side_and_several_builds(make_experiment):
    verdict = judge(planted(make_experiment, effect=9.0, tasks=["a"], seeds=range(4)), units="runs")
    assert verdict.status == "not_enough_data"
    assert "at least 10 runs of both sides together" in verdict.detail
    store = planted(make_experiment, effect=9.0, tasks=["a"], builds=(0, 1))
    with pytest.raises(SpecError, match="several builds"):
        judge(store, units="runs")
    claim = {"id": "x", "check": "mean_delta_positive", "rows": "variant", "measure": "final", "units": "runs"}
    with pytest.raises(SpecError, match="several builds"):
        check_entries(replace(store[1], claims=[claim]))


def test_other_units_are_refused(make_experiment):
    _, experiment = planted(make_experiment, effect=1.0, tasks=["a"])
    claim = {"id": "x", "check": "mean_delta_positive", "units": "seeds"}
    with pytest.raises(SpecError, match="units: 'seeds'"):
        check_entries(replace(experiment, claims=[claim]))
