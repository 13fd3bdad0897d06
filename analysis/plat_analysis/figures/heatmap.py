"""Draw a metric by condition and training step as numbers on a ground that is darker where they are larger.

The paper's numbers have a separate panel, because its steps differ from ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Contrast, Estimates, Term
from plat_analysis.contrasts.foretelling import check_steps
from plat_analysis.data.chance import beside
from plat_analysis.data.labels import label
from plat_analysis.data.published import printed_table
from plat_analysis.data.results import Results
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds

PUBLISHED = "published"
Cells = Mapping[tuple[str, int, str], float | None]  # panel, step, condition


def _beforehand(results: Results, *, conditions: str, steps: Sequence[int], rows: AxisNames = None, **_: Any) -> None:
    """Raise SpecError where a step is not an iteration, or two runs have one position."""
    check_steps("steps", steps)
    Facets(results, Layout.of(rows, None, conditions))


@takes(before=_beforehand)
def build(
    results: Results,
    *,
    conditions: str,
    steps: Sequence[int],
    metric: str = "success",
    rows: AxisNames = None,
    percent: bool = True,
    builds: Builds = "fixed",
    paper: str | None = None,
    paper_steps: Sequence[int] = (),
    name: str = "heatmap",
) -> list[Figure]:
    """The mean of a metric over seeds for each condition (along the figure) and step (downwards).

    conditions   the axis along a panel
    steps        training iterations; the value is that measured there, or the last before
    rows         axes that make the panels (default: one panel)
    percent      the metric is a share, shown in percent
    paper        key of the printed table (default: the one that `source` names, if any)
    paper_steps  the steps of the printed table; it is drawn in a separate panel
    """
    facets = Facets(results, Layout.of(rows, None, conditions))
    estimates = Estimates(facets, builds=builds)
    found: dict[tuple[str, int, str], Estimate] = {}
    for row in facets.rows:
        for step in steps:
            at = quantity({"metric": metric, "at": step, "percent": percent})
            for condition in facets.conditions:
                contrast = Contrast(Term(condition, at))
                found[row, step, condition] = estimates.estimate(row, "", contrast)
    cells: dict[tuple[str, int, str], float | None] = {key: estimate.value for key, estimate in found.items()}
    printed = printed_table(results.experiment, paper)
    published = {
        (PUBLISHED, at, name): printed.number(str(at), name) for at in paper_steps for name in facets.conditions
    }
    if any(value is not None for value in published.values()):
        cells |= published
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, cells, facets.conditions, " · ".join(facets.layout.conditions)),
        caption=" ".join(
            [
                f"Mean {label(metric)} over runs{', %' if percent else ''}; downwards: training iteration.",
                *beside(results, results.runs, [metric]),
            ]
        ),
    )
    for index, ((panel, step, condition), value) in enumerate(cells.items()):
        estimate = found.get((panel, step, condition), Estimate(value))
        figure.points.append(record(estimate, row=panel, step=step, condition=condition, metric=metric))
        place = ", ".join(filter(None, [panel, f"iteration {step}", condition]))
        figure.titles[f"cell-{index}"] = f"{place}: {number(value)} · {provenance(estimate)}".removesuffix(" · ")
    return [figure]


def _draw(cells: Cells, conditions: Sequence[str], axis_name: str) -> style.Canvas:
    from matplotlib.colors import Normalize

    panels = list(dict.fromkeys(panel for panel, _, _ in cells))
    most = max(len({step for panel, step, _ in cells if panel == name}) for name in panels)
    figure = style.canvas(0.6 + len(panels) * (0.5 + 0.5 * len(conditions)), 1.0 + 0.3 * most)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    figure.subplots_adjust(left=0.5 / figure.get_figwidth(), right=0.99, top=0.87, bottom=0.3, wspace=0.16)
    known = [value for value in cells.values() if value is not None]
    scale = Normalize(min(known, default=0.0), max(known, default=1.0))
    index = {key: i for i, key in enumerate(cells)}
    for axis, panel in zip(axes, panels, strict=True):
        steps = list(dict.fromkeys(step for name, step, _ in cells if name == panel))
        for y, step in enumerate(steps):
            for x, condition in enumerate(conditions):
                value = cells[panel, step, condition]
                depth = 0.0 if value is None else 0.75 * float(scale(value))
                ground = tuple(1 - depth * (1 - part) for part in (0.0, 0.35, 0.6))
                axis.fill_between(
                    [x - 0.48, x + 0.48], y - 0.48, y + 0.48, color=ground if value is not None else "#f4f4f4",
                    linewidth=0, gid=f"cell-{index[panel, step, condition]}",
                )  # fmt: skip
                ink = "white" if depth > 0.6 else style.INK
                axis.text(x, y, number(value), ha="center", va="center", fontsize=7, color=ink)
        axis.set_title(shortened(label(panel), 30))
        axis.set_xticks(range(len(conditions)), [shortened(c, 12) for c in conditions], rotation=45, ha="right")
        axis.set_yticks(range(len(steps)), [str(step) for step in steps])
        axis.set_xlim(-0.5, len(conditions) - 0.5)
        axis.set_ylim(len(steps) - 0.5, -0.5)
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
    axes[0].set_ylabel("training iteration")
    figure.text(0.5, 0.02, axis_name, ha="center", color=style.QUIET)
    return figure
