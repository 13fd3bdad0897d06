"""The text of a report on the terminal."""

from __future__ import annotations

import os
import shutil
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
        where = [f"report: {shown(path)}" for path in made.files if path.suffix == ".html"]
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
