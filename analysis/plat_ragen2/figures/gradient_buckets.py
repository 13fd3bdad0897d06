"""Draw the gradient by buckets of prompts, from the smallest reward variance to the largest (Figure 3).

Columns: the spread of rewards, the norms of task gradient and regulariser, and the agreement of the task gradients of
two halves of a bucket. Hollow markers are the null: permuted rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Contrast, Estimates, Term
from plat_analysis.contrasts.foretelling import check_steps
from plat_analysis.data.labels import label
from plat_analysis.data.published import PrintedTable, printed_table
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, rows_or
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate

# column -> its metrics of a bucket (the mean, the null of permuted rewards, the ends of whiskers), and log scale or not
COLUMNS: Mapping[str, tuple[str, str, tuple[str, ...], bool]] = {
    "reward spread": ("reward_std_mean", "", ("reward_std_min", "reward_std_max"), False),
    "task": ("task", "null_task", (), True),
    "regulariser": ("regulariser", "", (), True),
    "agreement": ("halves_cosine", "null_cosine", (), False),
}
TITLES = {
    "reward spread": "Reward spread",
    "task": "Norm of task gradient",
    "regulariser": "Norm of regulariser",
    "agreement": "Agreement of halves",
}


class Place(NamedTuple):
    """Identify a dot: its row, its column of the figure, the iteration, the bucket, and whether it is the null."""

    row: str
    column: str
    moment: str
    bucket: int
    null: bool


Dots = Mapping[Place, tuple[Estimate, Sequence[float | None]]]  # the mean over runs, and its whiskers


def _beforehand(results: Results, *, moments: Sequence[int], rows: AxisNames = None, **_: Any) -> None:
    """Raise SpecError where a moment is not an iteration, no gradient is probed, or two runs have one position."""
    check_steps("moments", moments, 1)
    _buckets(results)
    Facets(results, Layout.of(rows_or(rows, results.experiment, None)))


@takes(before=_beforehand)
def build(
    results: Results,
    *,
    moments: Sequence[int],
    rows: AxisNames = None,
    paper: str | None = None,
    name: str = "gradient_buckets",
) -> list[Figure]:
    """Dots over buckets for each moment, with 95 % intervals over the runs of these builds.

    moments  iterations; a dot is what was measured there, or the last before
    rows     axes of the panel rows (default: `variant` where the experiment has it, else one row)
    paper    key of the printed norms by bucket (default: the table that `source` names, if any)
    """
    facets = Facets(results, Layout.of(rows_or(rows, results.experiment, None)))
    found, printed = (
        _found(facets, [spell(at) for at in moments], _buckets(results)),
        printed_table(results.experiment, paper),
    )
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, found, facets.rows, printed),
        caption=(
            "Q1: the prompts with the smallest reward variance. Whiskers of the spread: from the smallest to the "
            "largest value of a prompt in the bucket; other lines: 95 % intervals over the runs of these builds. "
            "Hollow points of our runs: rewards are permuted among the trajectories of a prompt, so that they have the "
            "same spread and no signal."
            + " ◇: published norms, scaled to the mean of our first iteration, because their levels are not comparable."
            * bool(printed)
        ),
    )  # fmt: skip
    for index, (place, (estimate, whiskers)) in enumerate(found.items()):
        bucket = f"Q{place.bucket}"
        labels = {"row": place.row, "measure": place.column, "iteration": place.moment, "bucket": bucket}
        labels["null"] = "permuted rewards" if place.null else ""
        ends = {"least": whiskers[0], "largest": whiskers[1]} if whiskers else {"least": None, "largest": None}
        own = None if place.null else printed.number(place.row, bucket, place.column)
        figure.points.append({**record(estimate, **labels), **ends, "paper": own})
        said = ", ".join(filter(None, [place.row, TITLES[place.column], f"iteration {place.moment}", bucket]))
        null = ", permuted rewards" * place.null
        figure.titles[f"dot-{index}"] = f"{said}{null}: {number(estimate.value, 4)} · {provenance(estimate)}"
    return [figure]


def _buckets(results: Results) -> int:
    """Return the number of buckets. SpecError where runs differ in it, or one does not probe its gradient."""
    counts: dict[int, None] = dict.fromkeys(int(run.axis("gradient.buckets")) for run in results.positions)
    idle = [run for run in results.positions if run.axis("gradient.times") == run.axis("gradient.every") == "0"]
    if idle:
        raise SpecError(
            f"the gradient of {idle[0].run.name} is not probed",
            fix="add {gradient.times: 3, gradient.halves: true} to `base`",
        )
    if len(counts) > 1:
        raise SpecError(
            f"runs have {' and '.join(map(str, counts))} buckets", fix="give all of them the same gradient.buckets"
        )
    return next(iter(counts))


def _found(facets: Facets, moments: Sequence[str], buckets: int) -> Dots:
    """Return every dot that was measured."""
    cells, found = Estimates(facets, builds="fixed").cells, {}

    def at(row: str, metric: str, moment: str, bucket: int) -> Estimate:
        measured = quantity({"metric": f"grad/q{bucket}/{metric}", "at": int(moment)})
        return cells[row, ""].estimate(Contrast(Term("", measured)))

    for row in facets.rows:
        for column, (metric, null, ends, _) in COLUMNS.items():
            for moment in moments:
                for bucket in range(1, buckets + 1):
                    whiskers = [at(row, end, moment, bucket).value for end in ends]
                    found[Place(row, column, moment, bucket, False)] = at(row, metric, moment, bucket), whiskers
                    if null:
                        found[Place(row, column, moment, bucket, True)] = at(row, null, moment, bucket), []
    return {place: dot for place, dot in found.items() if dot[0].value is not None}


def _draw(found: Dots, rows: Sequence[str], printed: PrintedTable) -> style.Canvas:
    moments = list(dict.fromkeys(place.moment for place in found))
    buckets = sorted({place.bucket for place in found})
    looks = style.looks(moments, "")
    height = 1.0 + 1.6 * len(rows)
    figure = style.canvas(9.4, height)
    axes = figure.subplots(len(rows), len(COLUMNS), sharex=True, sharey="col", squeeze=False)
    figure.subplots_adjust(
        left=0.08, right=0.99, top=1 - 0.62 / height, bottom=0.42 / height, wspace=0.33, hspace=0.22
    )  # fmt: skip
    entries: list[tuple[str, Any]] = [(f"iteration {moment}", looks[moment]) for moment in moments]
    entries.append(("hollow: permuted rewards", style.QUIET))
    style.key_line(figure, [*entries, *([("◇ published", style.PUBLISHED)] if printed else [])], 1 - 0.14 / height)
    for index, (place, (estimate, whiskers)) in enumerate(found.items()):
        axis = axes[rows.index(place.row)][list(COLUMNS).index(place.column)]
        x = place.bucket + 0.2 * (moments.index(place.moment) - (len(moments) - 1) / 2)
        look = looks[place.moment]
        ends = whiskers or ([] if place.null else [estimate.low, estimate.high])
        if len(ends) == 2 and ends[0] is not None and ends[1] is not None:
            low = max(ends[0], (estimate.value or 0.0) / 10) if COLUMNS[place.column][3] else ends[0]
            axis.plot([x, x], [low, ends[1]], color=look.colour, linewidth=0.9)
        face = "none" if place.null else look.colour
        axis.plot(
            [x], [estimate.value], look.marker, mfc=face, mec=look.colour, ms=3.6, mew=0.8, gid=f"dot-{index}",
            alpha=0.6 if place.null else 1.0,
        )  # fmt: skip
    for r, row in enumerate(rows):
        for c, column in enumerate(COLUMNS):
            axis = axes[r][c]
            for bucket, value in _scaled(found, row, column, printed).items():
                axis.plot([bucket + 0.38], [value], "D", mfc="none", mec=style.PUBLISHED, ms=4)
            if not axis.lines:
                axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", color=style.QUIET)
            elif COLUMNS[column][3]:
                _in_decades(axis)
            style.quiet_grid(axis)
            axis.set_xticks(buckets, [f"Q{bucket}" for bucket in buckets])
            if r == 0:
                axis.set_title(TITLES[column])
        if row:
            axes[r][0].set_ylabel(shortened(label(row), 26), color=style.INK)
    figure.text(0.5, 0.02, "prompts, from the smallest reward variance to the largest", ha="center", color=style.QUIET)
    return figure


def _in_decades(axis: style.Axes) -> None:
    """Make the y axis logarithmic, with plain numbers instead of powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(NullLocator())


def _scaled(found: Dots, row: str, column: str, printed: PrintedTable) -> dict[int, float]:
    """Return bucket -> the published number, scaled so that a panel's mean is that of our first moment."""
    own = {place: dot[0].value for place, dot in found.items() if place[:2] == (row, column) and not place.null}
    first = [value for place, value in own.items() if place.moment == next(iter(own)).moment]
    paper = {place.bucket: printed.number(row, f"Q{place.bucket}", column) for place in own}
    known = {bucket: value for bucket, value in paper.items() if value is not None}
    if not known:
        return {}
    factor = np.mean([value for value in first if value is not None]) / np.mean(list(known.values()))
    return {bucket: float(factor * value) for bucket, value in known.items()}
