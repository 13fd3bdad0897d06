"""Quantities of any logged metric: its first or last value, that of a step, a median, a slope, a time.

An experiment file names one by the metric alone, or with the way a run's curve becomes a number:

    rollout/response_tokens                           the last measurement
    {metric: val/return, at: start}                   the first one, of the base model before training
    {metric: probe/retrieval_acc, at: peak}           the one at the step of the peak of success, or the last before it
    {metric: success, at: 100}                        the one at iteration 100, or the last before it
    {metric: success, median_of_last: 8}              the median of the last 8 (Figure 9)
    {metric: val/return, mean_of_last: 4}
    {metric: rollout/response_tokens, slope: true}    least squares, per iteration (Figure 7)
    {metric: success, steps_to: 0.5}                  the first step at which it is at least .5
    {metric: success, mean: true}                     the mean over training, the base model included (Figure 6)
    {metric: success, auc: true}                      the area under the curve, divided by the range of its steps
    {metric: length, change: {first: 0.2, last: 0.2}} mean of the last fifth of the values over that of the first, − 1
    {metric: success, least: true}                    the smallest one: did a run ever fall below a level? (Table 9)
    {metric: success, most: true}                     the largest one; it rises with the number of measurements
    {metric: success, minus: val/success_swapped}     the difference of two metrics of one run, in any of these ways
    {metric: grad/q6/task, over: grad/q1/task}        their ratio (Figure 3)
    {metric: score, normalised: {low: 0, high: 500}}  in a unit that tasks share, in any of these ways
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.suggest import suggest
from plat.units import counted
from plat.words.metric_names import SUCCESS
from plat_analysis.data.results import Results, RunView
from plat_analysis.quantities.normalised import Scale
from plat_analysis.quantities.quantity import SUCCESSES, Absent, Measurement, Quantity, peak_score

At = Literal["start", "end"]
Steps = NDArray[np.int64]
Values = NDArray[np.float64]
UNMEASURED = Absent("not measured")
SHOWN = ("percent", "digits")
NORMALISED = "normalised"
PARTS = ("first", "last")  # of a curve
OF_LAST = ("median_of_last", "mean_of_last", "auc", "change")  # a curve that ends in NaN has no such number
MOST_DIGITS = 10
SIGNIFICANT = 4  # digits of the largest value of a metric
ROUNDING = 1e-9  # a smaller spread, as a share of the values, is that of adding numbers in another order
SMALL = 0.1  # two decimals hide values that are all below it


class Way(NamedTuple):
    """Define how a curve becomes a number.

    take     (steps, values, the value in the file) -> the number; for `at: peak`, the value is the step of the peak
    valid    value in the file -> True if it is allowed; `needed` says in words which are, and `example` is one
    """

    take: Callable[[Steps, Values, Any], Measurement | Absent]
    valid: Callable[[Any], bool]
    needed: str
    example: str


def _at(steps: Steps, values: Values, at: Any) -> Measurement | Absent:
    if at == "start":
        return Measurement(float(values[0]), step=int(steps[0]))
    index = int(np.searchsorted(steps, np.inf if at == "end" else at, side="right")) - 1
    return Measurement(float(values[index]), step=int(steps[index])) if index >= 0 else UNMEASURED


def _of_last(steps: Steps, values: Values, count: int, mean: Callable[..., Any]) -> Measurement | Absent:
    if len(values) < count:
        return Absent(f"{counted(len(values), 'measurement')} of {count}")
    return Measurement(float(mean(values[-count:])), step=int(steps[-1]))


def _slope(steps: Steps, values: Values, _: Any) -> Measurement | Absent:
    if len(steps) < 2:
        return Absent("one measurement has no slope")
    centred = steps - steps.mean()
    return Measurement(float(centred @ values / (centred @ centred)))


def _steps_to(steps: Steps, values: Values, threshold: float) -> Measurement | Absent:
    reached = np.flatnonzero(values >= threshold)
    return Measurement(float(steps[reached[0]])) if len(reached) else Absent(f"never reached {threshold:g}")


def _mean(steps: Steps, values: Values, _: Any) -> Measurement:
    return Measurement(float(values.mean()), step=int(steps[-1]))


def _auc(steps: Steps, values: Values, _: Any) -> Measurement | Absent:
    if len(steps) < 2:
        return Absent("one measurement has no area under it")
    return Measurement(float(np.trapezoid(values, steps) / (steps[-1] - steps[0])), step=int(steps[-1]))


def _change(steps: Steps, values: Values, parts: Mapping[str, float]) -> Measurement | Absent:
    """Return the relative change from the first part of a curve to the last (Figure 7).

    A part has as many values as its share, rounded down, but at least one.
    """
    first, last = (max(1, int(parts[key] * len(values) + ROUNDING)) for key in PARTS)
    start = float(values[:first].mean())
    if len(values) < 2 or start == 0:
        return Absent("one measurement has no change" if len(values) < 2 else "its first part is zero")
    return Measurement(float(values[-last:].mean()) / start - 1, step=int(steps[-1]))


def _extreme(steps: Steps, values: Values, _: Any, index_of: Callable[[Values], np.intp]) -> Measurement:
    index = int(index_of(values))
    return Measurement(float(values[index]), step=int(steps[index]))


def _ratio(first: Values, second: Values) -> Values:
    with np.errstate(divide="ignore", invalid="ignore"):
        return first / second


def _is_true(value: Any) -> bool:
    return value is True


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_place(value: Any) -> bool:
    return value in ("start", "end", "peak") or _is_count(value) or (value == 0 and not isinstance(value, bool))


def _is_parts(value: Any) -> bool:
    is_whole = isinstance(value, Mapping) and set(value) == set(PARTS) and all(map(_is_number, value.values()))
    return is_whole and all(0 < part <= 0.5 for part in value.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


TAKEN: Mapping[str, Way] = {
    "at": Way(_at, _is_place, "start, end, peak or an iteration", "end"),
    "median_of_last": Way(partial(_of_last, mean=np.median), _is_count, "a whole number above 0", "4"),
    "mean_of_last": Way(partial(_of_last, mean=np.mean), _is_count, "a whole number above 0", "4"),
    "slope": Way(_slope, _is_true, "true", "true"),
    "steps_to": Way(_steps_to, _is_number, "a number", "0.5"),
    "mean": Way(_mean, _is_true, "true", "true"),
    "auc": Way(_auc, _is_true, "true", "true"),
    "change": Way(
        _change, _is_parts, "{first: SHARE, last: SHARE} of the values, each up to 0.5", "{first: 0.2, last: 0.2}"
    ),
    "least": Way(partial(_extreme, index_of=np.argmin), _is_true, "true", "true"),
    "most": Way(partial(_extreme, index_of=np.argmax), _is_true, "true", "true"),
}
UNBOUNDED = ("slope", "change")  # of a share they may be below 0, and above 1
JOINED: Mapping[str, tuple[str, Callable[[Values, Values], Values]]] = {
    "minus": ("−", np.subtract),
    "over": ("/", _ratio),
}
KEYS = ("metric", *TAKEN, *JOINED, NORMALISED, *SHOWN)


def quantity(given: str | Mapping[str, Any], name: str = "", results: Results | None = None) -> Quantity:
    """Return the quantity that an experiment file names: `peak`, `heldout`, `final`, `base`, a metric, or a mapping.

    `percent: true` shows a share in percent; that is the default for the metric `success` without `over` and
    `normalised`. `steps_to` ignores it. `digits` is the number of decimals; without it, values of `results` below SMALL
    have their `decimals`. `name` replaces the metric's name, but not that of `peak`, `heldout`, `final` and `base`.
    Raises SpecError for neither name nor mapping, no metric, an unknown key, both `minus` and `over`, an invalid value,
    more than one key of TAKEN, or a wrong `normalised`.
    """
    if isinstance(given, str):
        if given in SUCCESSES:
            _check_share(results)
        return SUCCESSES.get(given) or quantity({"metric": given}, name, results)
    if not isinstance(given, Mapping):
        raise SpecError(f"{given!r} is not a measure", fix="write a metric's name, or {metric: NAME, at: peak}")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise SpecError(f"a measure has no key {unknown[0]!r}", fix=suggest(unknown[0], KEYS, "keys"))
    if not isinstance(given.get("metric"), str):
        raise SpecError("a measure names no metric", fix="write {metric: NAME}, e.g. {metric: success, at: peak}")
    ways = [key for key in TAKEN if key in given]
    if len(ways) > 1:
        raise SpecError(f"a measure is taken in two ways: {' and '.join(ways)}", fix="keep one of them")
    metric, way = str(given["metric"]), ways[0] if ways else "at"
    joint = _joint(metric, given)
    scale = Scale.read(given[NORMALISED]) if NORMALISED in given else None
    if scale is not None and results is not None:
        scale.check(results)
    is_share = metric == SUCCESS and "over" not in given and scale is None
    if is_share and "percent" not in given:
        _check_share(results)
    share = bool(given.get("percent", is_share)) and way != "steps_to"
    value = given.get(way, "end")
    if not TAKEN[way].valid(value):
        raise SpecError(f"{way}: {value!r} is not {TAKEN[way].needed}", fix=f"write {way}: {TAKEN[way].example}")
    _check_shown(given)
    metrics = [metric, *([given[joint]] if joint else [])]
    of = Quantity(
        name or f" {JOINED[joint][0] if joint else ''} ".join(metrics),
        _measure(metrics, joint, way, value, scale),
        factor=100.0 if share else 1.0,
        bounds=(0.0, 100.0) if share and way not in UNBOUNDED and not joint and scale is None else None,
        digits=given.get("digits", 1 if share or way == "steps_to" else 2),
        seedless=way == "at" and value == "start",
        metrics=tuple(metrics),
    )
    if results is None or "digits" in given or share or joint or way == "steps_to":
        return of
    measured = (of.measure(results, run) for run in results.runs)
    values = [found.value for found in measured if isinstance(found, Measurement)]
    return replace(of, digits=decimals(values)) if 0 < max(map(abs, values), default=0.0) < SMALL else of


def decimals(values: Sequence[float]) -> int:
    """Return decimals that show SIGNIFICANT digits of the largest value, and two of the spread."""
    largest, spread = max(map(abs, values), default=0.0), max(values, default=0.0) - min(values, default=0.0)
    sizes = {SIGNIFICANT: largest, 2: spread if spread > ROUNDING * largest else 0.0}
    needed = [digits - 1 - math.floor(math.log10(size)) for digits, size in sizes.items() if size > 0]
    return min(MOST_DIGITS, max([0, *needed])) if needed else SIGNIFICANT - 1


def end_decimals(results: Results, metric: str, at: At = "end") -> int:
    """Return the `decimals` of the last (or first) values of a metric."""
    curves = (results.curve(run.id, metric)[1] for run in results.runs)
    index = 0 if at == "start" else -1
    return decimals([float(values[index]) for values in curves if len(values) and math.isfinite(values[index])])


def _measure(
    metrics: Sequence[str], joint: str, way: str, given: Any, scale: Scale | None
) -> Callable[..., Measurement | Absent]:
    """Return what measures a run: a number of the curve of `metrics`, joined at the steps that all of them have."""

    def of(results: Results, run: RunView) -> Measurement | Absent:
        if way in OF_LAST or (way == "at" and given == "end"):
            for metric in metrics:
                if (step := results.diverged(run.id, metric)) is not None:
                    return Absent(f"{metric} is no finite number from step {step} on")
        curves, value = [results.curve(run.id, metric) for metric in metrics], given
        steps = reduce(np.intersect1d, [at for at, _ in curves])
        if not len(steps):
            return _unmeasured(results, metrics)
        each = [values[np.isin(at, steps)] if joint else values for at, values in curves]
        values = JOINED[joint][1](*each) if joint else each[0]
        if not np.isfinite(values).all():
            return Absent("divided by zero")
        if scale is not None:
            normalised = scale.apply(values, run)
            if normalised is None:
                return Absent(f"no scores to normalise {run.axis(scale.by)}")
            values = normalised
        if value == "peak":
            best = peak_score(results, run)
            if best is None or best.step is None:
                return Absent("not evaluated")
            value = best.step
        return TAKEN[way].take(steps, values, value)

    return of


def _unmeasured(results: Results, metrics: Sequence[str]) -> Absent:
    """Return why a run has no value: where no run logged a metric, its name may be wrong."""
    unlogged = results.unlogged(metrics)
    return Absent(unlogged[0].replace("No run", "no run", 1).rstrip(".")) if unlogged else UNMEASURED


def _joint(metric: str, given: Mapping[str, Any]) -> str:
    """Return the key under which a measure names a second metric; "" where it does not.

    SpecError where the other is not a name, is the metric itself, or is given twice.
    """
    names = [key for key in JOINED if key in given]
    if len(names) > 1:
        raise SpecError("a measure joins two other metrics: minus and over", fix="keep one of them")
    for key in names:
        if not isinstance(given[key], str) or given[key] == metric:
            what = f"{key}: {given[key]!r} is not another metric"
            raise SpecError(what, fix=f"write {{metric: NAME, {key}: OTHER NAME}}")
    return names[0] if names else ""


def _check_share(results: Results | None) -> None:
    """Raise SpecError where success is no share of these results; None passes."""
    if results is not None and not results.success_is_share:
        what = "success has values outside of 0 to 1, so it is not shown in percent"
        raise SpecError(what, fix="write {metric: success, percent: false}; smallest is then in its unit")


def _check_shown(given: Mapping[str, Any]) -> None:
    """Raise SpecError where `percent` is not true or false, or `digits` is out of range."""
    percent, digits = given.get("percent", False), given.get("digits", 0)
    if not isinstance(percent, bool):
        raise SpecError(f"percent: {percent!r} is not true or false", fix="write percent: true")
    if not isinstance(digits, int) or isinstance(digits, bool) or not 0 <= digits <= MOST_DIGITS:
        raise SpecError(f"digits: {digits!r} is not a whole number from 0 to {MOST_DIGITS}", fix="write digits: 2")
