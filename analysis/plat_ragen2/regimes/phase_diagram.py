"""Draw the phase diagram of a search: retrieval at the end of training over two axes, a panel for each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from plat_analysis.artifact import Figure
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import axis_label, label
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.figures.style import INK, canvas
from plat_analysis.shown_text import shortened
from plat_ragen2.regimes.points import Point, points
from plat_ragen2.regimes.regime import COLLAPSED, Thresholds

Shown = Literal["retrieval_end", "fluent_end", "templates_end", "success_end"]
QUANTITIES: dict[Shown, str] = {
    "retrieval_end": "Retrieval of fresh reasonings at the end",
    "fluent_end": "Share of fluent reasonings at the end",
    "templates_end": "Share of template reasonings at the end",
    "success_end": "Validation success at the end",
}


@takes(reads={"thresholds": Thresholds.read})
def build(
    results: Results,
    *,
    rows: str | Sequence[str],
    columns: str,
    pair: str = "filter",
    quantity: Shown = "retrieval_end",
    thresholds: Mapping[str, float] | None = None,
    name: str = "phases",
) -> list[Figure]:
    """A panel for each condition, with the mean over the runs of each point and the number of collapses.

    rows, columns  the axes (several row axes are joined)
    pair           the axis with a panel for each value
    quantity       retrieval_end, fluent_end, templates_end or success_end
    thresholds     of the regimes, by name (`regimes.regime`)
    """
    down = (rows,) if isinstance(rows, str) else tuple(rows)
    grid = points(results, (*down, columns, pair), Thresholds.read(thresholds))
    figure = Figure(
        name=name,
        title=QUANTITIES[quantity],
        draw=partial(_draw, grid, down, columns, quantity),
        caption=(
            f"{QUANTITIES[quantity]}, mean over the runs of a point; from 0 to 1; below it, such as 2/5, "
            "the runs that lost their input dependence (any kind of collapse) of those that ended."
        ),
        estimates=[
            {**point.values, "quantity": quantity, "value": point.mean(quantity), "low": None, "high": None}
            for point in grid
        ],
        points=[
            {
                **point.values,
                quantity: point.mean(quantity),
                "collapsed": _collapsed(point),
                "runs": len(point.finished),
                "run_ids": " ".join(item.run.id for item in point.runs),
            }
            for point in grid
        ],
    )
    return [figure]


def _collapsed(point: Point) -> int:
    return sum(count for kind, count in point.regimes.items() if kind in COLLAPSED)


def _draw(grid: Sequence[Point], rows: Sequence[str], columns: str, quantity: str) -> style.Canvas:
    by_place = {}  # row, column, panel -> point
    for point in grid:
        *down, column, panel = point.values.values()
        by_place[" · ".join(down), column, panel] = point
    heights, widths, panels = (list(dict.fromkeys(values)) for values in zip(*by_place, strict=True))
    drawn = canvas(0.8 + len(panels) * (0.75 * len(widths) + 0.5), 1.0 + 0.55 * len(heights))
    all_axes: Any = drawn.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, condition in zip(all_axes, panels, strict=True):
        shades = [[_mean(by_place.get((row, column, condition)), quantity) for column in widths] for row in heights]
        axes.imshow(shades, cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto")
        for y, row in enumerate(heights):
            for x, column in enumerate(widths):
                _annotate(axes, x, y, by_place.get((row, column, condition)), quantity)
        axes.set_title(label(condition))
        axes.set_xticks(range(len(widths)), [shortened(value, 12) for value in widths])
        axes.set_yticks(range(len(heights)), [shortened(value, 12) for value in heights])
        axes.set_xlabel(axis_label(columns))
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    all_axes[0].set_ylabel(" · ".join(map(axis_label, rows)))
    drawn.tight_layout()
    return drawn


def _mean(point: Point | None, quantity: str) -> float:
    mean = point.mean(quantity) if point else None
    return float("nan") if mean is None else mean


def _annotate(axes: Any, x: int, y: int, point: Point | None, quantity: str) -> None:
    """Write the mean and the count of collapses, legible on the shade."""
    mean = _mean(point, quantity)
    if point is None or mean != mean:
        axes.text(x, y, "—", ha="center", va="center", color=INK)
        return
    text = f"{mean:.2f}\n{_collapsed(point)}/{len(point.finished)}"
    axes.text(x, y, text, ha="center", va="center", color="white" if mean < 0.6 else INK, fontsize=7)
