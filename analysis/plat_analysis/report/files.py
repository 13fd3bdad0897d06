"""The files of a report: tables as Markdown, CSV and LaTeX, figures as SVG, PDF and PNG, the claims, and one page.

Several reports together have one page more, and all their claims in one file.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from plat.errors import HomeError
from plat_analysis.artifact import Figure
from plat_analysis.plugins.failure import Failure
from plat_analysis.report import latex, render
from plat_analysis.report.page import page
from plat_analysis.report.report import Report


def report_files(report: Report) -> dict[str, bytes]:
    """Every file of the report, by name; equal reports give equal bytes.

    A figure that cannot be drawn is left out and named in `report.failures`; its numbers are still written.
    """
    files: dict[str, bytes] = {}
    pictures = drawn(report)
    for artifact in [*report.artifacts, report.runs_table]:
        if isinstance(artifact, Figure):
            files[f"{artifact.name}.csv"] = _encoded(render.tidy(artifact.points))
        else:
            files[f"{artifact.name}.md"] = _encoded(render.markdown(artifact))
            files[f"{artifact.name}.csv"] = _encoded(render.tidy(artifact.records))
            files[f"{artifact.name}.tex"] = _encoded(latex.latex(artifact))
    files["claims.json"] = _encoded(_claims([report]))
    files["report.html"] = _encoded(page([report], [svgs(pictures)]))
    for name, kinds in pictures.items():
        files |= {f"{name}.{kind}": content for kind, content in kinds.items()}
    return files


def joint_files(reports: Sequence[Report], failures: Sequence[Failure] = (), command: str = "") -> dict[str, bytes]:
    """The page of several reports and their claims; the tables and figures are among the files of each report."""
    pictures = [svgs(drawn(report)) for report in reports]
    whole = page(reports, pictures, failures, command)
    return {"report.html": _encoded(whole), "claims.json": _encoded(_claims(reports))}


def drawn(report: Report) -> dict[str, dict[str, bytes]]:
    """Figure -> its pictures by kind, of the figures that could be drawn; each is drawn once."""
    for artifact in report.artifacts:
        if isinstance(artifact, Figure) and artifact.name not in {*report.pictures, *report.draw_failures}:
            _draw(report, artifact)
    return report.pictures


def svgs(pictures: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """The SVG of each figure."""
    return {name: kinds["svg"] for name, kinds in pictures.items()}


def _claims(reports: Sequence[Report]) -> str:
    """The verdicts as JSON; of several files, each with the name of its own."""
    lines = [
        {**({"experiment": report.experiment.name} if len(reports) > 1 else {}), **verdict.as_dict()}
        for report in reports
        for verdict in report.claims
    ]
    return json.dumps({"claims": lines}, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def write_report(report: Report, folder: Path | str) -> dict[str, Path]:
    """Write every file of a report; see `write_files`."""
    return write_files(report_files(report), folder)


def write_files(contents: Mapping[str, bytes], folder: Path | str) -> dict[str, Path]:
    """File name -> path: all files are written beside, then moved into the folder one by one, each atomically.

    HomeError when the folder cannot be written.
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


def _draw(report: Report, figure: Figure) -> None:
    """Draw a figure; one that cannot be drawn becomes a failure of the report."""
    from plat_analysis.figures import style

    try:
        report.pictures[figure.name] = style.images(figure)
    except Exception as error:
        where = report.places.get(figure.name, str(report.experiment.path))
        report.draw_failures[figure.name] = Failure.of(f"the figure {figure.name!r}", error, where)
