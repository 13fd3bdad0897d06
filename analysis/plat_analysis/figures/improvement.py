"""Draw the probability of improvement: that a run of a row beats a run of the baseline, on a random task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.task_scores import TaskOptions, TaskScores
from plat_analysis.data.results import Results, spell
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.aggregate import Scores, Values, improvement
from plat_analysis.statistics.intervals import Estimate

EVEN = 0.5


@dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Hold the options that name the baseline.

    baseline   the row with which the others are compared (default: the first one)
    """

    baseline: Any = None

    def laid_out(self, results: Results) -> TaskScores:
        """Return the scores by row, as `TaskOptions.laid_out` does.

        Raises SpecError as well if there is no such row or no other one, or if rows have different tasks.
        """
        scores = super().laid_out(results)
        baseline, rows = self.named(scores), scores.rows
        if baseline not in rows:
            raise SpecError(f"baseline: there is no row {baseline!r}", fix=suggest(baseline, rows, "rows"))
        if len(rows) < 2:
            raise SpecError("there is nothing to compare: all runs are in one row", fix="name an axis under `rows`")
        for row, found in rows.items():
            if lost := sorted(map(_words, found.tasks.keys() ^ rows[baseline].tasks.keys())):
                what = f"{scores.label(row)} and {scores.label(baseline)} have different tasks: {', '.join(lost)}"
                raise SpecError(what, fix="give both the same tasks (and builds): check `include`, `exclude` and `zip`")
        return scores

    def named(self, scores: TaskScores) -> str:
        """Return the baseline's row."""
        return next(iter(scores.rows)) if self.baseline is None else spell(self.baseline)


@takes(Options)
def build(results: Results, asked: Options, *, title: str = "", name: str = "improvement") -> list[Figure]:
    """The probability that a run of each row beats one of the baseline, with its 95 % interval.

    It is the mean over tasks of P(X > Y) + P(X = Y) / 2. Runs of both rows are resampled within each task.
    """
    scores = asked.laid_out(results)
    baseline = asked.named(scores)
    estimates = {row: _estimate(scores, row, baseline) for row in scores.rows if row != baseline}
    figure = Figure(
        name=name,
        title=title or f"Probability of improvement over {scores.label(baseline)}",
        draw=lambda: _draw(scores, estimates, baseline),
        caption=f"Probability that a run has a higher {scores.of.name} than one of {scores.label(baseline)}, on "
        "average over tasks; equal ones count half. 95 % intervals of the bootstrap, with runs resampled within each "
        "task, about further runs of these tasks; none where all of them agree. It says nothing about the size of a "
        "difference.",
    )
    for index, (row, estimate) in enumerate(estimates.items()):
        figure.points.append(record(estimate, row=row, against=baseline, measure=scores.of.name))
        shown = f"{scores.label(row)}: {number(estimate.value, 2)} · {provenance(estimate)}"
        figure.titles[f"improvement-{index}"] = shown
    return [figure]


def _estimate(scores: TaskScores, row: str, baseline: str) -> Estimate:
    """Compare two rows task by task."""
    first, second = scores.rows[row], scores.rows[baseline]
    ordered = type(second)({key: second.tasks[key] for key in first.tasks}, second.facts)
    count = len(first.tasks)

    def statistic(drawn: Scores) -> Values:
        return improvement(drawn[:count], drawn[count:])

    return first.estimate(statistic, others=ordered)


def _words(key: tuple[str, Any]) -> str:
    column, build = key
    return column if build is None else f"{column} build {build}"


def _draw(scores: TaskScores, estimates: Mapping[str, Estimate], baseline: str) -> style.Canvas:
    height = 0.95 + 0.3 * len(estimates)
    figure = style.canvas(6.2, height)
    axis = figure.subplots()
    figure.subplots_adjust(left=0.3, right=0.97, top=1 - 0.15 / height, bottom=0.5 / height)
    axis.axvline(EVEN, color="#9a9a9a", linewidth=0.8, zorder=1)
    style.quiet_grid(axis, "x")
    for y, estimate in enumerate(estimates.values()):
        if estimate.value is None:
            style.absent_dot(axis, y, estimate.note)
        else:
            style.interval_dot(axis, y, estimate.value, (estimate.low, estimate.high), 1, f"improvement-{y}")
    axis.set_yticks(range(len(estimates)), [shortened(scores.label(row), 26) for row in estimates])
    axis.set_ylim(len(estimates) - 0.5, -0.5)
    axis.set_xlim(-0.02, 1.02)
    axis.set_xlabel(f"P(better than {shortened(scores.label(baseline), 26)})")
    return figure
