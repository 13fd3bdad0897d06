"""Builders over many tasks, from an experiment and its frames: against the pure functions, and with holes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat.store.mlflow.frames import Frames
from plat_analysis.figures import improvement, profile
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries
from plat_analysis.statistics import aggregate
from plat_analysis.tables import aggregate as table

ROWS, TASKS = ["PPO", "GRPO"], ["a", "b", "c", "d", "e", "f", "g", "h"]
SCORE = {"metric": "score", "digits": 3}


def planted(make_experiment, rows=ROWS, tasks=TASKS, seeds=range(4), builds=None, lost=()):
    """An experiment whose runs logged a score, and the scores: [row, task, run]."""
    experiment = make_experiment(rows=rows, tasks=tasks, filters=["none"], seeds=seeds, builds=builds)
    random = np.random.default_rng(0)
    values = {run.id: float(random.normal()) + rows.index(run.axes["variant"]) for run in experiment.runs}
    kept = [run for index, run in enumerate(experiment.runs) if index not in lost]
    frames = Frames(
        runs=pd.DataFrame([{"run_id": run.id, "name": run.name, "outcome": "finished"} for run in kept]),
        metrics=pd.DataFrame(
            [(run.id, "score", 5, values[run.id]) for run in kept], columns=["run_id", "key", "step", "value"]
        ),
        tables=pd.DataFrame([], columns=["run_id", "name", "step", "data"]),
    )
    ids = {run.id for run in kept}
    scores = {
        row: [
            np.array(
                [values[r.id] for r in experiment.runs if r.id in ids and (r.axes["variant"], r.axes["task"]) == at]
            )
            for at in ((row, task) for task in tasks)
        ]
        for row in rows
    }
    return frames, experiment, scores


def test_a_table_has_the_summaries_with_their_intervals(make_experiment):
    frames, experiment, scores = planted(make_experiment)
    (made,) = table.build(frames, experiment, measure=SCORE)
    found = {(line["row"], line["statistic"]): line for line in made.records}
    for row in ROWS:
        for name, of in {"IQM": aggregate.iqm, "mean": aggregate.mean, "median": aggregate.median}.items():
            low, high = map(float, aggregate.these_tasks(of, scores[row]))
            line = found[row, name]
            assert (line["value"], line["low"], line["high"]) == pytest.approx((float(of(scores[row])), low, high))
            assert line["interval_over"] == "seeds" and line["seeds"] == 32
            assert made.values[f"aggregate/{row}/{name}"] == line["value"]
    assert found["PPO", "optimality gap"]["value"] == pytest.approx(float(aggregate.optimality_gap(scores["PPO"])))
    (wider,) = table.build(frames, experiment, measure=SCORE, tasks="random", target=2.0)
    line = {(line["row"], line["statistic"]): line for line in wider.records}["PPO", "IQM"]
    assert line["interval_over"] == "tasks" and "about tasks like these" in wider.caption
    assert (line["low"], line["high"]) == pytest.approx(aggregate.tasks_like_these(aggregate.iqm, scores["PPO"]))


def test_a_missing_run_is_marked_and_a_missing_task_leaves_no_value(make_experiment):
    frames, experiment, scores = planted(make_experiment, lost=[0])
    (made,) = table.build(frames, experiment, measure=SCORE)
    cells = made.rows[0].cells
    assert cells[2].text == "31" and cells[3].mark == "a" and made.notes[0].text == "a: seed 0: not run"
    assert made.records[0]["value"] == pytest.approx(float(aggregate.iqm(scores["PPO"])))
    frames, experiment, _ = planted(make_experiment, lost=range(4))
    (made,) = table.build(frames, experiment, measure=SCORE)
    assert made.records[0]["value"] is None and made.notes[0].text == "a: not run"
    (figure,) = improvement.build(frames, experiment, measure=SCORE)
    assert figure.points[0]["value"] is None
    (figure,) = profile.build(frames, experiment, measure=SCORE, thresholds=[0, 1])
    assert {point["row"] for point in figure.points} == {"GRPO"} and "not drawn: PPO" in figure.caption
    assert images(figure)["png"]


def test_few_runs_have_no_interval(make_experiment):
    frames, experiment, _ = planted(make_experiment, seeds=range(2))
    (made,) = table.build(frames, experiment, measure=SCORE)
    assert made.records[0]["value"] is not None and made.records[0]["low"] is None
    assert made.notes[-1].text == "An interval needs three runs of each task that are not all equal."
    frames, experiment, _ = planted(make_experiment, tasks=TASKS[:7])
    (made,) = table.build(frames, experiment, measure=SCORE, tasks="random")
    assert made.records[0]["low"] is None and made.notes[-1].text == "An interval needs eight tasks."


def test_builds_are_strata(make_experiment):
    frames, experiment, scores = planted(make_experiment, tasks=["a"], builds=(0, 1))
    (made,) = table.build(frames, experiment, measure=SCORE)
    line = made.records[0]
    assert line["interval_about"] == "these 2 builds" and line["seeds"] == 8
    assert line["value"] == pytest.approx(float(aggregate.iqm([scores["PPO"][0]])))


def test_a_profile_is_drawn_with_its_band(make_experiment):
    frames, experiment, scores = planted(make_experiment)
    (figure,) = profile.build(frames, experiment, measure=SCORE, thresholds=[-1, 0, 1])
    points = [point for point in figure.points if point["row"] == "GRPO"]
    assert [p["threshold"] for p in points] == [-1, 0, 1]
    assert [p["value"] for p in points] == pytest.approx(aggregate.profile(scores["GRPO"], [-1, 0, 1]))
    assert all(p["low"] <= p["value"] <= p["high"] for p in points)
    assert images(figure)["png"].startswith(b"\x89PNG")
    (figure,) = profile.build(frames, experiment, measure=SCORE, thresholds=[-1, 1])
    assert len(figure.points) == 2 * profile.POINTS


def test_the_probability_of_improvement_over_a_baseline(make_experiment):
    frames, experiment, scores = planted(make_experiment)
    (figure,) = improvement.build(frames, experiment, measure=SCORE)
    (point,) = figure.points
    assert point["value"] == pytest.approx(float(aggregate.improvement(scores["GRPO"], scores["PPO"])))
    assert point["against"] == "PPO" and point["low"] < point["value"] < point["high"] and point["seeds"] == 64
    assert 'id="improvement-0"' in images(figure)["svg"].decode()
    (figure,) = improvement.build(frames, experiment, measure=SCORE, baseline="GRPO")
    assert figure.points[0]["value"] == pytest.approx(1 - point["value"])


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"builder": "profile"}, "no range of thresholds"),
        ({"builder": "profile", "thresholds": [1, 0]}, "not a range of rising numbers"),
        ({"builder": "profile", "thresholds": [0.5]}, "not a range of rising numbers"),
        ({"builder": "improvement", "baseline": "PPQ"}, "there is no row 'PPQ'"),
        ({"builder": "improvement", "rows": []}, "nothing to compare"),
        ({"builder": "aggregate", "tasks": "all"}, "tasks: 'all'"),
        ({"builder": "aggregate", "columns": []}, "more than one run"),
        ({"builder": "aggregate", "measure": {"metric": "val/success", "normalised": {"low": 0}}}, "low and high"),
        (
            {"builder": "aggregate", "measure": {"metric": "val/success", "normalised": {"low": 0, "high": {"a": 1}}}},
            "task = b has no low or no high score",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_before_any_run(make_experiment, entry, message):
    rows = ["PPO"] if entry.get("rows") == [] else ROWS
    experiment = make_experiment(rows=rows, tasks=["a", "b"], filters=["none"])
    with pytest.raises(SpecError, match=message):
        check_entries(replace(experiment, report=[entry]))


def test_rows_with_other_tasks_are_not_compared(make_experiment):
    experiment = make_experiment(rows=ROWS, tasks=["a", "b"], filters=["none"])
    runs = [run for run in experiment.runs if (run.axes["variant"], run.axes["task"]) != ("GRPO", "b")]
    experiment = replace(experiment, runs=runs, cells=[(run.axes, run.id) for run in runs])
    with pytest.raises(SpecError, match="GRPO and PPO have different tasks: b"):
        check_entries(replace(experiment, report=[{"builder": "improvement"}]))
    check_entries(replace(experiment, report=[{"builder": "aggregate"}]))
