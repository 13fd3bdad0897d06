"""Quantities of a curve against the obvious computation, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plat.errors import SpecError
from plat.store.mlflow.frames import Frames
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Absent

curves = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 1000)), min_size=2, max_size=9, unique_by=lambda p: p[0]
)


def measure(make_experiment, given, points, success=((0, 0.1), (20, 0.9), (40, 0.4)), other=()):
    """A quantity of one run that logged these points of a metric, and these of success."""
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], filters=["none"])
    run = experiment.runs[0].id
    rows = [(run, "cost", step, value) for step, value in points]
    rows += [(run, "val/success", step, value) for step, value in success]
    rows += [(run, "other", step, value) for step, value in other]
    frames = Frames(
        runs=pd.DataFrame([{"run_id": run, "name": "a", "outcome": "finished"}]),
        metrics=pd.DataFrame(rows, columns=["run_id", "key", "step", "value"]),
        tables=pd.DataFrame([], columns=["run_id", "name", "step", "data"]),
    )
    results = Results(frames, experiment)
    return quantity(given).measure(results, results.runs[0])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curves)
def test_each_way_to_make_a_number_of_a_curve(make_experiment, points):
    steps, values = map(np.array, zip(*sorted(points), strict=True))
    expected = {
        "cost": values[-1],
        ("at", "start"): values[0],
        ("median_of_last", 2): np.median(values[-2:]),
        ("mean_of_last", 2): values[-2:].mean(),
        ("slope", True): np.polyfit(steps, values, 1)[0],
        ("least", True): min(values),
    }
    for key, value in expected.items():
        given_ = key if isinstance(key, str) else {"metric": "cost", key[0]: key[1]}
        assert measure(make_experiment, given_, points).value == pytest.approx(value, abs=1e-6), key


@pytest.mark.parametrize(
    "given_, value, step",
    [
        ({"metric": "cost", "at": "peak"}, 5, 15),  # the peak of success is at 20; the last cost before it is of 15
        ({"metric": "cost", "at": 29}, 5, 15),
        ({"metric": "cost", "at": 30}, 9, 30),
        ({"metric": "cost", "steps_to": 5}, 15, None),
        ({"metric": "cost", "steps_to": 8}, 30, None),
    ],
)
def test_a_value_at_a_step(make_experiment, given_, value, step):
    found = measure(make_experiment, given_, [(10, 1), (15, 5), (30, 9)])
    assert (found.value, found.step) == (value, step)


@pytest.mark.parametrize(
    "given_, value, step",
    [
        ({"minus": "other"}, 9 - 4, 30),
        ({"minus": "other", "at": "start"}, 5 - 2, 15),  # the first step that both have
        ({"minus": "other", "mean": True}, 4, 30),
        ({"over": "other", "at": 15}, 2.5, 15),
        ({"over": "other", "slope": True}, (9 / 4 - 5 / 2) / 15, None),
    ],
)
def test_two_metrics_of_one_run(make_experiment, given_, value, step):
    other = [(15, 2), (20, 7), (30, 4)]
    found = measure(make_experiment, {"metric": "cost"} | given_, [(10, 1), (15, 5), (30, 9)], other=other)
    assert (found.value, found.step) == (pytest.approx(value), step)


def test_a_difference_of_two_shares_is_in_points_and_has_no_bounds():
    given_ = {"metric": "success", "minus": "val/success_swapped"}
    found = quantity(given_)
    assert (found.factor, found.bounds, found.metrics) == (100, None, ("success", "val/success_swapped"))
    assert found.name == "success − val/success_swapped" and quantity(given_, "loss").name == "loss"
    assert quantity({"metric": "success", "over": "val/success_swapped"}).factor == 1


def test_two_metrics_that_do_not_meet_have_no_value(make_experiment):
    for key in ("minus", "over"):
        given_ = {"metric": "cost", key: "other"}
        assert measure(make_experiment, given_, [(10, 1)], other=[(20, 1)]) == Absent("not measured")
    assert measure(make_experiment, given_, [(10, 1)], other=[(10, 0)]) == Absent("divided by zero")


@pytest.mark.parametrize(
    "given_, why",
    [
        ({"metric": "nothing"}, "no run logged 'nothing', but cost, val/success"),
        ({"metric": "costt"}, "no run logged 'costt': did you mean 'cost'?"),
        ({"metric": "cost", "at": 5}, "not measured"),
        ({"metric": "cost", "steps_to": 50}, "never reached 50"),
        ({"metric": "cost", "median_of_last": 8}, "3 measurements of 8"),
    ],
)
def test_why_there_is_no_value(make_experiment, given_, why):
    assert measure(make_experiment, given_, [(10, 1), (15, 5), (30, 9)]) == Absent(why)


@pytest.mark.parametrize(
    "given_, what",
    [
        ({"metric": "cost", "median": 8}, "a measure has no key 'median'"),
        ({"at": "end"}, "a measure names no metric"),
        ({"metric": "cost", "at": "end", "slope": True}, "taken in two ways: at and slope"),
        ({"metric": "cost", "at": "middle"}, "at: 'middle' is not start, end, peak or an iteration"),
        ({"metric": "cost", "mean_of_last": 0}, "mean_of_last: 0 is not a whole number above 0"),
        ({"metric": "cost", "slope": 2}, "slope: 2 is not true"),
        ({"metric": "cost", "at": True}, "at: True is not"),
        ({"metric": "cost", "steps_to": "half"}, "steps_to: 'half' is not a number"),
        ({"metric": "cost", "minus": "cost"}, "minus: 'cost' is not another metric"),
        ({"metric": "cost", "over": 3}, "over: 3 is not another metric"),
        ({"metric": "cost", "over": "a", "minus": "b"}, "joins two other metrics: minus and over"),
    ],
)
def test_what_is_no_measure_is_refused(given_, what):
    with pytest.raises(SpecError, match=what):
        quantity(given_)


def test_success_is_in_percent_and_other_metrics_are_not():
    assert quantity({"metric": "success"}).factor == 100 and quantity("peak").factor == 100
    assert quantity("val/return").factor == 1 and quantity({"metric": "probe/fluent", "percent": True}).factor == 100
    assert quantity({"metric": "val/return", "at": "start"}).seedless and not quantity("val/return").seedless


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(curves)
def test_the_area_under_a_curve_is_a_mean_over_steps(make_experiment, points):
    """The mean of a line through the measurements, at all steps between the first and the last."""
    steps, values = map(np.array, zip(*sorted(points), strict=True))
    fine = np.linspace(steps[0], steps[-1], 20_001)
    expected = np.interp(fine, steps, values).mean()
    assert measure(make_experiment, {"metric": "cost", "auc": True}, points).value == pytest.approx(expected, abs=0.2)


def test_a_change_is_of_the_means_of_the_first_and_the_last_part(make_experiment):
    """A fifth of twelve values is two of them; less than one value is one (Figure 7)."""
    points = [(step, float(value)) for step, value in enumerate([4, 6, *range(20, 28), 8, 4])]
    change = {"metric": "cost", "change": {"first": 0.2, "last": 0.2}}
    assert measure(make_experiment, change, points).value == pytest.approx(6 / 5 - 1)
    assert measure(make_experiment, change, points[:3]).value == pytest.approx(20 / 4 - 1)
    assert measure(make_experiment, change, points[:1]) == Absent("one measurement has no change")
    assert measure(make_experiment, change, [(1, 0.0), (2, 3.0)]) == Absent("its first part is zero")
    assert quantity({**change, "percent": True}).bounds is None  # a fall of 3 % had the interval [0.0, 5.2]
    assert quantity({"metric": "cost", "at": "end", "percent": True}).bounds == (0.0, 100.0)


@pytest.mark.parametrize("parts", [0.2, {"first": 0.2}, {"first": 0.2, "last": 0.6}, {"first": 0, "last": 0.2}])
def test_parts_of_a_change_that_are_none(parts):
    with pytest.raises(SpecError, match=r"each up to 0\.5"):
        quantity({"metric": "cost", "change": parts})


def test_a_curve_without_an_area(make_experiment):
    auc = {"metric": "cost", "auc": True}
    assert measure(make_experiment, auc, [(3, 1.0)]) == Absent("one measurement has no area under it")
    diverged = measure(make_experiment, auc, [(3, 1.0), (4, 2.0), (5, np.nan)])
    assert diverged == Absent("cost is no finite number from step 5 on")


def test_a_threshold_that_is_never_reached_is_named(make_experiment):
    points = [(0, 0.0), (5, 40.0), (9, 90.0)]
    to = {"metric": "cost", "steps_to": 0.5}
    assert measure(make_experiment, to | {"normalised": {"low": 0, "high": 100}}, points).value == 9
    assert measure(make_experiment, to | {"normalised": {"low": 0, "high": 200}}, points) == Absent("never reached 0.5")


@pytest.mark.parametrize("way", [{}, {"mean": True}, {"auc": True}, {"least": True}, {"at": "peak"}])
def test_a_normalised_metric_is_scaled(make_experiment, way):
    points = [(0, 4.0), (20, 8.0), (40, 2.0)]
    plain = measure(make_experiment, {"metric": "cost", **way}, points).value
    scales = [{"low": 2, "high": 10}, {"low": {"sokoban": 2}, "high": {"sokoban": 10, "other": 0}, "by": "task"}]
    for scale in scales:
        found = measure(make_experiment, {"metric": "cost", "normalised": scale, **way}, points)
        assert found.value == pytest.approx((plain - 2) / 8)
    sloped = measure(make_experiment, {"metric": "cost", "slope": True, "normalised": scales[0]}, points).value
    assert sloped == pytest.approx(measure(make_experiment, {"metric": "cost", "slope": True}, points).value / 8)


@pytest.mark.parametrize(
    "scale, message",
    [
        (5, "does not give low and high"),
        ({"low": 0}, "does not give low and high"),
        ({"low": 1, "high": 1}, "both 1"),
        ({"low": {"sokoban": 1}, "high": 1}, "both 1 for sokoban"),
        ({"low": 0, "high": "many"}, "high is 'many', not a number"),
        ({"low": 0, "high": float("inf")}, "not a number"),
        ({"low": {}, "high": 1}, "low is None, not a number"),
        ({"low": 0, "high": 1, "axis": "task"}, "no key 'axis'"),
    ],
)
def test_a_scale_that_is_none(scale, message):
    with pytest.raises(SpecError, match=message):
        quantity({"metric": "cost", "normalised": scale})


def test_a_run_without_a_scale_is_refused_or_absent(make_experiment):
    given_ = {"metric": "cost", "normalised": {"low": 0, "high": {"countdown": 1}}}
    with pytest.raises(SpecError, match="task = sokoban has no low or no high score"):
        quantity(given_, results=Results.planned(make_experiment(rows=["PPO"], tasks=["sokoban"])))
    assert measure(make_experiment, given_, [(0, 1.0)]) == Absent("no scores to normalise sokoban")
