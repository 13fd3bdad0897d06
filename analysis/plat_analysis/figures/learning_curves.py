"""Draw success, retrieval accuracy and entropy over training: a figure per metric, variants by tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS
from plat_analysis.artifact import Figure
from plat_analysis.builder_options import takes
from plat_analysis.data.chance import beside, chance_of
from plat_analysis.data.labels import axis_label, label, value_label
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, Place, rows_or
from plat_analysis.figures import condition_curves as curves
from plat_analysis.figures import style
from plat_analysis.figures.condition_curves import ConditionCurves, condition_curves
from plat_analysis.shown_text import shortened

METRICS = (SUCCESS, "mi/first_turn/retrieval_acc", "actor/entropy")
MOST_BANDS = 3  # more bands than this hide each other
RATES = ("success", "retrieval_acc", "parses")
LONGEST_NAME = 26  # characters in a figure; the whole name is in the CSV and the tooltips
Panels = dict[Place, ConditionCurves]


@takes()
def build(
    results: Results,
    *,
    rows: AxisNames = None,
    columns: AxisNames = "task",
    pair: str = "filter",
    baseline: Any = "none",
    metrics: Sequence[str] = METRICS,
    name: str = "learning_curves",
) -> list[Figure]:
    """A figure for each metric, with panels by rows and columns and a line for each condition.

    rows      axes of the panel rows (default: `variant` where the experiment has it)
    pair      the axis shown by colour; `baseline` is the grey one
    metrics   a figure each; `success` is the headline metric of each run's trainer
    """
    facets = Facets(results, Layout.of(rows_or(rows, results.experiment, None), columns, pair))
    return [_figure(results, facets, metric, spell(baseline), name) for metric in metrics]


def _figure(results: Results, facets: Facets, metric: str, baseline: str, name: str) -> Figure:
    by_line = {place: condition_curves(results, list(runs.values()), metric) for place, runs in facets.places.items()}
    bands = len(facets.conditions) <= MOST_BANDS
    figure = Figure(
        name=f"{name}_{metric.rsplit('/', 1)[-1]}",
        title=f"{label(results.metric(metric))} over training",
        draw=partial(_draw, by_line, results, metric, baseline, facets.layout),
        caption=" ".join(
            [
                caption([metric], by_line.values(), bands),
                *beside(results, results.runs, [metric]),
                *results.unlogged([metric]),
            ]
        ),
    )
    for index, ((row, column, line), curves_of_line) in enumerate(by_line.items()):
        figure.points += curves.points(curves_of_line, row=row, column=column, line=line, metric=results.metric(metric))
        labels = facets.layout.labels(row, column, line)
        figure.estimates += curves.estimates(curves_of_line, **labels, metric=results.metric(metric))
        runs = "; ".join(
            " ".join(filter(None, [run.id, str(curves_of_line.falls.get(run.id, ""))])) for run in curves_of_line.runs
        )
        figure.titles[f"line-{index}"] = f"{row} × {label(column)}, {label(line)} · runs {runs}"
    return figure


def caption(metrics: Collection[str], shown: Collection[ConditionCurves], bands: bool) -> str:
    """Return what bold and thin lines, bands (where they are drawn) and marks mean in a figure of these curves."""
    several = any(len(lines.lines) > 1 for lines in shown)
    text = "Bold: mean over seeds while every seed runs; thin: single seeds. " if several else "One seed. "
    counts = {lines.counted for lines in shown if lines.low is not None}
    if grids := {len(lines.steps) for lines in shown if lines.interpolated and len(lines.steps)}:
        text += f"Seeds log at different steps: their mean is interpolated at {max(grids)} steps. "
    kinds = ["over seeds"] if max(counts, default=0) >= curves.BAND_SEEDS else []
    kinds += ["over the validation instances where one seed counts"] if 1 in counts else []
    if kinds and bands:
        text += f"Band: 95 % interval {', '.join(kinds)}. "
    if any(map(chance_of, metrics)):
        text += "Dotted: chance. "
    fallen = sum(len(lines.falls) for lines in shown)
    if fallen:
        text += f"▼: fell after its peak, by 5 points or more and beyond chance ({fallen} runs). "
    return text + "×: the run ended early."


def _draw(by_line: Panels, results: Results, metric: str, baseline: str, layout: Layout) -> style.Canvas:
    rows = list(dict.fromkeys(row for row, _, _ in by_line))
    columns = list(dict.fromkeys(column for _, column, _ in by_line))
    lines = list(dict.fromkeys(line for _, _, line in by_line))
    looks = style.looks(lines, baseline)
    is_success = any(run.measures_success(metric) for run in results.runs)
    rate = results.success_is_share if is_success else metric.rsplit("/", 1)[-1] in RATES
    height = 0.85 + 1.0 * len(rows) + (0.6 if len(rows) == 1 else 0)
    figure = style.canvas(max(4.2, 1.4 + 2.3 * len(columns)), height)
    axes = figure.subplots(len(rows), len(columns), sharex="col", sharey=True, squeeze=False)
    named = len(rows) > 1  # a single row needs no name
    names = [shortened(_named(layout.rows, row), LONGEST_NAME) for row in rows]
    left = (0.75 + 0.062 * max(map(len, names)) * named) / figure.get_figwidth()
    figure.subplots_adjust(left=left, right=0.99, top=1 - 0.55 / height, bottom=0.4 / height, wspace=0.08, hspace=0.18)
    entries: list[tuple[str, str | style.Look]] = []
    if layout.conditions not in ((), ("filter",)):
        entries.append((" · ".join(map(axis_label, layout.conditions)) + ":", style.INK))
    entries += [(shortened(label(line), LONGEST_NAME), looks[line]) for line in lines]
    style.key_line(figure, entries, 1 - 0.12 / height)
    for index, ((row, column, line), condition) in enumerate(by_line.items()):
        axis = axes[rows.index(row)][columns.index(column)]
        bounds = (0.0, 1.0) if rate else None
        curves.draw(axis, condition, looks[line], f"line-{index}", bounds, band=len(lines) <= MOST_BANDS)
        if note := curves.seeds_note(condition):
            x, side = (0.02, "left") if line == baseline else (0.98, "right")
            colour = looks[line].colour
            axis.text(x, 0.04, note, transform=axis.transAxes, ha=side, fontsize=6, color=colour, style="italic")
        _draw_chance(axis, results, condition, metric)
    largest = max((float(values.max()) for lines in by_line.values() for _, values in lines.lines), default=1.0)
    top = next((top for top in (0.25, 0.5, 0.75) if largest <= 0.95 * top), 1.0)  # the next quarter above all values
    for c, column in enumerate(columns):
        axes[0][c].set_title(shortened(_named(layout.columns, column), LONGEST_NAME))
        for r in range(len(rows)):
            finish_panel(axes[r][c], top if rate else None)
            axes[r][c].tick_params(length=0 if c else 2.5, axis="y")
    for axis, name in zip(axes[:, 0], names, strict=True) if named else ():
        axis.annotate(
            name, (0, 0.5), (-34, 0), xycoords="axes fraction", textcoords="offset points",
            ha="right", va="center", fontsize=8, color=style.INK,
        )  # fmt: skip
    axes[-1][len(columns) // 2].set_xlabel(results.step_name)
    unit = ", %" if rate else ""
    figure.text(
        0.08 / figure.get_figwidth(), 0.5, shortened(f"{label(results.metric(metric))}{unit}", int(16 * height)),
        rotation=90, ha="center", va="center", color=style.QUIET,
    )  # fmt: skip
    return figure


def _draw_chance(axis: style.Axes, results: Results, drawn: ConditionCurves, metric: str) -> None:
    """Draw the chance level of a retrieval accuracy, that of the first run, as a dotted line."""
    chance = chance_of(metric)
    for run in drawn.runs[:1] if chance else ():
        axis.plot(*results.curve(run.id, str(chance)), ":", color=style.QUIET, linewidth=0.9, zorder=1)


def _named(axes: tuple[str, ...], name: str) -> str:
    """Return a row or column in print: numbers with the names of their axes."""
    parts = name.split(" · ") if len(axes) > 1 else [name]
    return " · ".join(map(value_label, axes, parts)) if len(parts) == len(axes) else label(name)


def finish_panel(axis: style.Axes, top: float | None = None) -> None:
    """Draw the grid of one panel, and percent ticks for a rate (`top` is the end of its axis)."""
    style.quiet_grid(axis)
    axis.xaxis.set_major_locator(style.whole_numbers())
    if not axis.lines:
        axis.text(0.5, 0.5, "no data", transform=axis.transAxes, ha="center", color=style.QUIET, style="italic")
    if top is not None:
        axis.set_ylim(0, top)
        ticks = [0, 0.5, 1] if top == 1 else [0, 0.25, 0.5, 0.75]
        axis.set_yticks([tick for tick in ticks if tick <= top])
        axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")


# Draw several metrics over training side by side, a line for each condition (Figures 5, 7, 10 and 14).

MOST_IN_A_PANEL = 4  # more bands than this hide each other
MetricPanels = dict[tuple[str, str, str], ConditionCurves]  # row, name of the metric, condition


def _beforehand(
    results: Results, *, metrics: Any, conditions: AxisNames = "filter", rows: AxisNames = None, **_: Any
) -> None:
    """Raise SpecError where the metrics are not a mapping of names, or two runs have one position."""
    if not isinstance(metrics, Mapping) or not metrics or not all(isinstance(key, str) for key in metrics.values()):
        raise SpecError("metrics: name each panel and its metric", fix="write metrics: {Success: success}")
    Facets(results, Layout.of(rows_or(rows, results.experiment, None), None, conditions))


@takes(before=_beforehand)
def build_panels(
    results: Results,
    *,
    metrics: Mapping[str, str],
    conditions: AxisNames = "filter",
    rows: AxisNames = None,
    baseline: Any = "none",
    title: str = "",
    name: str = "metric_panels",
) -> list[Figure]:
    """A panel for each metric in each row, with the mean of every condition, its 95 % band and its runs.

    metrics     printed name -> metric; `success` is the headline metric of each run's trainer
    conditions  the axis whose values are the lines; `baseline` is the grey one
    rows        axes of the panel rows (default: `variant` where the experiment has it, else one row)
    """
    facets = Facets(results, Layout.of(rows_or(rows, results.experiment, None), None, conditions))
    panels: MetricPanels = {
        (place.row, shown, place.condition): condition_curves(results, list(runs.values()), metric)
        for shown, metric in metrics.items()
        for place, runs in facets.places.items()
    }
    figure = Figure(
        name=name,
        title=title or results.heading,
        draw=partial(_draw_panels, panels, facets, results, metrics, spell(baseline)),
        caption=" ".join(
            [
                caption(metrics.values(), panels.values(), len(facets.conditions) <= MOST_IN_A_PANEL),
                *beside(results, results.runs, metrics.values()),
                *results.unlogged(metrics.values()),
            ]
        ),
    )
    for index, ((row, shown, condition), lines) in enumerate(panels.items()):
        figure.points += curves.points(
            lines, row=row, condition=condition, metric=results.metric(metrics[shown]), shown=shown
        )
        labels = facets.layout.labels(row, "", condition)
        figure.estimates += curves.estimates(lines, **labels, metric=results.metric(metrics[shown]))
        place = ", ".join(filter(None, [row, shown, label(condition)]))
        figure.titles[f"line-{index}"] = f"{place} · runs {' '.join(run.id for run in lines.runs)}"
    return [figure]


def _draw_panels(
    panels: MetricPanels, facets: Facets, results: Results, metrics: Mapping[str, str], baseline: str
) -> style.Canvas:
    rows, conditions, shown = facets.rows, facets.conditions, list(metrics)
    looks = style.looks(conditions, baseline)
    height = 1.0 + 1.45 * len(rows)
    figure = style.canvas(max(4.2, 0.5 + 2.25 * len(shown)), height)
    axes = figure.subplots(len(rows), len(shown), sharex=True, sharey="col", squeeze=False)
    figure.subplots_adjust(
        left=0.75 / figure.get_figwidth(), right=0.99, top=1 - 0.62 / height, bottom=0.42 / height,
        wspace=0.28, hspace=0.22,
    )  # fmt: skip
    entries = [(shortened(label(condition), LONGEST_NAME), looks[condition]) for condition in conditions]
    style.key_line(figure, entries, 1 - 0.14 / height)
    for index, ((row, metric, condition), lines) in enumerate(panels.items()):
        axis = axes[rows.index(row)][shown.index(metric)]
        curves.draw(axis, lines, looks[condition], f"line-{index}", None, band=len(conditions) <= MOST_IN_A_PANEL)
        _draw_chance(axis, results, lines, metrics[metric])
    for r, row in enumerate(rows):
        for c, metric in enumerate(shown):
            axis = axes[r][c]
            finish_panel(axis)
            if r == 0:
                axis.set_title(shortened(metric, LONGEST_NAME))
        if row:
            axes[r][0].set_ylabel(shortened(label(row), LONGEST_NAME), color=style.INK)
    axes[-1][len(shown) // 2].set_xlabel("training iteration")
    return figure
