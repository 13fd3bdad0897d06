"""Write the files of a report: tables as Markdown, CSV and LaTeX, figures as SVG, PDF and PNG, claims, and a page.

Several reports together have one more page, and one file of all their claims.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from plat.errors import HomeError
from plat_analysis.artifact import Figure
from plat_analysis.claims.engine import Verdict
from plat_analysis.figures import style
from plat_analysis.plugins.builders import Failure
from plat_analysis.report import render
from plat_analysis.report.markdown_page import markdown_page
from plat_analysis.report.page import page
from plat_analysis.report.recorded_report import ESTIMATES, estimates_table
from plat_analysis.report.report import Report
from plat_analysis.shown_text import shortened

# Draw the forest plot of a report: the numbers that its claims were judged by, with their intervals.

NAME = "forest"
MOST_CLAIMS, MOST_ROWS = 12, 12  # drawn; the table of verdicts has all
LONGEST_ROW, LONGEST_CLAIM = 30, 90  # characters
ROW, HEAD = 0.2, 0.42  # inches of height
COLOURS = {"shown": "#009E73", "shown_in_part": "#0072B2", "contradicted": "#D55E00", "not_of_this_size": "#D55E00"}


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


def report_files(report: Report) -> dict[str, bytes]:
    """Return every file of the report, by name; equal reports give equal bytes.

    A figure that cannot be drawn is left out and named in `report.failures`; its numbers are still written.
    """
    files: dict[str, bytes] = {}
    draw(report)
    for artifact in [*report.artifacts, report.runs_table]:
        if isinstance(artifact, Figure):
            files[f"{artifact.name}.csv"] = _encoded(render.tidy(artifact.points))
        else:
            files[f"{artifact.name}.md"] = _encoded(render.markdown(artifact))
            files[f"{artifact.name}.csv"] = _encoded(render.tidy(artifact.tidy))
            files[f"{artifact.name}.tex"] = _encoded(render.latex(artifact))
    files["claims.json"] = _encoded(_claims([report]))
    files[ESTIMATES] = _encoded(estimates_table(report))
    if (plot := forest(report.claims)) is not None:
        files[f"{plot.name}.svg"] = style.images(plot)["svg"]
    files["report.html"] = _encoded(page([report]))
    files["report.md"] = _encoded(markdown_page(report))
    for name, kinds in report.pictures.items():
        files |= {f"{name}.{kind}": content for kind, content in kinds.items()}
    return files


def joint_files(reports: Sequence[Report], failures: Sequence[Failure] = (), command: str = "") -> dict[str, bytes]:
    """Return `report.html` and `claims.json` of several reports; tables and figures are in `report_files` of each."""
    for report in reports:
        draw(report)
    return {"report.html": _encoded(page(reports, failures, command)), "claims.json": _encoded(_claims(reports))}


def draw(report: Report) -> None:
    """Draw the figures of a report, each once, into `report.pictures`; an error becomes a failure of the report."""
    for figure in report.artifacts:
        if not isinstance(figure, Figure) or figure.name in {*report.pictures, *report.draw_failures}:
            continue
        try:
            report.pictures[figure.name] = style.images(figure)
        except Exception as error:
            where = report.places.get(figure.name, str(report.experiment.path))
            report.draw_failures[figure.name] = Failure.of(f"the figure {figure.name!r}", error, where)


def _claims(reports: Sequence[Report]) -> str:
    """Return the verdicts as JSON; for several files, each with its file's name."""
    lines = [
        {**({"experiment": report.experiment.name} if len(reports) > 1 else {}), **verdict.as_dict()}
        for report in reports
        for verdict in report.claims
    ]
    return json.dumps({"claims": lines}, indent=2, ensure_ascii=False, sort_keys=True, default=str) + "\n"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def write_report(report: Report, folder: Path | str) -> dict[str, Path]:
    """Write every file of a report into `folder`, and return file name -> path. Raises HomeError (`write_files`)."""
    return write_files(report_files(report), folder)


def write_files(contents: Mapping[str, bytes], folder: Path | str) -> dict[str, Path]:
    """Write all files into a scratch folder, move each into `folder` atomically, and return file name -> path.

    Other files in `folder` stay. Raises HomeError if the folder cannot be written.
    """
    folder = Path(folder)
    scratch: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
        for name, content in contents.items():
            (scratch / name).write_bytes(content)
        for name in contents:
            os.replace(scratch / name, folder / name)
    except (FileExistsError, NotADirectoryError) as error:
        raise HomeError(
            "the report cannot be written there: it is not a folder",
            where=str(folder),
            fix="name a folder with --out DIR",
        ) from error
    except OSError as error:
        raise HomeError(
            f"cannot write the report: {error.strerror or error}",
            where=str(folder),
            fix="make the folder writable, free some space, or choose another with --out DIR",
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return {name: folder / name for name in contents}
