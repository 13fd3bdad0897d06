"""Draw curves on a terminal with letters, so that they are distinct without colours, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Curve = Sequence[tuple[int, float]]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HEIGHT = 16


def plot(title: str, curves: Mapping[str, Curve], width: int) -> str:
    """Return a plot of the finite values of the curves over iterations; "" if there are none.

    Each curve has a letter of LETTERS, in order; those after the last letter are not drawn.

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
    points = [point for curve in finite.values() for point in curve]
    plotext.xticks(_ticks(min(points)[0], max(points)[0]))
    lowest, highest = min(value for _, value in points), max(value for _, value in points)
    if lowest == highest:  # a flat line: start or end its axis at 0, so that a share has no negative ticks
        plotext.ylim(min(0.0, lowest), max(0.0, highest) if highest else 1.0)
    text = plotext.uncolorize(plotext.build())
    return "\n".join(line.rstrip() for line in text.splitlines())


def _ticks(first: int, last: int) -> list[int]:
    """Return about six round iterations between two iterations."""
    sizes = (base * 10**power for power in range(10) for base in (1, 2, 5))
    step = next(size for size in sizes if 6 * size > last - first)
    return list(range(-(-first // step) * step, last + 1, step))
