"""Quantities of any metric that runs record: its first or last value, that of a step, a median, a slope, a time.

An experiment file names one by the metric alone, or with how a run's curve becomes a number:

    rollout/response_tokens                           the last measurement
    {metric: val/return, at: start}                   the first one, of the base model before training
    {metric: probe/retrieval_acc, at: peak}           the one at the step of the peak of success, or the last before it
    {metric: success, at: 100}                        the one at iteration 100, or the last before it
    {metric: success, median_of_last: 8}              the median of the last 8 (Figure 9)
    {metric: val/return, mean_of_last: 4}
    {metric: rollout/response_tokens, slope: true}    least squares, per iteration (Figure 7)
    {metric: success, steps_to: 0.5}                  the first step at which it is at least .5
    {metric: success, mean: true}                     the mean over training, the base model included (Figure 6)
    {metric: success, least: true}                    the smallest one: did a run ever fall below a level? (Table 9)
    {metric: success, minus: val/success_swapped}     the difference of two metrics of one run, in any of these ways
    {metric: grad/q6/task, over: grad/q1/task}        their ratio (Figure 3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.data.runs import SUCCESS, Curve, Results, RunView
from plat_analysis.quantities.quantity import Absent, Measurement, Quantity
from plat_analysis.quantities.success import SUCCESSES, peak_score

At = Literal["start", "end"]
UNMEASURED = Absent("not measured")
Number = Callable[[Curve, Results, RunView], Measurement | Absent]
Joined = Callable[[Sequence[NDArray[np.float64]]], NDArray[np.float64]]


def metric_quantity(
    metric: str,
    at: Any = "end",
    factor: float = 1.0,
    bounds: tuple[float, float] | None = None,
    name: str = "",
    digits: int = 1,
) -> Quantity:
    """A metric at the start or the end of a run, at its peak, or at an iteration."""
    return _quantity(metric, partial(_at, at=at), name or metric, factor, bounds, digits, seedless=at == "start")


def _quantity(metric: str, number: Number, name: str, factor: float, bounds: Any, digits: int, **more: Any) -> Quantity:
    return _quantity_of((metric,), lambda values: values[0], number, name, factor, bounds, digits, **more)


def _quantity_of(
    metrics: Sequence[str],
    joined: Joined,
    number: Number,
    name: str,
    factor: float,
    bounds: Any,
    digits: int,
    **more: Any,
) -> Quantity:
    """A number of the curve that joins the values of metrics, at the steps at which all of them were measured."""

    def of(results: Results, run: RunView) -> Measurement | Absent:
        curves = [results.curve(run.id, metric) for metric in metrics]
        steps = curves[0][0]
        for other, _ in curves[1:]:
            steps = np.intersect1d(steps, other)
        if not len(steps):
            return UNMEASURED
        values = joined([values[np.isin(at, steps)] for at, values in curves])
        return number((steps, values), results, run) if np.isfinite(values).all() else Absent("divided by zero")

    return Quantity(name, of, factor, bounds, digits, metrics=tuple(metrics), **more)


def _difference(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return values[0] - values[1]


def _ratio(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return values[0] / values[1]


def _at(curve: Curve, results: Results, run: RunView, at: Any) -> Measurement | Absent:
    steps, values = curve
    if at == "start":
        return Measurement(float(values[0]), step=int(steps[0]))
    wanted: float = np.inf
    if at == "peak":
        best = peak_score(results, run)
        if best is None or best.step is None:
            return Absent("not evaluated")
        wanted = best.step
    elif at != "end":
        wanted = at
    index = int(np.searchsorted(steps, wanted, side="right")) - 1
    return Measurement(float(values[index]), step=int(steps[index])) if index >= 0 else UNMEASURED


def _of_last(curve: Curve, _: Results, __: RunView, count: int, mean: Callable[..., Any]) -> Measurement | Absent:
    steps, values = curve
    if len(values) < count:
        return Absent(f"{len(values)} measurement{'s' * (len(values) != 1)} of {count}")
    return Measurement(float(mean(values[-count:])), step=int(steps[-1]))


def _slope(curve: Curve, _: Results, __: RunView) -> Measurement | Absent:
    steps, values = curve
    if len(steps) < 2:
        return Absent("one measurement has no slope")
    centred = steps - steps.mean()
    return Measurement(float(centred @ values / (centred @ centred)))


def _steps_to(curve: Curve, _: Results, __: RunView, threshold: float) -> Measurement | Absent:
    steps, values = curve
    reached = np.flatnonzero(values >= threshold)
    return Measurement(float(steps[reached[0]])) if len(reached) else Absent(f"never reached {threshold:g}")


def _mean(curve: Curve, _: Results, __: RunView) -> Measurement:
    return Measurement(float(curve[1].mean()), step=int(curve[0][-1]))


def _least(curve: Curve, _: Results, __: RunView) -> Measurement:
    steps, values = curve
    index = int(np.argmin(values))
    return Measurement(float(values[index]), step=int(steps[index]))


TAKEN = ("at", "median_of_last", "mean_of_last", "slope", "steps_to", "mean", "least")
JOINED: Mapping[str, tuple[str, Joined]] = {"minus": ("−", _difference), "over": ("/", _ratio)}
SHOWN = ("percent", "digits")
MOST_DIGITS = 10
KEYS = ("metric", *TAKEN, *JOINED, *SHOWN)


def quantity(given: str | Mapping[str, Any], name: str = "") -> Quantity:
    """The quantity that an experiment file names: `peak`, `heldout`, `final`, `base`, a metric, or a mapping as above.

    `percent: true` shows a share in percent (success always is), `digits` says how many behind the point.

    SpecError: an unknown key, several ways to make a number of a curve, two other metrics, or a value of another kind.
    """
    if isinstance(given, str):
        return SUCCESSES.get(given) or quantity({"metric": given}, name)
    if not isinstance(given, Mapping):
        raise SpecError(f"{given!r} is no measure", mend="write a metric's name, or {metric: NAME, at: peak}")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise SpecError(f"a measure has no key {unknown[0]!r}", mend=mend(unknown[0], KEYS, "keys"))
    if not isinstance(given.get("metric"), str):
        raise SpecError("a measure names no metric", mend="write {metric: NAME}, e.g. {metric: success, at: peak}")
    ways = [key for key in TAKEN if key in given]
    if len(ways) > 1:
        raise SpecError(f"a measure is taken in two ways: {' and '.join(ways)}", mend="keep one of them")
    metric, way = str(given["metric"]), ways[0] if ways else "at"
    joins = _joined(metric, given)
    share = bool(given.get("percent", metric == SUCCESS and "over" not in given)) and way != "steps_to"
    value = given.get(way, "end")
    _check(way, value)
    _check_shown(given)
    numbers: dict[str, Number] = {
        "at": partial(_at, at=value),
        "median_of_last": partial(_of_last, count=value, mean=np.median),
        "mean_of_last": partial(_of_last, count=value, mean=np.mean),
        "slope": _slope,
        "steps_to": partial(_steps_to, threshold=value),
        "mean": _mean,
        "least": _least,
    }
    bounds = (0.0, 100.0) if share and way != "slope" else None
    digits: int = given.get("digits", 1 if share or way == "steps_to" else 2)
    seedless = way == "at" and value == "start"
    factor = 100.0 if share else 1.0
    if joins is None:
        return _quantity(metric, numbers[way], name or metric, factor, bounds, digits, seedless=seedless)
    other, sign, joined = joins
    shown = name or f"{metric} {sign} {other}"
    return _quantity_of((metric, other), joined, numbers[way], shown, factor, None, digits, seedless=seedless)


def _joined(metric: str, given: Mapping[str, Any]) -> tuple[str, str, Joined] | None:
    """The other metric of a measure of two, its sign, and how their values are joined; None for a measure of one.

    SpecError where the other is no name, is the metric itself, or is given twice.
    """
    names = [key for key in JOINED if key in given]
    if not names:
        return None
    if len(names) > 1:
        raise SpecError("a measure joins two other metrics: minus and over", mend="keep one of them")
    key, other = names[0], given[names[0]]
    if not isinstance(other, str) or other == metric:
        raise SpecError(f"{key}: {other!r} is not another metric", mend=f"write {{metric: NAME, {key}: OTHER NAME}}")
    return other, *JOINED[key]


def _check_shown(given: Mapping[str, Any]) -> None:
    """SpecError where `percent` is neither true nor false, or `digits` no number of digits that can be read."""
    percent, digits = given.get("percent", False), given.get("digits", 0)
    if not isinstance(percent, bool):
        raise SpecError(f"percent: {percent!r} is not true or false", mend="write percent: true")
    if not isinstance(digits, int) or isinstance(digits, bool) or not 0 <= digits <= MOST_DIGITS:
        raise SpecError(f"digits: {digits!r} is no whole number from 0 to {MOST_DIGITS}", mend="write digits: 2")


def _check(way: str, value: Any) -> None:
    """SpecError where a way to make a number of a curve has a value of another kind."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    right = {
        "at": value in ("start", "end", "peak") or ((whole or value == 0) and not isinstance(value, bool)),
        "median_of_last": whole,
        "mean_of_last": whole,
        "slope": value is True,
        "steps_to": isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value),
        "mean": value is True,
        "least": value is True,
    }[way]
    if not right:
        needed, example = {
            "at": ("start, end, peak or an iteration", "end"),
            "slope": ("true", "true"),
            "mean": ("true", "true"),
            "least": ("true", "true"),
            "steps_to": ("a number", "0.5"),
        }.get(way, ("a whole number above 0", "4"))
        raise SpecError(f"{way}: {value!r} is not {needed}", mend=f"write {way}: {example}")
