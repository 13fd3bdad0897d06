"""Draw the treatment's change in each cell: a dot with its 95 % interval, and the paper's change as a hollow mark."""

from __future__ import annotations

from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.comparison import Compared, Comparison
from plat_analysis.data.labels import label
from plat_analysis.data.published import AVERAGE, DELTA, PrintedTable, printed_table
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.tables.peak_notes import star_rule

LONGEST_NAME = 22  # characters of a row's name beside the axis; the whole name is in the CSV and the tooltips


@takes(Comparison)
def build(
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
        draw=lambda: _draw(grid, estimates, printed),
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


def _draw(grid: Compared, estimates: dict[tuple[str, str], Estimate], printed: PrintedTable) -> style.Canvas:
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
