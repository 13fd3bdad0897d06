"""Draw every measured checkpoint by two metrics, with the share of them in one quadrant (Figure 12).

The paper's point: format validity does not see template collapse, so checkpoints with valid format and low mutual
information exist. Checkpoints of one run are alike, so the interval of the share is over runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from plat.words.metric_names import SUCCESS
from plat_analysis.artifact import Figure, interval, number, record
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import label
from plat_analysis.data.results import Curve, Results, RunView
from plat_analysis.facets import AxisNames, axes
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates

Array = NDArray[np.float64]
LARGEST = 60.0  # area of the largest bubble, in points squared
MOST_BUBBLES = 5000  # more hide each other and take minutes to draw


@dataclass(frozen=True)
class Checkpoints:
    """Hold one run's metrics at the `steps` of `y`; the others have their last value by then, NaN before the first."""

    run: RunView
    steps: NDArray[np.int64]
    x: Array
    y: Array
    size: Array
    success: Array


@takes()
def build(
    results: Results,
    *,
    x: str = "rollout/format_valid",
    y: str = "mi/trajectory/mi_est",
    size: str = "rollout/reward_var",
    x_bound: float = 0.8,
    y_bound: float = 0.3,
    rows: AxisNames = None,
    name: str = "quadrants",
) -> list[Figure]:
    """A bubble for each measurement of each run, and the share of those with x >= `x_bound` and y < `y_bound`.

    x, y, size        metrics; the steps are those at which y was measured. Success colours the bubbles
    x_bound, y_bound  where the quadrants meet, in the units of the metrics
    rows              axes that make the panels
    """
    panels: dict[str, list[Checkpoints]] = {}
    for run in results.runs:
        row = " · ".join(run.axis(axis) for axis in axes(rows))
        if not run.missing and len(results.curve(run.id, y)[0]):
            steps, low = results.curve(run.id, y)
            values = [_last(results.curve(run.id, metric), steps) for metric in (size, SUCCESS)]
            across = _last(results.curve(run.id, x), steps)
            panels.setdefault(row, []).append(Checkpoints(run, steps, across, low, *values))
    shares = {row: _share(runs, x_bound, y_bound) for row, runs in panels.items()}
    found = "; ".join(
        f"{label(row) or 'all'}: {number(share.value)} % {interval(share)}".strip() for row, share in shares.items()
    )
    apart = _apart([own for runs in panels.values() for own in runs])
    every = "Each bubble is a measurement of a run" + (f" (one in {apart} is drawn)" if apart > 1 else "")
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, panels, (label(x), label(y)), (x_bound, y_bound)),
        caption=(
            f"{every}. Its area shows {label(size)}; a darker bubble has a larger success. Share of measurements at "
            f"the lower right (mean and 95 % interval over runs): {found or 'nothing is measured'}."
        ),
        values={f"share/{row or 'all'}": share.value for row, share in shares.items() if share.value is not None},
    )
    figure.estimates = [record(share, row=row, quantity="share") for row, share in shares.items()]
    for row, runs in panels.items():
        for own in runs:
            columns = zip(own.steps, own.x, own.y, own.size, own.success, strict=True)
            figure.points += [
                {"row": row, "run_id": own.run.id, "step": int(step), x: a, y: b, size: c, "success": d}
                for step, a, b, c, d in columns
            ]
    return [figure]


def _last(curve: Curve, steps: NDArray[np.int64]) -> Array:
    """Return the newest value of a curve at each step; NaN before its first."""
    at = np.searchsorted(curve[0], steps, side="right") - 1
    return np.where(at >= 0, curve[1][np.maximum(at, 0)], np.nan) if len(curve[0]) else np.full(len(steps), np.nan)


def _share(runs: list[Checkpoints], x_bound: float, y_bound: float) -> Estimate:
    """Return the percent of a run's measurements in the lower right quadrant, over runs; builds are strata."""
    shares = {
        Replicate(own.run.build, own.run.id): 100 * float(((own.x >= x_bound) & (own.y < y_bound)).mean())
        for own in runs
    }
    estimate = over_replicates(shares, builds="fixed")
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(0.0, estimate.low), high=min(100.0, estimate.high))


def _apart(runs: Sequence[Checkpoints]) -> int:
    """Return the n of "every n-th measurement has a bubble" that keeps bubbles at about `MOST_BUBBLES`."""
    return max(1, -(-sum(len(own.steps) for own in runs) // MOST_BUBBLES))


def _draw(panels: Mapping[str, list[Checkpoints]], names: tuple[str, str], bounds: tuple[float, float]) -> style.Canvas:
    rows = list(panels) or [""]
    figure = style.canvas(0.6 + 3.4 * len(rows), 3.2)
    drawn = figure.subplots(1, len(rows), sharex=True, sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.62 / figure.get_figwidth(), right=0.985, top=0.91, bottom=0.15, wspace=0.08)
    every = [own for runs in panels.values() for own in runs]
    largest = max((float(np.nanmax(own.size)) for own in every if np.isfinite(own.size).any()), default=1.0) or 1.0
    apart = _apart(every)
    for axis, row in zip(drawn, rows, strict=True):
        for own in panels.get(row, []):
            area = 2 + LARGEST * np.nan_to_num(own.size[::apart]) / largest
            axis.scatter(
                own.x[::apart], own.y[::apart], s=area, c=np.nan_to_num(own.success[::apart]), cmap="viridis_r",
                vmin=0, vmax=1, alpha=0.5, linewidths=0.2, edgecolors="white",
            )  # fmt: skip
        style.quiet_grid(axis, "both")
        axis.axvline(bounds[0], color=style.QUIET, linewidth=0.8, linestyle=":")
        axis.axhline(bounds[1], color=style.QUIET, linewidth=0.8, linestyle=":")
        axis.set_title(shortened(label(row), 30))
        axis.set_xlabel(names[0])
        if not panels.get(row):
            axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center", color=style.QUIET)
    drawn[0].set_ylabel(names[1])
    return figure
