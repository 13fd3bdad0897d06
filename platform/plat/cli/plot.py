"""Curves drawn on a terminal with letters, so that they can be told apart without colours, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Curve = Sequence[tuple[int, float]]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HEIGHT = 16


def plot(title: str, curves: Mapping[str, Curve], width: int) -> str:
    """Curves over iterations, one letter each; "" when none has a point. NaN and infinity are left out.

    width  columns that a line may take, at least 40 are used
    """
    import math

    import plotext

    finite = {name: [(step, value) for step, value in curve if math.isfinite(value)] for name, curve in curves.items()}
    if not any(finite.values()):
        return ""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plotsize(max(40, width), HEIGHT)
    plotext.title(title)
    plotext.xlabel("iteration")
    for letter, curve in zip(LETTERS, finite.values(), strict=False):
        if curve:
            plotext.plot([step for step, _ in curve], [value for _, value in curve], marker=letter)
    text = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in text.splitlines())
