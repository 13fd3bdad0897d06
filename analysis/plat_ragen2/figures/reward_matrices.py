"""Draw the rewards of training batches: matrices, spreads within prompts, and counts of easy prompts (Figure 11).

The data is the table `reward_matrix`: the returns of P prompts with G trajectories each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.artifact import Figure, number
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.foretelling import check_steps
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, RunView, replicate_order
from plat_analysis.facets import AxisNames, Facets, Layout, rows_or
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened

TABLE = "reward_matrix"
QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
KINDS = ("easy", "mixed", "hard")
Array = NDArray[np.float64]
Matrices = Mapping[int, Array]  # iteration -> returns [prompt, trajectory]


@dataclass(frozen=True)
class Row:
    """Hold the content of one row of the figure.

    run      the run whose matrices are drawn: that of the lowest seed and build; None where no run has any
    shown    moment -> its matrix [prompt, trajectory], the prompt with the largest mean first
    spreads  moment -> the quantiles of the standard deviations of all runs' prompts, by name
    medians  moment -> the median prompt of each run
    counts   iteration -> the mean number of easy, mixed and hard prompts, at iterations that all runs have
    runs     the runs of spreads and counts; `wanted` is how many there should be
    """

    run: RunView | None
    shown: Mapping[int, Array]
    spreads: Mapping[int, Mapping[str, float]]
    medians: Mapping[int, Sequence[float]]
    counts: Mapping[int, Sequence[float]]
    runs: Sequence[RunView]
    wanted: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """Hold the options of the figure.

    moments  iterations whose matrices and spreads are shown; the batch is that of the iteration, or the last before
    solved   a trajectory with at least this return counts as solved
    rows     axes of the panel rows (default: `variant` where the experiment has it, else one row)
    easy     a prompt is easy if at least this share of its trajectories is solved
    hard     a prompt is hard if at most this share of its trajectories is solved
    """

    moments: Sequence[int]
    solved: float
    rows: AxisNames = None
    easy: float = 0.8
    hard: float = 0.2

    def beforehand(self, results: Results) -> None:
        """Raise SpecError as `facets` does, and unless `moments` are iterations from 1 on and 0 <= hard < easy <= 1."""
        check_steps("moments", self.moments, 1)
        if not 0 <= self.hard < self.easy <= 1:
            what = f"hard: {self.hard:g} must be below easy: {self.easy:g}, both in [0, 1]"
            raise SpecError(what, fix="write easy: .8, hard: .2")
        self.facets(results)

    def kinds(self, matrix: Array) -> tuple[int, int, int]:
        """Return how many prompts of a matrix are easy, mixed and hard."""
        shares = (matrix >= self.solved).mean(axis=1)
        easy, hard = int((shares >= self.easy).sum()), int((shares <= self.hard).sum())
        return easy, len(shares) - easy - hard, hard

    def facets(self, results: Results) -> Facets:
        """Return the runs by row. Raises SpecError if a row has two runs of one seed and build."""
        return Facets(results, Layout.of(rows_or(self.rows, results.experiment, None)))


@takes(Options)
def build(results: Results, asked: Options, *, name: str = "reward_matrices") -> list[Figure]:
    """Matrices of the run with the lowest seed, quantiles of the spread over all prompts, counts of easy and hard."""
    facets = asked.facets(results)
    found = {
        row: _row(results, [facets.runs(row)[r] for r in sorted(facets.runs(row), key=replicate_order)], asked)
        for row in facets.rows
    }
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, found, asked.moments),
        caption=" ".join(
            [
                "Left: the returns of one batch of the run with the lowest seed; a line is a prompt, and a column is a "
                "trajectory. Spread: the standard deviation of a prompt's returns, as the ranges that hold 5 to 95 % "
                "and 25 to 75 % of the prompts of all runs; small dots are the medians of single runs. Easy: at least "
                f"{asked.easy:g} of a prompt's trajectories have a return of {asked.solved:g} or more. Hard: at most "
                f"{asked.hard:g} of them do. The shares are means over runs.",
                *(f"{row}: {len(one.runs)} of {one.wanted} runs." for row, one in found.items()
                  if len(one.runs) != one.wanted),
            ]
        ),
    )  # fmt: skip
    for index, (row, one) in enumerate(found.items()):
        points = _points(row, one)
        figure.points += points
        figure.estimates += [{**point, "low": None, "high": None} for point in points if point["part"] != "matrix"]
        for moment in one.shown:
            said = f"{row}, iteration {moment}: returns of a batch".removeprefix(", ")
            figure.titles[f"matrix-{index}-{moment}"] = f"{said} · runs {one.run.id if one.run else ''}"
        ids = " ".join(run.id for run in one.runs)
        for moment, spreads in one.spreads.items():
            said = f"{row}, iteration {moment}: median standard deviation {number(spreads['median'], 2)}"
            figure.titles[f"spread-{index}-{moment}"] = f"{said.removeprefix(', ')} · runs {ids}"
    return [figure]


def _row(results: Results, wanted: Sequence[RunView], asked: Options) -> Row:
    of: dict[str, Matrices] = {}
    for run in [run for run in wanted if not run.missing]:
        found = {step: np.asarray(data, np.float64) for step, data in results.table(run.id, TABLE)}
        matrices = {step: matrix for step, matrix in found.items() if matrix.ndim == 2 and matrix.shape[1] > 1}
        of |= {run.id: matrices} if matrices else {}
    runs = [run for run in wanted if run.id in of]
    one = runs[0] if runs else None
    spreads, medians = {}, {}
    for moment in asked.moments:
        each = [np.std(matrix, axis=1, ddof=1) for run in runs if (matrix := _at(of[run.id], moment)) is not None]
        if each:
            every = np.concatenate(each)
            spreads[moment] = {name: float(np.quantile(every, share)) for name, share in QUANTILES.items()}
            medians[moment] = [float(np.median(own)) for own in each]
    shown = {at: matrix for at in asked.moments if one is not None and (matrix := _at(of[one.id], at)) is not None}
    common = sorted(set.intersection(*(set(matrices) for matrices in of.values()))) if of else []
    counts = {
        step: [float(n) for n in np.mean([asked.kinds(of[run.id][step]) for run in runs], axis=0)] for step in common
    }
    ordered = {at: matrix[np.argsort(-matrix.mean(axis=1), kind="stable")] for at, matrix in shown.items()}
    return Row(one, ordered, spreads, medians, counts, runs, len(wanted))


def _at(matrices: Matrices, moment: int) -> Array | None:
    """Return the matrix of an iteration, or of the last one before it."""
    steps = [step for step in matrices if step <= moment]
    return matrices[max(steps)] if steps else None


def _points(row: str, one: Row) -> list[dict[str, Any]]:
    """Return tidy data: matrices, quantiles and counts, a number a line."""
    ids = " ".join(run.id for run in one.runs)
    own = one.run.id if one.run else ""
    points: list[dict[str, Any]] = [
        {"row": row, "part": "matrix", "iteration": at, "what": f"prompt {p + 1}, trajectory {g + 1}",
         "value": float(value), "run_ids": own}
        for at, matrix in one.shown.items() for (p, g), value in np.ndenumerate(matrix)
    ]  # fmt: skip
    counts = {at: dict(zip(KINDS, numbers, strict=True)) for at, numbers in one.counts.items()}
    for part, values in (("spread", one.spreads), ("prompts", counts)):
        points += [
            {"row": row, "part": part, "iteration": at, "what": what, "value": value, "run_ids": ids}
            for at, numbers in values.items() for what, value in numbers.items()
        ]  # fmt: skip
    return points


def _draw(found: Mapping[str, Row], moments: Sequence[int]) -> style.Canvas:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    height = 0.95 + 1.35 * len(found)
    figure = style.canvas(2.9 + 1.7 * (len(moments) + 2), height)
    widths = [*[1.0] * len(moments), 1.2, 1.5]
    axes = figure.subplots(len(found), len(widths), squeeze=False, width_ratios=widths)
    figure.subplots_adjust(left=0.06, right=0.985, top=1 - 0.62 / height, bottom=0.45 / height, wspace=0.3, hspace=0.3)
    top = 1.05 * max((q["95 %"] for one in found.values() for q in one.spreads.values()), default=1.0) or 1.0
    every = [matrix for one in found.values() for matrix in one.shown.values()]
    low, high = (min(m.min() for m in every), max(m.max() for m in every)) if every else (0.0, 1.0)
    scale, colours = Normalize(low, max(high, low + 1e-9)), colormaps["cividis"]
    kinds = dict(zip(KINDS, (style.PALETTE[2], style.PALETTE[4], style.PALETTE[1]), strict=True))
    ends = [(f"dark: return {number(low)}", style.INK), (f"light: {number(high)}", style.INK)] if every else []
    style.key_line(figure, [*ends, *((f"{kind} prompts", colour) for kind, colour in kinds.items())], 1 - 0.14 / height)
    for index, (row, one) in enumerate(found.items()):
        for axis, moment in zip(axes[index], moments, strict=False):
            _matrix(axis, one.shown.get(moment), colours, scale, f"matrix-{index}-{moment}")
            if index == 0:
                axis.set_title(f"Iteration {moment}")
        spread, counts = axes[index][-2:]
        for place, (moment, q) in enumerate(one.spreads.items()):
            spread.plot([place] * 2, [q["5 %"], q["95 %"]], color=style.PALETTE[0], linewidth=0.9)
            spread.plot([place] * 2, [q["25 %"], q["75 %"]], color=style.PALETTE[0], linewidth=4, alpha=0.55,
                        solid_capstyle="butt")  # fmt: skip
            spread.plot([place + 0.25] * len(one.medians[moment]), one.medians[moment], ".", color=style.QUIET, ms=2.5)
            spread.plot([place], [q["median"]], "o", color=style.PALETTE[0], mec="white", mew=0.5, ms=5,
                        gid=f"spread-{index}-{moment}")  # fmt: skip
        spread.set_xticks(range(len(one.spreads)), [str(moment) for moment in one.spreads])
        spread.set_ylim(-0.04 * top, top)
        spread.set_xlim(-0.5, max(1, len(moments)) - 0.4)
        values = np.array(list(one.counts.values())).reshape(-1, len(KINDS))
        if len(values):
            counts.stackplot(list(one.counts), values.T, colors=list(kinds.values()), linewidth=0, alpha=0.85)
            counts.set_xlim(min(one.counts), max(max(one.counts), min(one.counts) + 1))
            counts.set_ylim(0, float(values.sum(axis=1).max()))
        counts.xaxis.set_major_locator(style.whole_numbers())
        for axis in (spread, counts):
            style.quiet_grid(axis)
            if not one.runs:
                axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center", color=style.QUIET)
        if index == 0:
            spread.set_title("Spread of a prompt")
            counts.set_title("Prompts of a batch")
        if row:
            axes[index][0].set_ylabel(shortened(" · ".join(map(label, row.split(" · "))), 24), color=style.INK)
    axes[-1][0].set_xlabel("trajectories")
    for axis in axes[-1][-2:]:
        axis.set_xlabel("training iteration")
    return figure


def _matrix(axis: Any, matrix: Array | None, colours: Any, scale: Any, gid: str) -> None:
    """Draw one matrix, its first prompt on top."""
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    if matrix is None:
        axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center")
        return
    axis.pcolormesh(matrix[::-1], cmap=colours, norm=scale, edgecolors="white", linewidth=0.3, gid=gid)
