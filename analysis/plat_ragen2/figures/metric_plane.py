"""Draw runs in the plane of two metrics: from start to end (Figure 13), or at every checkpoint (Figure 12).

The paper's arrows end at the peak of success (`to: peak`). A peak is the largest of several noisy evaluations, so such
an arrow points upwards even where nothing was learned; by default arrows end at the last measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.suggest import suggest
from plat.words.metric_names import SUCCESS
from plat_analysis.artifact import Figure, interval, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Contrast, Estimates, Term
from plat_analysis.data.chance import beside
from plat_analysis.data.labels import label
from plat_analysis.data.results import Curve, Results, RunView, spell
from plat_analysis.facets import AxisNames, Facets, Layout, axes
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

Families = Mapping[str, Sequence[Any]]  # name -> conditions that share a colour


@dataclass(frozen=True)
class Arrow:
    """Hold the means of a setting at the start and at the end, along both axes of a panel."""

    x: tuple[Estimate, Estimate]
    y: tuple[Estimate, Estimate]

    @property
    def known(self) -> bool:
        """Return True if no mean is missing."""
        return all(estimate.value is not None for estimate in (*self.x, *self.y))


Key = tuple[str, str, str]  # row, axis of the panel, condition


def _beforehand(results: Results, *, conditions: str, families: Families, rows: AxisNames = None, **_: Any) -> None:
    """Raise SpecError where a family names a condition that the matrix does not have."""
    _family_of(Facets(results, Layout.of(rows, None, conditions)).conditions, families)


@takes(before=_beforehand)
def build_arrows(
    results: Results,
    *,
    conditions: str,
    families: Families,
    metrics: Mapping[str, str],
    rows: AxisNames = None,
    to: Literal["end", "peak"] = "end",
    builds: Builds = "fixed",
    name: str = "arrows",
) -> list[Figure]:
    """An arrow for each condition, from the base model to the end of training, means over seeds and builds.

    conditions  the axis whose values are the arrows
    families    name -> its conditions; each family has a colour
    metrics     printed name -> metric of the horizontal axis, a panel for each; validation success goes upwards
    rows        axes that make the rows of panels
    to          the last measurement (end), or those at the largest success of each run (peak)
    """
    facets = Facets(results, Layout.of(rows, None, conditions))
    family = _family_of(facets.conditions, families)
    estimates = Estimates(facets, builds=builds)

    def means(row: str, condition: str, metric: str) -> tuple[Estimate, Estimate]:
        ends = (quantity({"metric": metric, "at": at}) for at in ("start", to))
        start, end = (estimates.estimate(row, "", Contrast(Term(condition, of))) for of in ends)
        return start, end

    arrows = {
        (row, shown, condition): Arrow(means(row, condition, metric), means(row, condition, SUCCESS))
        for row in facets.rows
        for shown, metric in metrics.items()
        for condition in facets.conditions
    }
    end = "last measurement" if to == "end" else "peak of success"
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw_arrows, arrows, facets, list(metrics), family),
        caption=" ".join(
            [
                f"From the base model (square) to the {end} (dot): means over runs.",
                *beside(results, results.runs, metrics.values()),
            ]
        ),
    )
    for index, ((row, shown, condition), arrow) in enumerate(arrows.items()):
        for axis, pair in (("x", arrow.x), ("y", arrow.y)):
            for at, estimate in zip(("start", to), pair, strict=True):
                labels = {"row": row, "panel": shown, "condition": condition, "family": family[condition]}
                figure.points.append(record(estimate, **labels, axis=axis, at=at))
        moved = ", ".join(f"{number(a.value, 2)} → {number(b.value, 2)}" for a, b in (arrow.x, arrow.y))
        figure.titles[f"arrow-{index}"] = f"{row}, {condition}: {shown} and success {moved} · {provenance(arrow.y[1])}"
    return [figure]


def _family_of(conditions: Sequence[str], families: Families) -> dict[str, str]:
    """Return condition -> its family. SpecError where a condition has none, or a family names an unknown condition."""
    found = {spell(value): family for family, values in families.items() for value in values}
    for name in found:
        if name not in conditions:
            raise SpecError(f"families: there is no condition {name!r}", fix=suggest(name, conditions, "conditions"))
    for condition in conditions:
        if condition not in found:
            raise SpecError(f"families: {condition!r} is in none of them", fix="add it to one")
    return found


def _draw_arrows(
    arrows: Mapping[Key, Arrow], facets: Facets, shown: list[str], family: Mapping[str, str]
) -> style.Canvas:
    rows, names = facets.rows, list(dict.fromkeys(family.values()))
    colours = dict(zip(names, (*style.PALETTE, *[style.QUIET] * len(names)), strict=False))
    ends = [[condition for condition in family if family[condition] == name] for name in names]
    named = {condition for own in ends for condition in (own[0], own[-1])}  # names of all would hide each other
    height = 0.7 + 2.5 * len(rows)
    figure = style.canvas(0.6 + 3.6 * len(shown), height)
    axes = figure.subplots(len(rows), len(shown), sharey="row", sharex="col", squeeze=False)
    figure.subplots_adjust(
        left=0.75 / figure.get_figwidth(), right=0.985, top=1 - 0.45 / height, bottom=0.45 / height, wspace=0.08
    )
    style.key_line(figure, [(name, colours[name]) for name in names], 1 - 0.14 / height)
    for index, ((row, panel, condition), arrow) in enumerate(arrows.items()):
        if not arrow.known:
            continue
        axis, colour = axes[rows.index(row)][shown.index(panel)], colours[family[condition]]
        start, end = ((x.value, y.value) for x, y in zip(arrow.x, arrow.y, strict=True))
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 0.9, "alpha": 0.8})
        axis.plot(*end, "o", color=colour, ms=3, gid=f"arrow-{index}")
        axis.plot(*start, "s", color=style.INK, ms=3, zorder=4)
        if condition not in named:
            continue
        axis.annotate(
            shortened(condition, 14), end, (3, 2), textcoords="offset points", fontsize=5.5, color=colour, alpha=0.9
        )
    for r, row in enumerate(rows):
        for c, panel in enumerate(shown):
            style.quiet_grid(axes[r][c], "both")
            if r == len(rows) - 1:
                axes[r][c].set_xlabel(panel)
        axes[r][0].set_ylabel(" · ".join(filter(None, [label(row), "success, %"])))
    return figure


# Draw every measured checkpoint by two metrics, with the share of them in one quadrant (Figure 12).
#
# The paper's point: format validity does not see template collapse, so checkpoints with valid format and low mutual
# information exist. Checkpoints of one run are alike, so the interval of the share is over runs.

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
def build_quadrants(
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
        draw=partial(_draw_quadrants, panels, (label(x), label(y)), (x_bound, y_bound)),
        caption=(
            f"{every}. Its area shows {label(size)}; a darker bubble has a larger success. Share of measurements at "
            f"the lower right (mean and 95 % interval over runs): {found or 'nothing is measured'}. "
            + " ".join(beside(results, results.runs, (x, y, size)))
        ).strip(),
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


def _draw_quadrants(
    panels: Mapping[str, list[Checkpoints]], names: tuple[str, str], bounds: tuple[float, float]
) -> style.Canvas:
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
