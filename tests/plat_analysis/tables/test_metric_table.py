"""The table of any metrics: means, intervals over builds or seeds, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.claims.checks import increasing
from plat_analysis.data.results import Results
from plat_analysis.plugins.entry_checking import check_entries
from plat_analysis.quantities.metric import quantity
from plat_analysis.tables.metric_table import build

BASE = "heldout/base_success"


def setting(make_experiment, make_frames, *, values, seeds=(0,), builds=(0, 1, 2), metric=BASE, holes=None):
    """Rows small, medium, large; `values(row, build, seed)` is the metric before training, and 0.9 later."""
    rows = ["small", "medium", "large"]
    experiment = make_experiment(rows, ["sokoban"], ("none",), seeds, builds)
    frames = make_frames(experiment, steps=10, holes=holes)
    frames.metrics = frames.metrics[frames.metrics["key"] != metric]
    for run in experiment.runs:
        if run.id in set(frames.runs["run_id"]):
            number = values(rows.index(run.axes["variant"]), run.axes.get("model.base.seed", 0), run.axes["seed"])
            frames.metrics.loc[frames.metrics.index.max() + 1] = [run.id, metric, 0, number]
            frames.metrics.loc[frames.metrics.index.max() + 1] = [run.id, metric, 10, 0.9]
    return frames, experiment


def shown(table, row, metric=BASE):
    """The record of one row."""
    (line,) = [line for line in table.records if line["row"] == row and line["metric"] == metric]
    return line


def rising(row, build, seed):
    return 0.1 + 0.2 * row + 0.01 * build


def test_base_models_have_an_interval_over_their_builds(make_experiment, make_frames):
    frames, experiment = setting(make_experiment, make_frames, values=rising)
    (table,) = build(frames, experiment, rows="variant", metrics=[BASE], at="start")
    line = shown(table, "medium")
    numbers = np.array([30.0, 31.0, 32.0])
    expected = stats.t.interval(0.95, 2, numbers.mean(), stats.sem(numbers))
    assert line["value"] == pytest.approx(31.0) and line["interval_over"] == "builds"
    assert (line["low"], line["high"]) == pytest.approx(expected)
    assert table.rows[1].cells[-1].text == "31.0 [28.5, 33.5]" and "over builds" in table.caption
    assert table.values[f"metrics/medium/sokoban/{BASE}"] == pytest.approx(31.0)


def test_seeds_of_a_base_model_are_not_independent(make_experiment, make_frames):
    """Before training, runs of one build agree whatever their seed: more seeds narrow nothing."""
    frames, experiment = setting(make_experiment, make_frames, values=rising, seeds=(0, 1, 2, 3))
    many = shown(build(frames, experiment, rows="variant", metrics=[BASE], at="start")[0], "small")
    frames, experiment = setting(make_experiment, make_frames, values=rising)
    few = shown(build(frames, experiment, rows="variant", metrics=[BASE], at="start")[0], "small")
    assert (many["low"], many["high"]) == pytest.approx((few["low"], few["high"]))


def test_trained_runs_need_three_seeds(make_experiment, make_frames):
    frames, experiment = setting(make_experiment, make_frames, values=rising)
    (table,) = build(frames, experiment, rows="variant", metrics=["val/success"], at="end")
    line = shown(table, "small", "val/success")
    assert line["value"] is not None and line["low"] is None and "at the end" in table.caption
    frames, experiment = setting(make_experiment, make_frames, values=rising, seeds=(0, 1, 2), builds=None)
    (table,) = build(frames, experiment, rows="variant", metrics=["val/success"], at="end")
    assert shown(table, "small", "val/success")["interval_over"] == "seeds"


def test_a_missing_run_or_metric_is_marked(make_experiment, make_frames):
    _, experiment = setting(make_experiment, make_frames, values=rising)
    frames, _ = setting(make_experiment, make_frames, values=rising, holes={experiment.runs[0].id: "failed:oom"})
    (table,) = build(frames, experiment, rows="variant", metrics=[BASE, "probe/none"], at="start")
    assert table.rows[0].cells[-1].mark == "a" and table.notes[0].text == "build 0 seed 0: failed:oom"
    assert table.rows[3].cells[-1].text == "—" and any(
        note.text.startswith("no run logged 'probe/none', but ") for note in table.notes
    )


def claimed(make_experiment, make_frames, values):
    frames, experiment = setting(make_experiment, make_frames, values=values, builds=range(5))
    return increasing(frames, experiment, rows="variant", metric=BASE, at="start")


def test_the_order_of_rows_is_judged_step_by_step(make_experiment, make_frames):
    def noisy(row, build, seed):
        return rising(row, build, seed) + 0.004 * ((7 * row + 5 * build) % 3)

    verdict = claimed(make_experiment, make_frames, noisy)
    assert verdict.status == "shown" and set(verdict.value) == {
        "sokoban, small to medium",
        "sokoban, medium to large",
    }
    verdict = claimed(make_experiment, make_frames, lambda *at: 1 - noisy(*at))
    assert verdict.status in ("contradicted", "not_of_this_size")
    verdict = claimed(make_experiment, make_frames, lambda row, build, seed: 0.3 + 0.1 * ((row + build) % 3))
    assert verdict.status == "open" and "builds would decide" in verdict.detail


def test_an_order_needs_two_rows(make_experiment, make_frames):
    experiment = make_experiment(["small"], ["sokoban"], ("none",), builds=(0, 1, 2))
    verdict = increasing(make_frames(experiment), experiment, rows="variant", metric=BASE)
    assert verdict.status == "not_enough_data" and "one row only, small" in verdict.detail


def test_entries_that_cannot_work_are_refused_before_training(make_experiment):
    def entry(**options):
        return make_experiment(["PPO"], ["sokoban"], report=[{"builder": "metric_table", **options}])

    check_entries(entry(rows=["variant", "filter"], metrics=["val/success"]))
    with pytest.raises(SpecError, match="more than one run"):
        check_entries(entry(rows="variant", metrics=["val/success"]))
    with pytest.raises(SpecError, match="at: 'now'"):
        check_entries(entry(rows=["variant", "filter"], metrics=["val/success"], at="now"))
    with pytest.raises(SpecError, match="metrics"):
        check_entries(entry(rows=["variant", "filter"]))


@pytest.mark.parametrize(("value", "text"), [(1.0, "100.0"), (0.73519, "73.5")])
def test_equal_values_have_no_interval(make_experiment, make_frames, value, text):
    """The mean of three times 0.73519 is rounded, so that they differ from it."""
    frames, experiment = setting(make_experiment, make_frames, values=lambda *at: value)
    (table,) = build(frames, experiment, rows="variant", metrics=[BASE], at="start")
    assert table.rows[0].cells[-1].text == text and "all its values are equal" in table.notes[-1].text


@pytest.mark.parametrize(
    ("values", "first"), [([4.6e-4, 5.1e-4, 2e-5], "0.0004600"), ([1020.5, 1020.46, 1020.41], "1020.500")]
)
def test_without_digits_numbers_that_are_no_percentages_have_those_they_need(
    make_experiment, make_frames, values, first
):
    frames, experiment = setting(make_experiment, make_frames, values=lambda row, *_: values[row])
    asked = {"rows": "variant", "metrics": [BASE], "at": "start", "percent": False}
    (table,) = build(frames, experiment, **asked)
    assert len({row.cells[-1].text for row in table.rows}) == 3 and table.rows[0].cells[-1].text.startswith(first)
    verdict = increasing(frames, experiment, rows="variant", metric=BASE, at="start", percent=False)
    assert "points" not in verdict.detail
    small = quantity({"metric": BASE, "at": "start"}, results=Results(frames, experiment))
    assert (small.digits > 2) == (values[0] < 1)


def test_a_metric_that_no_run_logged_is_named_under_the_table_with_the_nearest_one(make_experiment, make_frames):
    frames, experiment = setting(make_experiment, make_frames, values=rising)
    (table,) = build(frames, experiment, rows="variant", metrics=["val/sucess"])
    assert "No run logged 'val/sucess': did you mean 'val/success'?" in [note.text for note in table.notes]
    (table,) = build(frames, experiment, rows="variant", metrics=["success", BASE])
    assert not any("No run logged" in note.text for note in table.notes)
