"""Success, retrieval accuracy and entropy over training: a figure per metric, variants by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from plat_analysis import curves
from plat_analysis.artifact import Figure
from plat_analysis.curves import Bundle, bundle
from plat_analysis.labels import label
from plat_analysis.results import Results, spell

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

    from plat.spec.experiment import Experiment
    from plat.store.reader import Frames

METRICS = ("val/success", "mi/first_turn/retrieval_acc", "actor/entropy")
MOST_BANDS = 3  # more bands than this hide each other
RATES = ("success", "retrieval_acc", "parses")
Panels = dict[tuple[str, str, str], Bundle]


def build(
    frames: Frames,
    experiment: Experiment,
    *,
    rows: str | Sequence[str] | None = None,
    columns: str = "task",
    pair: str = "filter",
    baseline: Any = "none",
    metrics: Sequence[str] = METRICS,
    name: str = "learning_curves",
) -> list[Figure]:
    """rows: axes of the panel rows (default: `variant` where the experiment has it); pair: the axis told by colour."""
    results = Results(frames, experiment)
    axes = (
        (rows,) if isinstance(rows, str) else tuple(rows or [axis for axis in ("variant",) if axis in experiment.axes])
    )
    groups: dict[tuple[str, str, str], list] = {}
    for run in results.positions:
        row = " · ".join(run.axis(axis) for axis in axes)
        groups.setdefault((row, run.axis(columns), run.axis(pair)), []).append(run)
    figures = []
    for metric in metrics:
        panels = {key: bundle(results, runs, metric) for key, runs in groups.items()}
        short = metric.rsplit("/", 1)[-1]
        figure = Figure(
            name=f"{name}_{short}",
            title=f"{label(metric)} over training",
            draw=partial(_draw, panels, results, metric, spell(baseline), pair),
            caption=_caption(metric, panels),
        )
        for index, ((row, column, line), found) in enumerate(panels.items()):
            figure.points += curves.points(found, row=row, column=column, line=line, metric=metric)
            ids = " ".join(run.id for run in found.runs)
            figure.titles[f"line-{index}"] = f"{row} × {label(column)}, {label(line)} · runs {ids}"
        figures.append(figure)
    return figures


BUILDER = build


def _caption(metric: str, panels: Panels) -> str:
    several = any(len(found.lines) > 1 for found in panels.values())
    text = "Bold: mean over seeds while every seed runs; thin: single seeds. " if several else "One seed. "
    counts = {found.counted for found in panels.values() if found.low is not None}
    kinds = ["over seeds"] if max(counts, default=0) >= curves.BAND_SEEDS else []
    kinds += ["over the validation instances where one seed counts"] if 1 in counts else []
    if kinds:
        text += f"Band: 95 % interval {', '.join(kinds)}. "
    if metric.endswith("retrieval_acc"):
        text += "Dotted: chance. "
    return text + "×: the run ended early."


def _draw(panels: Panels, results: Results, metric: str, baseline: str, pair: str) -> Canvas:
    from plat_analysis import style

    rows = list(dict.fromkeys(row for row, _, _ in panels))
    columns = list(dict.fromkeys(column for _, column, _ in panels))
    lines = list(dict.fromkeys(line for _, _, line in panels))
    colours = style.colours(lines, baseline)
    rate = metric.rsplit("/", 1)[-1] in RATES
    height = 0.85 + 1.0 * len(rows) + (0.6 if len(rows) == 1 else 0)
    figure = style.canvas(max(4.2, 1.2 + 2.3 * len(columns)), height)
    axes = figure.subplots(len(rows), len(columns), sharex="col", sharey="col" if rate else "row", squeeze=False)
    named = len(rows) > 1  # a single row needs no name
    left = (0.6 + 0.062 * max(map(len, rows)) * named) / figure.get_figwidth()
    figure.subplots_adjust(
        left=left, right=0.99, top=1 - 0.55 / height, bottom=0.4 / height, wspace=0.2 if rate else 0.08, hspace=0.18
    )
    heading = [] if pair == "filter" else [(pair, style.QUIET)]
    style.key_line(figure, [*heading, *((label(line), colours[line]) for line in lines)], 1 - 0.12 / height)
    for (row, column, line), found in panels.items():
        axis = axes[rows.index(row)][columns.index(column)]
        gid = f"line-{list(panels).index((row, column, line))}"
        curves.draw(axis, found, colours[line], gid, (0.0, 1.0) if rate else None, band=len(lines) <= MOST_BANDS)
        if short := curves.seeds(found):
            x = 0.02 if line == baseline else 0.98
            axis.text(x, 0.04, short, transform=axis.transAxes, ha="left" if x < 0.5 else "right", fontsize=6,
                      color=colours[line], style="italic")  # fmt: skip
        if metric.endswith("retrieval_acc"):
            for run in found.runs[:1]:
                steps, chance = results.curve(run.id, metric.replace("retrieval_acc", "retrieval_chance"))
                axis.plot(steps, chance, ":", color=style.QUIET, linewidth=0.9, zorder=1)
    tops = {column: _top([found for (_, c, _), found in panels.items() if c == column]) for column in columns}
    for r, row in enumerate(rows):
        for c, column in enumerate(columns):
            axis = axes[r][c]
            style.quiet_grid(axis)
            if not axis.lines:
                axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center", color=style.QUIET, style="italic")
            if r == 0:
                axis.set_title(label(column))
            if c == 0 and named:
                axis.annotate(row, (0, 0.5), (-34, 0), xycoords="axes fraction", textcoords="offset points", ha="right",
                              va="center", fontsize=8, color=style.INK)  # fmt: skip
            if rate:
                top = tops[column]
                axis.set_ylim(0, top)
                ticks = [0, 0.5, 1] if top == 1 else [0, 0.25, 0.5, 0.75]
                axis.set_yticks([tick for tick in ticks if tick <= top])
                axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %" if value else "0")
            axis.tick_params(length=0 if c else 2.5, axis="y")
    axes[-1][len(columns) // 2].set_xlabel("training iteration")
    return figure


def _top(bundles: list[Bundle]) -> float:
    """Upper end of an axis of rates: the next quarter above everything drawn, the same for all rows of a column."""
    largest = max((float(values.max()) for found in bundles for _, values in found.lines), default=1.0)
    return next((top for top in (0.25, 0.5, 0.75) if largest <= 0.95 * top), 1.0)
