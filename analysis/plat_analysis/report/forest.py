"""Draw the forest plot of a report: the numbers that its claims were judged by, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from plat_analysis.artifact import Figure
from plat_analysis.claims.engine import Verdict
from plat_analysis.figures import style
from plat_analysis.shown_text import shortened

NAME = "forest"
MOST_CLAIMS, MOST_ROWS = 12, 12  # drawn; the table of verdicts has all
LONGEST_ROW, LONGEST_CLAIM = 30, 90  # characters
ROW, HEAD = 0.2, 0.42  # inches of height
COLOURS = {"reproduced": "#009E73", "partial": "#0072B2", "not_reproduced": "#D55E00"}


def forest(claims: Sequence[Verdict]) -> Figure | None:
    """Return a figure with a panel for each claim that has intervals, in the claims' order; None if none has.

    Each panel has a separate axis, because claims have different units, and a line at zero.
    """
    shown = [verdict for verdict in claims if verdict.bounds and isinstance(verdict.value, Mapping)][:MOST_CLAIMS]
    if not shown:
        return None
    return Figure(NAME, "What the claims were judged by", partial(_draw, shown))


def _draw(claims: Sequence[Verdict]) -> style.Canvas:
    rows = [list(verdict.bounds)[:MOST_ROWS] for verdict in claims]
    heights = [HEAD + ROW * len(names) for names in rows]
    figure = style.canvas(6.4, sum(heights) + 0.25)
    top = figure.get_figheight()
    for verdict, names, height in zip(claims, rows, heights, strict=True):
        place = (0.3, (top - height + 0.12) / figure.get_figheight(), 0.68, (height - HEAD) / figure.get_figheight())
        _panel(figure.add_axes(place), verdict, names)
        words = shortened(f"{verdict.word}: {verdict.says or verdict.id}", LONGEST_CLAIM)
        at = (top - 0.16) / figure.get_figheight()
        colour = COLOURS.get(verdict.status, style.QUIET)
        figure.text(style.LEFT, at, words, fontsize=8, fontweight="bold", color=colour, va="center")
        top -= height
    return figure


def _panel(axis: style.Axes, verdict: Verdict, names: Sequence[str]) -> None:
    values = verdict.value if isinstance(verdict.value, Mapping) else {}
    colour = COLOURS.get(verdict.status, style.QUIET)
    axis.axvline(0, color=style.QUIET, linewidth=0.8, zorder=1)
    for y, name in enumerate(names):
        axis.plot(verdict.bounds[name], [y, y], color=colour, linewidth=1.6, zorder=2)
        if name in values:
            axis.plot([values[name]], [y], "o", color=colour, ms=4.5, mec="white", mew=0.6, zorder=3)
    axis.set_yticks(range(len(names)), [shortened(name, LONGEST_ROW) for name in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=6, pad=1)
    axis.spines["left"].set_visible(False)
    style.quiet_grid(axis, "x")
