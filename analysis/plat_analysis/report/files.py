"""The files of a report: tables as Markdown, CSV and LaTeX, figures as SVG and PNG, the claims, and one page of all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from plat.errors import HomeError
from plat_analysis.artifact import Figure
from plat_analysis.plugins.failure import Failure
from plat_analysis.report import render
from plat_analysis.report.page import page
from plat_analysis.report.report import Report
from plat_analysis.tables.runs_table import runs_table


def report_files(report: Report) -> dict[str, bytes]:
    """Every file of the report, by name; equal reports give equal bytes.

    A figure that cannot be drawn is left out and named in `report.failures`; its numbers are still written.
    """
    texts: dict[str, str] = {}
    pictures: dict[str, tuple[bytes, bytes]] = {}
    for artifact in [*report.artifacts, runs_table(report.results)]:
        if isinstance(artifact, Figure):
            texts[f"{artifact.name}.csv"] = render.tidy(artifact.points)
            if (drawn := _draw(report, artifact)) is not None:
                pictures[artifact.name] = drawn
        else:
            texts[f"{artifact.name}.md"] = render.markdown(artifact)
            texts[f"{artifact.name}.csv"] = render.tidy(artifact.records)
            texts[f"{artifact.name}.tex"] = render.latex(artifact)
    claims = {"claims": [verdict.as_dict() for verdict in report.claims]}
    texts["claims.json"] = json.dumps(claims, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    texts["report.html"] = page(report, {name: svg for name, (svg, _) in pictures.items()})
    files = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    for name, (svg, png) in pictures.items():
        files |= {f"{name}.svg": svg, f"{name}.png": png}
    return files


def write_report(report: Report, folder: Path | str) -> dict[str, Path]:
    """File name -> path: all files are made first, then moved into the folder one by one, each atomically.

    HomeError when the folder cannot be written.
    """
    folder = Path(folder)
    contents = report_files(report)
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
            "the report cannot be written there: it is no folder",
            where=str(folder),
            mend="name a folder with --out DIR",
        ) from error
    except OSError as error:
        raise HomeError(
            f"cannot write the report: {error.strerror or error}",
            where=str(folder),
            mend="make the folder writable, free some space, or choose another with --out DIR",
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return {name: folder / name for name in contents}


def _draw(report: Report, figure: Figure) -> tuple[bytes, bytes] | None:
    """The figure as SVG and PNG; None, and a failure in the report, when it cannot be drawn."""
    from plat_analysis.figures import style

    report.draw_failures.pop(figure.name, None)
    try:
        return style.images(figure)
    except Exception as error:
        where = report.places.get(figure.name, str(report.experiment.path))
        report.draw_failures[figure.name] = Failure.of(f"the figure {figure.name!r}", error, where)
        return None
