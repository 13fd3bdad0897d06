"""Draw the change between two conditions: in each cell of a table, or over an ordered axis below both levels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Contrast, Estimates, Term, change
from plat_analysis.contrasts.comparison import Compared, Comparison
from plat_analysis.data.labels import axis_label, label, measure_label
from plat_analysis.data.published import AVERAGE, DELTA, PrintedTable, printed_table
from plat_analysis.data.results import Results
from plat_analysis.facets import AxisNames, Facets, Layout, two_conditions
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.tables.peak_notes import star_rule

LONGEST_NAME = 22  # characters of a row's name beside the axis; the whole name is in the CSV and the tooltips


@takes(Comparison)
def build_deltas(
    results: Results,
    compared: Comparison,
    *,
    paper: str | None = None,
    heldout: bool = False,
    name: str = "paired_deltas",
) -> list[Figure]:
    """The treatment's change in every cell, with its 95 % interval.

    heldout    show the change on the held-out instances, not on the validation instances
    paper      key of the printed table in the paper's file (default: the one that `source` names, if any)
    """
    grid = compared.grid(results)
    printed = printed_table(results.experiment, paper)
    quantity = "heldout_delta" if heldout else "delta"
    starred = grid.starred(grid.contrasts[quantity])
    estimates = {(row, column): starred[row, column] for row in grid.rows for column in grid.averaged}
    what = "held-out success of the peak checkpoint" if heldout else "peak validation success"
    treated, untreated = (grid.layout.name(condition) for condition in (grid.treatment, grid.baseline))
    figure = Figure(
        name=name,
        title=f"What {treated} changes in {what}",
        draw=lambda: _draw_deltas(grid, estimates, printed),
        caption=(
            f"Points of success with {treated} minus {untreated}, with paired 95 % intervals of single cells. Dark: "
            "starred." + (" Hollow: published." if printed else "")
        ),
        fine_print=star_rule(estimates.values()),
    )
    for index, ((row, column), estimate) in enumerate(estimates.items()):
        figure.points.append(
            {**record(estimate, row=row, column=column, quantity=quantity), "paper": printed.number(row, column, DELTA)}
        )
        title = f"{row} × {label(column)}: {number(estimate.value, signed=True)} · {provenance(estimate)}"
        figure.titles[f"delta-{index}"] = title
    return [figure]


def _draw_deltas(grid: Compared, estimates: dict[tuple[str, str], Estimate], printed: PrintedTable) -> style.Canvas:
    rows, names, order = grid.rows, grid.averaged, list(estimates)
    height = 1.05 + 0.3 * len(rows)
    figure = style.canvas(10.5, height)
    left, right = 0.13, 0.99
    axes = figure.subplots(1, len(names), sharex=True, sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=left, right=right, top=1 - 0.62 / height, bottom=0.38 / height, wspace=0.08)
    entries = [("● measured, 95 % interval", style.INK)]
    style.key_line(figure, [*entries, *([("◇ published", style.PUBLISHED)] if printed else [])], 1 - 0.14 / height)
    for axis, column in zip(axes, names, strict=True):
        axis.axvline(0, color="#9a9a9a", linewidth=0.8, zorder=1)
        style.quiet_grid(axis, "x")
        axis.set_title(shortened(label(column), 22))
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        if column == AVERAGE:
            axis.set_facecolor("#f6f6f6")
        for y, row in enumerate(rows):
            estimate, gid = estimates[row, column], f"delta-{order.index((row, column))}"
            if estimate.value is None:
                style.absent_dot(axis, y, estimate.note)
            else:
                style.interval_dot(axis, y, estimate.value, (estimate.low, estimate.high), estimate.star, gid)
            published = printed.number(row, column, DELTA)
            if published is not None:
                axis.plot(published, y + 0.27, "D", mfc="white", mec=style.PUBLISHED, mew=1.0, ms=3.6, zorder=2)
    axes[0].set_yticks(range(len(rows)), [shortened(row, LONGEST_NAME) for row in rows], color=style.INK, fontsize=8)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    axes[len(names) // 2].set_xlabel("change in success, points")
    return figure


# Draw a measure over an ordered axis, a line for each condition, above the change between two of them (Figure 9).

CHANGE = ""  # the condition under which changes are kept
Key = tuple[str, str, str]  # row, value of the axis, condition or CHANGE
WIDEST = 14  # characters of a value under the axis


@dataclass(frozen=True, kw_only=True)
class Options:
    """Hold the options that lay out the figure.

    columns    the axis along the figure, its values in the order of the matrix
    rows       axes that make the panels side by side (default: one)
    pair       the axis whose values are the lines; the change is from `baseline` to `treatment`
    """

    columns: str
    rows: AxisNames = None
    pair: str = "filter"
    baseline: Any = "none"
    treatment: Any = "top_p"

    def beforehand(self, results: Results) -> None:
        """Raise SpecError if the options do not fit the matrix, as `laid_out` does."""
        self.laid_out(results)

    def laid_out(self, results: Results) -> tuple[Facets, tuple[str, str]]:
        """Return the runs, and the two sides of the change. Raises SpecError if one lacks runs or they are unpaired."""
        facets = Facets(results, Layout.of(self.rows, self.columns, self.pair))
        sides = two_conditions(facets, self.baseline, self.treatment)
        for side in sides:
            if side not in facets.conditions:
                what = f"the axis {self.pair!r} has no value {side!r}"
                raise SpecError(what, fix=suggest(side, facets.conditions, "values"))
        return facets, sides


@takes(Options)
def build_lines(
    results: Results,
    asked: Options,
    *,
    measure: Any = "final",
    builds: Builds = "random",
    paper: str | None = None,
    title: str = "",
    name: str = "measure_lines",
) -> list[Figure]:
    """The levels of every condition with their 95 % intervals, and the paired change of the treatment.

    measure    the measure of a run (see `plat_analysis.quantities.metric`)
    builds     about these builds of the base model (fixed), or about such builds (random)
    paper      key of the printed table in the paper's file (default: the one that `source` names, if any)
    """
    facets, sides = asked.laid_out(results)
    of = quantity(measure, results=results)
    estimates = _estimates(Estimates(facets, builds=builds), of, sides)
    printed = printed_table(results.experiment, paper)
    figure = Figure(
        name=name,
        title=title or results.heading,
        draw=partial(_draw, facets, estimates, of, sides, printed),
        caption=_caption(estimates, of, sides, printed),
    )
    for index, ((row, column, condition), estimate) in enumerate(estimates.items()):
        line = record(estimate, row=row, column=column, condition=condition, measure=of.name)
        published = _published(printed, row, column, condition, sides)
        figure.points.append({**line, "change": condition == CHANGE, "paper": published})
        labels = facets.layout.labels(row, column, condition or "gain")
        figure.estimates.append({**record(estimate, **labels, measure=of.name), "paper": published})
        what = label(condition) if condition != CHANGE else f"{label(sides[1])} minus {label(sides[0])}"
        shown = number(estimate.value, of.digits, signed=condition == CHANGE)
        place = ", ".join(filter(None, [row, column, what]))
        figure.titles[f"point-{index}"] = f"{place}: {shown} · {provenance(estimate)}"
    return [figure]


def _estimates(estimates: Estimates, of: Quantity, sides: tuple[str, str]) -> dict[Key, Estimate]:
    """Return the level of each condition in each row and column, and the change between the two sides."""
    contrasts = {condition: Contrast(Term(condition, of)) for condition in estimates.facets.conditions}
    contrasts[CHANGE] = change(of, *sides)
    return {
        (row, column, condition): estimates.estimate(row, column, contrast)
        for row in estimates.rows
        for column in estimates.columns
        for condition, contrast in contrasts.items()
    }


def _published(printed: PrintedTable, row: str, column: str, condition: str, sides: tuple[str, str]) -> float | None:
    """Return the paper's number of a level or a change, printed for the row or for any row."""
    if condition != CHANGE:
        return printed.for_row(row, column, condition)
    before, after = (printed.for_row(row, column, side) for side in sides)
    return None if before is None or after is None else round(after - before, 6)


def _caption(estimates: Mapping[Key, Estimate], of: Quantity, sides: tuple[str, str], printed: PrintedTable) -> str:
    shown = [e for e in estimates.values() if e.over]
    about = dict.fromkeys(e.units_in_words + (" of the base model" if e.about else "") for e in shown)
    bounds = f" Bars: 95 % intervals, Student's t over {' and '.join(about)}." if about else ""
    units = " In percent." if of.factor != 1 else ""
    lower = f" Below: {label(sides[1])} minus {label(sides[0])}, paired by build and seed."
    return (
        f"Above: means over the runs of each condition.{units}{bounds}{lower}{' Hollow: published.' if printed else ''}"
    )


def _draw(
    facets: Facets, estimates: Mapping[Key, Estimate], of: Quantity, sides: tuple[str, str], printed: PrintedTable
) -> style.Canvas:
    rows, columns = facets.rows, facets.columns
    looks = style.looks(facets.conditions, sides[0])
    figure = style.canvas(1.0 + 3.4 * len(rows), 4.2)
    upper, lower = figure.subplots(2, len(rows), sharex=True, sharey="row", squeeze=False, height_ratios=[3, 2])
    figure.subplots_adjust(
        left=0.62 / figure.get_figwidth(), right=0.985, top=0.85, bottom=0.115, hspace=0.12, wspace=0.08
    )
    entries: list[tuple[str, str | style.Look]] = [
        (shortened(label(condition), 26), looks[condition]) for condition in facets.conditions
    ]
    style.key_line(figure, [*entries, *([("◇ published", style.QUIET)] if printed else [])], 0.965)
    order = list(estimates)
    for index, row in enumerate(rows):
        top, bottom = upper[index], lower[index]
        for offset, condition in enumerate([*facets.conditions, CHANGE]):
            axis, look = (bottom, style.Look(style.INK)) if condition == CHANGE else (top, looks[condition])
            shift = 0.0 if condition == CHANGE else 0.12 * (offset - (len(facets.conditions) - 1) / 2)
            line = {column: estimates[row, column, condition] for column in columns}
            gids = {column: f"point-{order.index((row, column, condition))}" for column in columns}
            _line(axis, line, shift, look, gids)
            for x, column in enumerate(columns):
                published = _published(printed, row, column, condition, sides)
                if published is not None:
                    axis.plot(x + shift, published, "D", mfc="none", mec=look.colour, mew=0.9, ms=3.8, zorder=2)
        bottom.axhline(0, color="#9a9a9a", linewidth=0.8, zorder=1)
        top.set_title(shortened(label(row), 30))
        for axis in (top, bottom):
            style.quiet_grid(axis)
        bottom.set_xticks(range(len(columns)), [shortened(label(column), WIDEST) for column in columns])
        bottom.set_xlabel(" · ".join(map(axis_label, facets.layout.columns)))
    upper[0].set_ylabel(f"{measure_label(of.name)}{', %' if of.factor != 1 else ''}")
    lower[0].set_ylabel("change")
    return figure


def _line(
    axis: style.Axes, line: Mapping[str, Estimate], shift: float, look: style.Look, gids: Mapping[str, str]
) -> None:
    """Draw dots with their intervals, joined by a line."""
    known = [(x + shift, e.value) for x, e in enumerate(line.values()) if e.value is not None]
    colour = look.colour
    xs, ys = [x for x, _ in known], [y for _, y in known]
    axis.plot(xs, ys, color=colour, linestyle=look.dash, linewidth=1.0, alpha=0.7, zorder=3)
    for x, (column, estimate) in enumerate(line.items()):
        if estimate.value is None:
            continue
        if estimate.low is not None and estimate.high is not None:
            axis.plot([x + shift] * 2, [estimate.low, estimate.high], color=colour, linewidth=1.3, zorder=3)
        looks: dict[str, Any] = {"color": colour, "ms": 4.5, "mec": "white", "mew": 0.6, "zorder": 4}
        axis.plot([x + shift], [estimate.value], look.marker, gid=gids[column], **looks)
