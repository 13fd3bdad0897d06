"""Draw performance profiles: the share of runs whose score is above a threshold, over thresholds, a line for each row.

A higher line is better. It shows what a mean hides, such as a few tasks on which one row fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.task_scores import RowScores, TaskOptions, TaskScores, has_interval
from plat_analysis.data.labels import measure_label
from plat_analysis.data.results import Results
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.aggregate import profile, profile_at, these_tasks

POINTS = 51  # thresholds between the two ends of a range
MARKED = 6  # markers on a line
MOST = 500  # thresholds of a list
BAND_RESAMPLES = 1000


def read_thresholds(given: Any) -> NDArray[np.float64]:
    """Return the thresholds of a range [LOW, HIGH], or of a list of three or more rising numbers.

    Raises SpecError for anything else, and without any.
    """
    fix = "add thresholds: [LOW, HIGH] in the unit of the measure, such as [0, 100] for percent"
    if given is None:
        raise SpecError("a performance profile has no range of thresholds", fix=fix)
    numbers = [float(x) for x in given if _is_finite(x)] if isinstance(given, list | tuple) else []
    if len(numbers) < 2 or len(numbers) != len(given) or len(numbers) > MOST or not (np.diff(numbers) > 0).all():
        raise SpecError(f"thresholds: {given!r} is not a range of rising numbers", fix=fix)
    return np.linspace(numbers[0], numbers[1], POINTS) if len(numbers) == 2 else np.array(numbers)


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


@takes(TaskOptions, reads={"thresholds": read_thresholds})
def build(
    results: Results,
    asked: TaskOptions,
    *,
    thresholds: Sequence[float] | None = None,
    title: str = "",
    name: str = "profile",
) -> list[Figure]:
    """Performance profiles with pointwise 95 % bands: runs are resampled within each task.

    thresholds  [LOW, HIGH], or a list of rising numbers, in the unit of the measure; required
    """
    scores, at = asked.laid_out(results), read_thresholds(thresholds)
    curves = {row: _Curve.of(found, at) for row, found in scores.rows.items() if found.complete}
    percent = ", in percent" if scores.of.factor != 1 else ""
    missing = [scores.label(row) for row in scores.rows if row not in curves]
    lacks = f" Without a score on some task, and not drawn: {', '.join(missing)}." if missing else ""
    figure = Figure(
        name=name,
        title=title or results.heading,
        draw=lambda: _draw(scores, curves, at),
        caption=f"Share of runs above a score{percent}; each task counts equally. Bands: pointwise 95 % intervals of "
        "the bootstrap, with runs resampled within each task, about further runs of these tasks; they have no width "
        f"where all runs are on one side.{lacks}",
    )
    for row, curve in curves.items():
        for index, threshold in enumerate(at):
            low, high = (None, None) if curve.low is None else (float(curve.low[index]), float(curve.high[index]))
            figure.points.append(
                {
                    "row": row,
                    "threshold": round(float(threshold), 10),
                    "value": float(curve.share[index]),
                    "low": low,
                    "high": high,
                    "seeds": scores.rows[row].facts["seeds"],
                    "seeds_wanted": scores.rows[row].facts["wanted"],
                    "run_ids": " ".join(scores.rows[row].facts["run_ids"]),
                    "note": scores.rows[row].facts["note"],
                }
            )
    return [figure]


@dataclass(frozen=True)
class _Curve:
    """Hold the profile of a row at each threshold, with its band, or without one where a task has few runs."""

    share: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64]

    @classmethod
    def of(cls, found: RowScores, at: NDArray[np.float64]) -> _Curve:
        share = profile(found.scores, at)
        if not has_interval(found.scores):
            return cls(share, None, share)
        return cls(share, *these_tasks(profile_at(at), found.scores, BAND_RESAMPLES))


def _draw(scores: TaskScores, curves: Mapping[str, _Curve], at: NDArray[np.float64]) -> style.Canvas:
    figure = style.canvas(6.2, 3.6)
    axis = figure.subplots()
    figure.subplots_adjust(left=0.1, right=0.985, top=0.87, bottom=0.13)
    rows = list(scores.rows)
    looks = style.looks(rows, rows[0] if rows else "")
    style.key_line(figure, [(shortened(scores.label(row), 26), looks[row]) for row in curves], 0.95)
    for row, curve in curves.items():
        look, apart = looks[row], max(1, len(at) // MARKED)
        if curve.low is not None:
            axis.fill_between(at, curve.low, curve.high, color=look.colour, alpha=0.16, linewidth=0, zorder=2)
        axis.plot(
            at,
            curve.share,
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker,
            markevery=apart,
            ms=3.2,
            zorder=3,
        )
    style.quiet_grid(axis, "both")
    axis.set_ylim(-0.02, 1.02)
    axis.set_xlabel(f"{measure_label(scores.of.name)}{', %' if scores.of.factor != 1 else ''}")
    axis.set_ylabel("share of runs above")
    return figure
