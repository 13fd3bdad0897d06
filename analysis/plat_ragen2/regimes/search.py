"""Show a search for a regime: its points as a table, and as a phase diagram over two axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from plat.errors import SpecError
from plat.spec.expansion.decide import REPLICATES
from plat_analysis.artifact import Cell, Column, Figure, Note, Row, Table, number
from plat_analysis.builder_options import takes
from plat_analysis.data.labels import axis_label, label
from plat_analysis.data.results import Results, RunView
from plat_analysis.facets import Facets, Layout
from plat_analysis.figures import style
from plat_analysis.figures.style import INK, canvas
from plat_analysis.shown_text import shortened
from plat_ragen2.regimes.probe_tables import LEVEL_SHARE
from plat_ragen2.regimes.regime import COLLAPSED, Thresholds
from plat_ragen2.regimes.regime_table import RunRegime, chance_of_probes, measurements, run_regime


@dataclass(frozen=True)
class Point:
    """Hold all runs of one choice of the other axes.

    values  axis -> its value, as text
    runs    each run with its regime, runs without a result included
    """

    values: dict[str, str]
    runs: list[RunRegime]
    numbers: list[dict[str, float | None]]

    @property
    def finished(self) -> list[RunRegime]:
        return [item for item in self.runs if not item.run.missing]

    @property
    def regimes(self) -> Counter[str]:
        """Return how many of the finished runs ended in each regime."""
        return Counter(item.regime.name for item in self.finished)

    def mean(self, quantity: str) -> float | None:
        """Return the mean over finished runs of a key of `measurements`, or `templates_end`; None without a value."""
        values = [value for numbers in self.numbers if (value := numbers[quantity]) is not None]
        return float(np.mean(values)) if values else None


def points(results: Results, axes: Sequence[str], limits: Thresholds) -> list[Point]:
    """Return the points in the order of the experiment file, distinguished by these axes.

    Raises SpecError if two runs of one seed and build are in one point, because they differ in another axis.
    """
    facets = Facets(results, Layout.of(rows=axes))
    return [_point(results, axes, list(runs.values()), limits) for runs in facets.places.values()]


def varied_axes(results: Results) -> list[str]:
    """Return the axes of the matrix with several values, except `REPLICATES`. Raises SpecError if there are none."""
    values: dict[str, set[str]] = {}
    for run in results.positions:
        for axis in run.axes:
            values.setdefault(axis, set()).add(run.axis(axis))
    axes = [axis for axis, seen in values.items() if len(seen) > 1 and axis not in REPLICATES]
    if not axes:
        raise SpecError("no axis of the matrix has several values", fix="a search needs points: see `matrix`")
    return axes


def _point(results: Results, axes: Sequence[str], runs: Sequence[RunView], limits: Thresholds) -> Point:
    judged = [run_regime(results, run, limits) for run in runs]
    numbers = []
    for item in judged:
        if not item.run.missing:
            _, templates = results.curve(item.run.id, LEVEL_SHARE.format("template"))
            end = float(templates[-1]) if len(templates) else None
            numbers.append(measurements(results, item) | {"templates_end": end})
    return Point({axis: runs[0].axis(axis) for axis in axes}, judged, numbers)


# Tabulate every point of a search for a regime: its axes, retrieval, fluency, success, and regimes.

MEASURED = [
    (Column("start", "retrieval"), "retrieval_start"),
    (Column("high", "retrieval"), "retrieval_high"),
    (Column("end", "retrieval"), "retrieval_end"),
    (Column("fluent", "at the end"), "fluent_end"),
    (Column("templates", "at the end"), "templates_end"),
    (Column("start", "success"), "success_start"),
    (Column("end", "success"), "success_end"),
]


@takes(reads={"thresholds": Thresholds.read})
def build_table(
    results: Results, *, thresholds: Mapping[str, float] | None = None, name: str = "search"
) -> list[Table]:
    """A row for each point of the matrix, its seeds and builds together: means of what was measured, and the regimes.

    thresholds  of the regimes, by name (`regimes.regime`)
    """
    limits = Thresholds.read(thresholds)
    axes = varied_axes(results)
    tried = points(results, axes, limits)
    headings = [Column(axis.rpartition(".")[2]) for axis in axes]
    table = Table(
        name=name,
        title="Every point that was tried",
        columns=[*headings, Column("runs"), *(column for column, _ in MEASURED), Column("regime", numeric=False)],
        rows=[_row(point) for point in tried],
        caption=(
            "Means over the runs of a point. Retrieval of fresh reasonings: before training, the highest of the first "
            "half of the run, and at the end. Fluent: the share that is a sentence of the demonstrations' grammar. "
            "Success: on the validation instances." + _chance(results)
        ),
        notes=[Note(f"The rule: {limits}.")],
        records=[_record(point) for point in tried],
    )
    for point in tried:
        place = "/".join(f"{axis}={value}" for axis, value in point.values.items())
        table.values |= {f"{name}/{place}/{kind}": float(count) for kind, count in point.regimes.items()}
    return [table]


def _chance(results: Results) -> str:
    """Return the sentence on the chance level of retrieval, with a space before it; "" without probes."""
    text, _ = chance_of_probes(results)
    return f" Chance: a retrieval of {text}." if text else ""


def _row(point: Point) -> Row:
    finished = len(point.finished)
    title = "runs " + " ".join(item.run.id for item in point.runs)
    return Row(
        (
            *(Cell(label(value)) for value in point.values.values()),
            Cell(f"{finished}/{len(point.runs)}" if finished < len(point.runs) else str(finished), title=title),
            *(Cell(number(point.mean(quantity), 2), title=title) for _, quantity in MEASURED),
            Cell(_words(point), tone="" if finished else "missing", title=title),
        )
    )


def _words(point: Point) -> str:
    """Return `diverse`, or `diverse 3, noise 2`; without results, why there are none."""
    counts = point.regimes
    if not counts:
        return ", ".join(dict.fromkeys(item.run.missing for item in point.runs))
    if len(point.finished) == 1:
        return next(iter(counts))
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common())


def _record(point: Point) -> dict[str, object]:
    return {
        **point.values,
        "runs": len(point.finished),
        "runs_wanted": len(point.runs),
        **{quantity: point.mean(quantity) for _, quantity in MEASURED},
        "regimes": _words(point),
        "run_ids": " ".join(item.run.id for item in point.runs),
    }


# Draw the phase diagram of a search: retrieval at the end of training over two axes, a panel for each condition.

Shown = Literal["retrieval_end", "fluent_end", "templates_end", "success_end"]
QUANTITIES: dict[Shown, str] = {
    "retrieval_end": "Retrieval of fresh reasonings at the end",
    "fluent_end": "Share of fluent reasonings at the end",
    "templates_end": "Share of template reasonings at the end",
    "success_end": "Validation success at the end",
}


@takes(reads={"thresholds": Thresholds.read})
def build_diagram(
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
            + (_chance(results) if quantity == "retrieval_end" else "")
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
