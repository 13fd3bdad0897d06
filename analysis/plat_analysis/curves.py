"""Curves of several seeds over steps: a mean and a band where every seed has a value, single lines beyond.

A seed that stopped early must not bend the mean of the others, so the mean ends where the first seed ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.outcomes import is_stopped
from plat_analysis.results import VALIDATION_SUCCESS, Curve, Results, RunView
from plat_analysis.scores import Fall, fall_after_peak
from plat_analysis.statistics import t_interval, wilson

BAND_SEEDS = 3  # fewer seeds: their own lines say more than an interval with one degree of freedom


@dataclass(frozen=True)
class ConditionCurves:
    """The curves of one condition. `mean`, `low`, `high` belong to `steps`; the band is absent where low is None."""

    runs: tuple[RunView, ...]
    wanted: int
    counted: int  # runs behind the mean
    reason: str  # why the others are not
    lines: tuple[Curve, ...]
    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    falls: Mapping[str, Fall] = field(default_factory=dict)  # run id -> its fall after the peak, for validation success


def condition_curves(results: Results, runs: Sequence[RunView], key: str) -> ConditionCurves:
    """Every wanted run that has any value of the metric, failed and unfinished ones included as lines of their own."""
    drawn = [(run, results.curve(run.id, key)) for run in runs]
    drawn = [(run, curve) for run, curve in drawn if len(curve[0])]
    counted = [curve for run, curve in drawn if not run.missing]
    steps = _common([curve[0] for curve in counted])
    values = np.array([curve[1][np.isin(curve[0], steps)] for curve in counted]).reshape(len(counted), len(steps))
    lines = tuple(curve for _, curve in drawn)
    mean = values.mean(axis=0) if len(counted) else np.array([])
    low = high = None
    if len(counted) >= BAND_SEEDS:
        _, low, high = t_interval(values, axis=0)
    elif len(counted) == 1 and key == VALIDATION_SUCCESS:
        run = next(run for run, _ in drawn if not run.missing)
        n = int((run.run.config.get("eval") or {}).get("instances") or 0)
        low, high = wilson(mean * n, n) if n else (None, None)
    shown = {run.id for run, _ in drawn}
    reasons = [run.missing or "not measured" for run in runs if run.missing or run.id not in shown]
    reason = ", ".join(dict.fromkeys(reasons))
    falls = {run.id: fall for run, _ in drawn if key == VALIDATION_SUCCESS and (fall := fall_after_peak(results, run))}
    return ConditionCurves(
        tuple(run for run, _ in drawn), len(runs), len(counted), reason, lines, steps, mean, low, high, falls
    )


def seeds_note(curves: ConditionCurves) -> str:
    """`4/5 seeds: failed:oom` when some are missing, else nothing: shown wherever such a mean is drawn."""
    if curves.counted == curves.wanted:
        return ""
    return curves.reason if curves.wanted == 1 else f"{curves.counted}/{curves.wanted} seeds: {curves.reason}"


def _common(steps: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    if not steps:
        return np.array([], np.int64)
    common = steps[0]
    for other in steps[1:]:
        common = np.intersect1d(common, other)
    return common


def points(curves: ConditionCurves, **labels: Any) -> list[dict[str, Any]]:
    """Tidy: every value of every run, with its id."""
    return [
        {
            **labels,
            "seed": run.seed,
            "run_id": run.id,
            "outcome": run.outcome or run.missing,
            **({"fell_after_peak": str(curves.falls.get(run.id, ""))} if curves.falls else {}),
            "step": int(s),
            "value": float(v),
        }
        for run, (steps, values) in zip(curves.runs, curves.lines, strict=True)
        for s, v in zip(steps, values, strict=True)
    ]


def draw(
    axis: Any,
    curves: ConditionCurves,
    colour: str,
    gid: str | None = None,
    bounds: tuple[float, float] | None = None,
    band: bool = True,
) -> None:
    """Band, thin lines of the seeds, and the mean; a cross where a run ended before its time, a triangle where it fell
    after its peak."""
    low, high = curves.low, curves.high
    if band and low is not None and high is not None:
        if bounds is not None:
            low, high = np.clip(low, *bounds), np.clip(high, *bounds)
        axis.fill_between(curves.steps, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    single = len(curves.lines) == 1
    for run, (steps, values) in zip(curves.runs, curves.lines, strict=True):
        if not single or run.missing:
            axis.plot(steps, values, color=colour, linewidth=0.6, alpha=0.45, zorder=2.5)
        if run.missing or is_stopped(run.outcome):
            axis.plot(steps[-1], values[-1], "x", color=colour, ms=4, mew=1.2, zorder=5)
        elif run.id in curves.falls:
            axis.plot(steps[-1], values[-1], "v", color=colour, ms=4, mec="white", mew=0.5, zorder=5)
    if len(curves.steps):
        axis.plot(curves.steps, curves.mean, color=colour, zorder=4, gid=gid)
