"""The rewards of training batches: as matrices, as the spread of a prompt, and as counts of easy prompts (Figure 11).

They come from the table `reward_matrix`, in which every run has the returns of P prompts with G trajectories each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.artifact import Figure, number
from plat_analysis.data.labels import label
from plat_analysis.data.runs import Results, RunView, replicate_order
from plat_analysis.facets import AxisNames, Facets, Layout, rows_or
from plat_analysis.options import checked_by
from plat_analysis.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

TABLE = "reward_matrix"
QUANTILES = {"5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95}
KINDS = ("easy", "mixed", "hard")
Array = NDArray[np.float64]
Matrices = Mapping[int, Array]  # iteration -> returns [prompt, trajectory]


@dataclass(frozen=True)
class Row:
    """What one row of the figure shows.

    run      the run whose matrices are drawn: that of the lowest seed and build; None where no run has any
    shown    moment -> its matrix, the prompt with the largest mean first
    spreads  moment -> the quantiles of the standard deviations of all runs' prompts, by name
    medians  moment -> the median prompt of each run
    counts   iteration -> the mean number of easy, mixed and hard prompts, at iterations that all runs have
    runs     those behind spreads and counts, and how many were wanted
    """

    run: RunView | None
    shown: Mapping[int, Array]
    spreads: Mapping[int, Mapping[str, float]]
    medians: Mapping[int, Sequence[float]]
    counts: Mapping[int, Sequence[float]]
    runs: Sequence[RunView]
    wanted: int


def _beforehand(
    results: Results,
    *,
    moments: Sequence[int],
    solved: float,
    rows: AxisNames = None,
    easy: float = 0.8,
    hard: float = 0.2,
    **_: Any,
) -> None:
    """SpecError where a moment is no iteration, the classes overlap, or two runs stand at one place."""
    if not moments or not all(isinstance(at, int) and not isinstance(at, bool) and at > 0 for at in moments):
        raise SpecError("moments: names the iterations that are shown", mend="write moments: [1, 15, 30]")
    if not 0 <= hard < easy <= 1:
        raise SpecError(
            f"easy: {easy:g} and hard: {hard:g} are no two shares in order", mend="write easy: .8, hard: .2"
        )
    Facets(results, Layout.of(rows_or(rows, results.experiment, None)))


@checked_by(_beforehand)
def build(
    frames: Frames,
    experiment: Experiment,
    *,
    moments: Sequence[int],
    solved: float,
    rows: AxisNames = None,
    easy: float = 0.8,
    hard: float = 0.2,
    name: str = "reward_matrices",
) -> list[Figure]:
    """Matrices of the run with the lowest seed, quantiles of the spread over all prompts, counts of easy and hard ones.

    moments  iterations whose matrices and spreads are shown; the batch is that of the iteration, or the last before
    solved   the least return of a trajectory that solved its instance
    rows     axes of the panel rows (default: `variant` where the experiment has it, else one row)
    easy     the least share of solved trajectories of a prompt that is called easy; `hard`: the largest of a hard one
    """
    results = Results.of(frames, experiment)
    facets = Facets(results, Layout.of(rows_or(rows, experiment, None)))
    found = {
        row: _row(results, [facets.runs(row)[r] for r in sorted(facets.runs(row), key=replicate_order)], moments,
                  solved, easy, hard)
        for row in facets.rows
    }  # fmt: skip
    figure = Figure(
        name=name,
        title=" · ".join(filter(None, [experiment.source, experiment.title])),
        draw=partial(_draw, found, moments),
        caption=" ".join(
            [
                "Left: returns of one batch, a line for each prompt and a column for each trajectory, of the run with "
                "the lowest seed. Spread: standard deviations of the returns of a prompt, 5 to 95 % and 25 to 75 % of "
                f"all prompts of all runs; small dots: the median of each run. Easy: at least {easy:g} of a prompt's "
                f"trajectories have a return of {solved:g} or more; hard: at most {hard:g}; means over runs.",
                *(f"{row}: {len(one.runs)} of {one.wanted} runs." for row, one in found.items()
                  if len(one.runs) != one.wanted),
            ]
        ),
    )  # fmt: skip
    for row, one in found.items():
        figure.points += _points(row, one)
    for index, (row, one) in enumerate(found.items()):
        for moment in one.shown:
            said = f"{row}, iteration {moment}: returns of a batch".removeprefix(", ")
            figure.titles[f"matrix-{index}-{moment}"] = f"{said} · runs {one.run.id if one.run else ''}"
        ids = " ".join(run.id for run in one.runs)
        for moment, spreads in one.spreads.items():
            said = f"{row}, iteration {moment}: median standard deviation {number(spreads['median'], 2)}"
            figure.titles[f"spread-{index}-{moment}"] = f"{said.removeprefix(', ')} · runs {ids}"
    return [figure]


BUILDER = build


def _row(
    results: Results, wanted: Sequence[RunView], moments: Sequence[int], solved: float, easy: float, hard: float
) -> Row:
    of = {run.id: _matrices(results, run) for run in wanted if not run.missing}
    runs = [run for run in wanted if of.get(run.id)]
    one = runs[0] if runs else None
    spreads, medians = {}, {}
    for moment in moments:
        each = [np.std(matrix, axis=1, ddof=1) for run in runs if (matrix := _at(of[run.id], moment)) is not None]
        if each:
            every = np.concatenate(each)
            spreads[moment] = {name: float(np.quantile(every, share)) for name, share in QUANTILES.items()}
            medians[moment] = [float(np.median(own)) for own in each]
    shown = {at: matrix for at in moments if one is not None and (matrix := _at(of[one.id], at)) is not None}
    counts = {
        step: [float(n) for n in np.mean([_kinds(of[run.id][step], solved, easy, hard) for run in runs], axis=0)]
        for step in sorted(set.intersection(*(set(of[run.id]) for run in runs)) if runs else ())
    }
    return Row(one, {at: m[np.argsort(-m.mean(axis=1), kind="stable")] for at, m in shown.items()}, spreads, medians,
               counts, runs, len(wanted))  # fmt: skip


def _matrices(results: Results, run: RunView) -> Matrices:
    """Every matrix of a run. What is no matrix of two trajectories or more is left out."""
    found = {step: np.asarray(data, np.float64) for step, data in results.table(run.id, TABLE)}
    return {step: matrix for step, matrix in found.items() if matrix.ndim == 2 and matrix.shape[1] > 1}


def _at(matrices: Matrices, moment: int) -> Array | None:
    """The matrix of an iteration, or of the last one before it."""
    steps = [step for step in matrices if step <= moment]
    return matrices[max(steps)] if steps else None


def _kinds(matrix: Array, solved: float, easy: float, hard: float) -> tuple[int, int, int]:
    """How many prompts are easy, mixed and hard."""
    shares = (matrix >= solved).mean(axis=1)
    counts = int((shares >= easy).sum()), int((shares <= hard).sum())
    return counts[0], len(shares) - sum(counts), counts[1]


def _points(row: str, one: Row) -> list[dict[str, Any]]:
    """Tidy data: matrices, quantiles and counts, a number a line."""
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


def _draw(found: Mapping[str, Row], moments: Sequence[int]) -> Canvas:
    from matplotlib import colormaps
    from matplotlib.colors import Normalize

    from plat_analysis.figures import style

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
    """One matrix, its first prompt on top."""
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    if matrix is None:
        axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center")
        return
    axis.pcolormesh(matrix[::-1], cmap=colours, norm=scale, edgecolors="white", linewidth=0.3, gid=gid)
