"""Draw an arrow from the base model to the end of training for each setting of a sweep (Figure 13).

The paper's arrows end at the peak of success (`to: peak`). A peak is the largest of several noisy evaluations, so such
an arrow points upwards even where nothing was learned; by default arrows end at the last measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from plat.errors import SpecError
from plat.suggest import suggest
from plat.words.metric_names import SUCCESS
from plat_analysis.artifact import Figure, number, provenance, record
from plat_analysis.builder_options import takes
from plat_analysis.contrasts.cell import Estimates
from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.figures import style
from plat_analysis.quantities.metric import quantity
from plat_analysis.shown_text import shortened
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds

Families = Mapping[str, Sequence[Any]]  # name -> conditions that share a colour


@dataclass(frozen=True)
class Arrow:
    """Hold the means of a setting at the start and at the end, along both axes of a panel."""

    x: tuple[Estimate, Estimate]
    y: tuple[Estimate, Estimate]

    @property
    def known(self) -> bool:
        """Return True if no mean is missing."""
        return all(estimate.value is not None for estimate in (*self.x, *self.y))


Key = tuple[str, str, str]  # row, axis of the panel, condition


def _beforehand(results: Results, *, conditions: str, families: Families, rows: AxisNames = None, **_: Any) -> None:
    """Raise SpecError where a family names a condition that the matrix does not have."""
    _family_of(Facets(results, Layout.of(rows, None, conditions)).conditions, families)


@takes(before=_beforehand)
def build(
    results: Results,
    *,
    conditions: str,
    families: Families,
    metrics: Mapping[str, str],
    rows: AxisNames = None,
    to: Literal["end", "peak"] = "end",
    builds: Builds = "fixed",
    name: str = "arrows",
) -> list[Figure]:
    """An arrow for each condition, from the base model to the end of training, means over seeds and builds.

    conditions  the axis whose values are the arrows
    families    name -> its conditions; each family has a colour
    metrics     printed name -> metric of the horizontal axis, a panel for each; validation success goes upwards
    rows        axes that make the rows of panels
    to          the last measurement (end), or those at the largest success of each run (peak)
    """
    facets = Facets(results, Layout.of(rows, None, conditions))
    family = _family_of(facets.conditions, families)
    estimates = Estimates(facets, builds=builds)

    def means(row: str, condition: str, metric: str) -> tuple[Estimate, Estimate]:
        ends = (quantity({"metric": metric, "at": at}) for at in ("start", to))
        start, end = (estimates.estimate(row, "", Contrast(Term(condition, of))) for of in ends)
        return start, end

    arrows = {
        (row, shown, condition): Arrow(means(row, condition, metric), means(row, condition, SUCCESS))
        for row in facets.rows
        for shown, metric in metrics.items()
        for condition in facets.conditions
    }
    end = "last measurement" if to == "end" else "peak of success"
    figure = Figure(
        name=name,
        title=results.heading,
        draw=partial(_draw, arrows, facets, list(metrics), family),
        caption=f"From the base model (square) to the {end} (dot): means over runs.",
    )
    for index, ((row, shown, condition), arrow) in enumerate(arrows.items()):
        for axis, pair in (("x", arrow.x), ("y", arrow.y)):
            for at, estimate in zip(("start", to), pair, strict=True):
                labels = {"row": row, "panel": shown, "condition": condition, "family": family[condition]}
                figure.points.append(record(estimate, **labels, axis=axis, at=at))
        moved = ", ".join(f"{number(a.value, 2)} → {number(b.value, 2)}" for a, b in (arrow.x, arrow.y))
        figure.titles[f"arrow-{index}"] = f"{row}, {condition}: {shown} and success {moved} · {provenance(arrow.y[1])}"
    return [figure]


def _family_of(conditions: Sequence[str], families: Families) -> dict[str, str]:
    """Return condition -> its family. SpecError where a condition has none, or a family names an unknown condition."""
    found = {spell(value): family for family, values in families.items() for value in values}
    for name in found:
        if name not in conditions:
            raise SpecError(f"families: there is no condition {name!r}", fix=suggest(name, conditions, "conditions"))
    for condition in conditions:
        if condition not in found:
            raise SpecError(f"families: {condition!r} is in none of them", fix="add it to one")
    return found


def _draw(arrows: Mapping[Key, Arrow], facets: Facets, shown: list[str], family: Mapping[str, str]) -> style.Canvas:
    rows, names = facets.rows, list(dict.fromkeys(family.values()))
    colours = dict(zip(names, (*style.PALETTE, *[style.QUIET] * len(names)), strict=False))
    ends = [[condition for condition in family if family[condition] == name] for name in names]
    named = {condition for own in ends for condition in (own[0], own[-1])}  # names of all would hide each other
    height = 0.7 + 2.5 * len(rows)
    figure = style.canvas(0.6 + 3.6 * len(shown), height)
    axes = figure.subplots(len(rows), len(shown), sharey="row", sharex="col", squeeze=False)
    figure.subplots_adjust(
        left=0.75 / figure.get_figwidth(), right=0.985, top=1 - 0.45 / height, bottom=0.45 / height, wspace=0.08
    )
    style.key_line(figure, [(name, colours[name]) for name in names], 1 - 0.14 / height)
    for index, ((row, panel, condition), arrow) in enumerate(arrows.items()):
        if not arrow.known:
            continue
        axis, colour = axes[rows.index(row)][shown.index(panel)], colours[family[condition]]
        start, end = ((x.value, y.value) for x, y in zip(arrow.x, arrow.y, strict=True))
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 0.9, "alpha": 0.8})
        axis.plot(*end, "o", color=colour, ms=3, gid=f"arrow-{index}")
        axis.plot(*start, "s", color=style.INK, ms=3, zorder=4)
        if condition not in named:
            continue
        axis.annotate(
            shortened(condition, 14), end, (3, 2), textcoords="offset points", fontsize=5.5, color=colour, alpha=0.9
        )
    for r, row in enumerate(rows):
        for c, panel in enumerate(shown):
            style.quiet_grid(axes[r][c], "both")
            if r == len(rows) - 1:
                axes[r][c].set_xlabel(panel)
        axes[r][0].set_ylabel(" · ".join(filter(None, [label(row), "success, %"])))
    return figure
