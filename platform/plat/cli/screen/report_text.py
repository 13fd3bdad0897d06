"""The text of a report on the terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plat.cli.common import on_terminal, shown

if TYPE_CHECKING:
    from plat.app.report_making import MadeReport


def printed(made: MadeReport, quiet: bool = False) -> str:
    """Return the report as the terminal shows it, and the paths of its files; verdicts and problems only if `quiet`."""
    if quiet:
        return rendered(made.built, quiet)
    if made.folder is None:
        where = [f"nothing was written: {made.kept}"]
    else:
        names = {path.name for path in made.files}
        beside = ", beside it explore.html" if "explore.html" in names else ""
        where = [f"report: {shown(path)}{beside}" for path in made.files if path.name == "report.html"]
        where.append(f"tables and figures: {shown(made.folder)}/")
    return rendered(made.built) + "\n".join(where) + "\n"


def rendered(built: Any, quiet: bool = False) -> str:
    """Return a report (`Report` of plat_analysis) as the terminal shows it, without the paths of its files."""
    import io

    from rich.console import Console

    from plat_analysis.report.terminal import print_report

    text = io.StringIO()
    console = Console(file=text, force_terminal=on_terminal(), width=width(), highlight=False)
    print_report(built, console, quiet)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def width() -> int:
    """Return the number of columns of the terminal; for a pipe COLUMNS or 160."""
    if on_terminal():
        return shutil.get_terminal_size((160, 40)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else 160


def layout(quiet: bool) -> str:
    """Return the width of the output, whether it is coloured, and whether it is `quiet`: "100 plain False".

    A report shown before can be shown again without rendering if the layout is the same.
    """
    return f"{width()} {'colour' if on_terminal() and 'NO_COLOR' not in os.environ else 'plain'} {quiet}"


# Draw curves on a terminal with letters, so that they are distinct without colours, too.

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
