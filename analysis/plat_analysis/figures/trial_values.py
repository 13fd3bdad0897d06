"""Draw the value of every trial of a search in order, with the best so far; one panel for each objective."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from plat.store.coordination.live_sweeps import Trial
from plat_analysis.artifact import Figure
from plat_analysis.figures import style
from plat_analysis.tables.trials import Objectives


def trial_values(trials: Sequence[Trial], objectives: Objectives) -> Figure:
    """Return the figure of a search; only complete and pruned trials are drawn."""
    points = [
        {"trial": trial.number, "state": trial.state, "objective": name, "value": trial.values[index]}
        for trial in trials
        for index, (name, _) in enumerate(objectives)
        if index < len(trial.values)
    ]
    return Figure(
        name="search",
        title="The course of the search",
        draw=partial(_draw, list(trials), list(objectives)),
        caption="Points: trials, means over their seeds. Line: the best so far. Crosses: trials that were given up, at "
        "their last value.",
        points=points,
    )


def _draw(trials: list[Trial], objectives: list[tuple[str, bool]]) -> style.Canvas:
    figure = style.canvas(6.4, 2.6 * len(objectives) + 0.4)
    for index, (name, maximize) in enumerate(objectives):
        axis = figure.add_subplot(len(objectives), 1, index + 1)
        complete = [trial for trial in trials if trial.state == "complete"]
        pruned = [trial for trial in trials if trial.state == "pruned" and index < len(trial.values)]
        numbers, values = [trial.number for trial in complete], [trial.values[index] for trial in complete]
        axis.plot(numbers, values, "o", color=style.PALETTE[0], ms=4)
        axis.plot([t.number for t in pruned], [t.values[index] for t in pruned], "x", color=style.QUIET, ms=4)
        best = [(max if maximize else min)(values[: count + 1]) for count in range(len(values))]
        axis.step(numbers, best, where="post", color=style.PALETTE[1], linewidth=1.2)
        axis.set_title(name)
        style.quiet_grid(axis)
        axis.margins(x=0.03)
    axis.set_xlabel("trial")
    figure.subplots_adjust(left=0.11, right=0.98, top=0.9, bottom=0.16, hspace=0.5)
    return figure
