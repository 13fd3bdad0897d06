"""Show a search: every trial and the winner on fresh seeds as tables, and the values of all trials as a figure.

A winner was chosen for its high values, so they are biased upward. Its optimism is the mean on the seeds of the search
minus the mean on fresh seeds (reversed for a minimized objective); positive: the search promised too much. The
interval is Welch's, 95 %, from three runs on each side on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from plat.store.coordination.live_sweeps import Trial, Winner
from plat_analysis.artifact import DASH, Cell, Column, Figure, Note, Row, Table
from plat_analysis.figures import style
from plat_analysis.statistics.intervals import LEVEL, welch_lower_bound

ENOUGH = 3  # least runs on each side for an interval
Objectives = Sequence[tuple[str, bool]]  # (name, whether it is maximized)
Estimate = tuple[float, float | None, float | None]  # (optimism, low, high); no interval below three runs on a side


def optimism(winner: Winner) -> Estimate | None:
    """Return a winner's optimism as (value, low, high), the value above 0 if the search promised too much.

    Its runs in the search are compared with its fresh runs. Return None if one of these sides has no run; low and high
    are None if one has fewer than ENOUGH.
    """
    if not winner.searched or not winner.fresh:
        return None
    better, worse = (winner.searched, winner.fresh) if winner.maximize else (winner.fresh, winner.searched)
    difference = float(np.mean(better) - np.mean(worse))
    if min(len(better), len(worse)) < ENOUGH:
        return difference, None, None
    level = 0.5 + LEVEL / 2
    return difference, welch_lower_bound(better, worse, level), -welch_lower_bound(worse, better, level)


def trials_table(trials: Sequence[Trial], objectives: Objectives) -> Table:
    """Return every trial, the best in the first objective first; those that are not complete last, by number."""
    params = list(dict.fromkeys(name for trial in trials for name in trial.params))
    columns = [Column("trial"), *(Column(name, numeric=False) for name in params)]
    columns += [*(Column(name) for name, _ in objectives), Column("iterations"), Column("state", numeric=False)]
    rows, records = [], []
    for trial in sorted(trials, key=lambda trial: _rank(trial, objectives)):
        values = [trial.values[index] if index < len(trial.values) else None for index in range(len(objectives))]
        cells = [Cell(str(trial.number), title=" ".join(trial.run_ids))]
        cells += [Cell(spelled(trial.params.get(name))) for name in params]
        cells += [Cell(spelled(value), tone="" if trial.state == "complete" else "dim") for value in values]
        cells += [Cell(str(trial.iterations)), Cell(trial.state, title=trial.reason)]
        rows.append(Row(tuple(cells)))
        named = {name: value for (name, _), value in zip(objectives, values, strict=True)}
        facts = {"trial": trial.number, "state": trial.state, "iterations": trial.iterations, "reason": trial.reason}
        records.append({**facts, **trial.params, **named, "run_ids": " ".join(trial.run_ids)})
    return Table(
        name="trials",
        title="Trials",
        columns=columns,
        rows=rows,
        caption="A trial's value is the mean over its seeds. For a pruned trial it is the last value that was seen.",
        records=records,
    )


def winners_table(winners: Sequence[Winner], wanted: tuple[int, int]) -> Table:
    """Return the winners in the search and on fresh seeds; `wanted`: the runs that each should have in both."""
    estimates = [optimism(winner) for winner in winners]
    notes = [] if wanted[1] else [Note("Nothing was confirmed: the search file names no seeds to `confirm` with.")]
    if not winners:
        notes = [Note("No trial is complete, so there is no winner.")]
    return Table(
        name="winner",
        title="The winner on fresh seeds",
        columns=[
            Column("trial"),
            Column("objective", numeric=False),
            Column("in the search"),
            Column("on fresh seeds"),
            Column("optimism"),
        ],
        rows=[_winner_row(*pair, wanted) for pair in zip(winners, estimates, strict=True)],
        caption="Optimism: how much better the value is in the search than on fresh seeds; 95 % interval over seeds.",
        notes=notes,
        records=[_winner_record(*pair) for pair in zip(winners, estimates, strict=True)],
        values={
            f"optimism/{winner.objective}/trial-{winner.trial}": estimate[0]
            for winner, estimate in zip(winners, estimates, strict=True)
            if estimate is not None
        },
    )


def _winner_row(winner: Winner, estimate: Estimate | None, wanted: tuple[int, int]) -> Row:
    text = DASH
    if estimate is not None:
        difference, low, high = estimate
        bounds = "" if low is None or high is None else f" [{_short(low)}, {_short(high)}]"
        text = f"{'+' if difference > 0 else ''}{_short(difference)}{bounds}"
    means = (_mean(winner.searched, wanted[0]), _mean(winner.fresh, wanted[1]))
    cells = [Cell(words) for words in (str(winner.trial), winner.objective, *means)]
    return Row((*cells, Cell(text, title=" ".join(winner.run_ids))))


def _winner_record(winner: Winner, estimate: Estimate | None) -> dict[str, Any]:
    difference, low, high = estimate or (None, None, None)
    return {
        "trial": winner.trial,
        "objective": winner.objective,
        "searched": float(np.mean(winner.searched)) if winner.searched else None,
        "fresh": float(np.mean(winner.fresh)) if winner.fresh else None,
        "optimism": difference,
        "low": low,
        "high": high,
        "run_ids": " ".join(winner.run_ids),
    }


def spelled(value: Any) -> str:
    """Return a parameter or a value in print: floats to four digits, `DASH` for None."""
    if value is None:
        return DASH
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _short(value: float) -> str:
    """Return three significant digits, never a negative zero."""
    return f"{value + 0.0:.3g}"


def _mean(values: Sequence[float], wanted: int) -> str:
    if not values:
        return DASH
    short = "" if len(values) == wanted else f" ({len(values)}/{wanted} runs)"
    return f"{float(np.mean(values)):.4g}{short}"


def _rank(trial: Trial, objectives: Objectives) -> tuple[bool, float, int]:
    if trial.state != "complete":
        return True, 0.0, trial.number
    return False, -trial.values[0] if objectives[0][1] else trial.values[0], trial.number


# Draw the value of every trial of a search in order, with the best so far; one panel for each objective.


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
