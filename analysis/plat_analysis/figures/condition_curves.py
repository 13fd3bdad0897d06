"""Draw curves over training steps: the mean of several seeds with a band and a thin line for each, or a few runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.words.outcomes import is_stopped
from plat_analysis.data.results import Curve, Results, RunView
from plat_analysis.figures import style
from plat_analysis.figures.style import PALETTE, STYLE, whole_numbers
from plat_analysis.quantities.quantity import Fall, fall_after_peak
from plat_analysis.statistics.intervals import t_interval, wilson

BAND_SEEDS = 3  # with two seeds an interval would have one degree of freedom
MARKED = 6  # markers on a mean
GRID = 100  # steps at which seeds that log at different ones are interpolated
LARGEST = 1e100  # larger values and infinities are not drawn: an axis cannot hold them
MOST_ESTIMATES = 50  # steps of a mean among the estimates; longer ones are thinned evenly
MOST_POINTS = 250  # of a seed's thin line; longer lines are thinned evenly


@dataclass(frozen=True)
class ConditionCurves:
    """Hold the curves of one condition.

    runs, lines      every run that has any value, and its curve (steps, values)
    wanted, counted  how many runs the experiment asks for, and how many the mean is over
    reason           why the mean lacks the other runs
    steps, mean      the steps that all counted runs have, and the mean over the runs at each of them: a seed that
                     stopped early must not change the mean from that step on. Seeds that log at different steps are
                     interpolated at GRID steps of the range that all cover (`interpolated`)
    low, high        the 95 % band at each of `steps`, or None without one
    falls            run id -> its fall after the peak (for validation success only)
    """

    runs: tuple[RunView, ...]
    wanted: int
    counted: int
    reason: str
    lines: tuple[Curve, ...]
    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    falls: Mapping[str, Fall] = field(default_factory=dict)
    interpolated: bool = False


def condition_curves(
    results: Results, runs: Sequence[RunView], key: str, curve_of: Callable[[RunView], Curve] | None = None
) -> ConditionCurves:
    """Return the curves of a metric for these runs; `curve_of` replaces the logged curve of a run.

    A failed or unfinished run has a line, but does not enter the mean and the band. From `BAND_SEEDS` counted runs on,
    the band is Student's t interval over them. With one counted run, the band of validation success is Wilson's
    interval over the validation instances.
    """
    drawn = [(run, curve_of(run) if curve_of else results.curve(run.id, key)) for run in runs]
    drawn = [(run, curve) for run, curve in drawn if len(curve[0])]
    counted = [curve for run, curve in drawn if not run.missing]
    steps = reduce(np.intersect1d, [curve[0] for curve in counted]) if counted else np.array([], np.int64)
    if interpolated := 2 * len(steps) < min((len(curve[0]) for curve in counted), default=0):
        first, last = max(curve[0][0] for curve in counted), min(curve[0][-1] for curve in counted)
        steps = np.unique(np.linspace(first, last, GRID).round().astype(np.int64)) if first <= last else steps
    each = [np.interp(steps, *curve) if interpolated else curve[1][np.isin(curve[0], steps)] for curve in counted]
    values = np.array(each).reshape(len(counted), len(steps))
    lines = tuple(curve for _, curve in drawn)
    low = high = None
    with np.errstate(over="ignore", invalid="ignore"):  # a diverged run has infinities
        mean = values.mean(axis=0) if len(counted) else np.array([])
        if len(counted) >= BAND_SEEDS:
            _, low, high = t_interval(values, axis=0)
    if len(counted) == 1 and (run := next(run for run, _ in drawn if not run.missing)).measures_success(key):
        n = int((run.run.config.get("eval") or {}).get("instances") or 0)
        low, high = wilson(mean * n, n) if n else (None, None)
    shown = {run.id for run, _ in drawn}
    reasons = [run.missing or "not measured" for run in runs if run.missing or run.id not in shown]
    reason = ", ".join(dict.fromkeys(reasons))
    falls = {run.id: fall for run, _ in drawn if run.measures_success(key) and (fall := fall_after_peak(results, run))}
    return ConditionCurves(
        tuple(run for run, _ in drawn),
        len(runs),
        len(counted),
        reason,
        lines,
        steps,
        mean,
        low,
        high,
        falls,
        interpolated,
    )


def seeds_note(curves: ConditionCurves) -> str:
    """Return the note on a mean that lacks runs, such as `4/5 seeds: failed:oom`; "" when it lacks none."""
    if curves.counted == curves.wanted:
        return ""
    return curves.reason if curves.wanted == 1 else f"{curves.counted}/{curves.wanted} seeds: {curves.reason}"


def points(curves: ConditionCurves, **labels: Any) -> list[dict[str, Any]]:
    """Return tidy data: one dict for each value of each run in `curves.runs`.

    The keys are the labels, then `seed`, `run_id`, `outcome`, `step` and `value`; also `fell_after_peak` if any run
    fell. These replace labels of the same name. `outcome` says why a run has no result if it has no outcome.
    """
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


def estimates(curves: ConditionCurves, **labels: Any) -> list[dict[str, Any]]:
    """Return the mean and its band at up to MOST_ESTIMATES steps, the first and the last included.

    The keys are the labels, then `step`, `value`, `low`, `high`, `seeds`, `seeds_wanted` and `run_ids`.
    """
    count = len(curves.steps)
    runs = " ".join(run.id for run in curves.runs if not run.missing)
    return [
        {
            **labels,
            "step": int(curves.steps[index]),
            "value": float(curves.mean[index]),
            "low": None if curves.low is None else float(curves.low[index]),
            "high": None if curves.high is None else float(curves.high[index]),
            "seeds": curves.counted,
            "seeds_wanted": curves.wanted,
            "run_ids": runs,
        }
        for index in np.unique(np.linspace(0, count - 1, min(count, MOST_ESTIMATES)).round().astype(np.int64))
    ]


def _drawable(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(values) < LARGEST, values, np.nan)


def draw(
    axis: Any,
    curves: ConditionCurves,
    look: style.Look,
    gid: str | None = None,
    bounds: tuple[float, float] | None = None,
    band: bool = True,
) -> None:
    """Draw the band, a thin line for each seed, and the mean with a few markers.

    A cross marks a run that ended early, a triangle one that fell after its peak. `bounds` limit the band to the range
    of the metric.
    """
    colour = look.colour
    if band and curves.low is not None and curves.high is not None:
        low, high = _drawable(curves.low), _drawable(curves.high)
        if bounds is not None:
            low, high = np.clip(low, *bounds), np.clip(high, *bounds)
        axis.fill_between(curves.steps, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    single = len(curves.lines) == 1
    for run, (steps, values) in zip(curves.runs, curves.lines, strict=True):
        if not single or run.missing:
            apart = max(1, -(-len(steps) // MOST_POINTS))
            axis.plot(steps[::apart], _drawable(values[::apart]), color=colour, linewidth=0.6, alpha=0.45, zorder=2.5)
        if run.missing or is_stopped(run.outcome):
            axis.plot(steps[-1], values[-1], "x", color=colour, ms=4, mew=1.2, zorder=5)
        elif run.id in curves.falls:
            axis.plot(steps[-1], values[-1], "v", color=colour, ms=4, mec="white", mew=0.5, zorder=5)
    if len(curves.steps):
        apart = max(1, len(curves.steps) // MARKED)
        marked = (look.place * apart // 4 % apart, apart)
        axis.plot(
            curves.steps, _drawable(curves.mean), color=colour, linestyle=look.dash, marker=look.marker,
            markevery=marked, ms=3.2, mec="white", mew=0.4, zorder=4, gid=gid,
        )  # fmt: skip


# Draw curves of a few runs over each other, one panel per metric, for `plat diff --out`.

FORMATS = ("png", "svg", "pdf")
Curves = Mapping[str, Sequence[tuple[int, float]]]  # run -> (iteration, value)


def draw_runs(panels: Mapping[str, Curves], kind: str) -> bytes:
    """Return the picture as bytes; `kind` is one of `FORMATS`, and `panels` maps a metric to the curves of runs."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):  # type: ignore[arg-type]
        canvas = Figure(figsize=(7, 2.6 * len(panels) + 0.4), layout="constrained")
        all_axes = canvas.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (metric, curves) in zip(all_axes, panels.items(), strict=True):
            axes.set_title(metric)
            axes.set_xlabel("iteration")
            axes.xaxis.set_major_locator(whole_numbers())
            for index, (run, curve) in enumerate(curves.items()):
                steps, values = [step for step, _ in curve], [value for _, value in curve]
                style = "-" if index < len(PALETTE) else "--"
                axes.plot(steps, values, style, color=PALETTE[index % len(PALETTE)], label=run)
        all_axes[0].legend(frameon=False, fontsize=7)
        picture = io.BytesIO()
        metadata = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
        canvas.savefig(picture, format=kind, dpi=200, metadata=metadata[kind])
    return picture.getvalue()
