"""The text of a report on the terminal."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from plat.cli.common import on_terminal, settings, shown

if TYPE_CHECKING:
    from plat.app.report_making import MadeReport
    from plat_analysis.report.terminal import Detail


def detail(quiet: bool) -> Detail:
    """Return how much of a report is printed: the verdicts with `--quiet`, everything with `--verbose`."""
    return "verdicts" if quiet else "all" if settings.verbose else "main"


def printed(made: MadeReport, level: Detail = "main") -> str:
    """Return the report as the terminal shows it, and except for `verdicts` the paths of its files."""
    if level == "verdicts":
        return rendered(made.built, level)
    if made.folder is None:
        where = [f"nothing was written: {made.kept}"]
    else:
        where = [f"report: {shown(path)}" for path in made.files if path.suffix == ".html"]
        where.append(f"tables and figures: {shown(made.folder)}/")
    return rendered(made.built, level) + "\n".join(where) + "\n"


def rendered(built: Any, level: Detail = "main") -> str:
    """Return a report (`Report` of plat_analysis) as the terminal shows it, without the paths of its files."""
    import io

    from rich.console import Console

    from plat_analysis.report.terminal import print_report

    text = io.StringIO()
    console = Console(file=text, force_terminal=on_terminal(), width=width(), highlight=False)
    print_report(built, console, level)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def width() -> int:
    """Return the number of columns of the terminal; for a pipe COLUMNS or 160."""
    if on_terminal():
        return shutil.get_terminal_size((160, 40)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else 160


def layout(level: Detail) -> str:
    """Return the width of the output, whether it is coloured, and how much is printed: "100 plain main".

    A report shown before can be shown again without rendering if the layout is the same.
    """
    return f"{width()} {'colour' if on_terminal() and 'NO_COLOR' not in os.environ else 'plain'} {level}"
