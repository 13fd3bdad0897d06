"""Make the page of each experiment from the bundles in results/, as `plat report` would: its Markdown and pictures.

`REPORTS=NAME,NAME` chooses experiment files, `REPORTS=all` all whose results are there, which takes three minutes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from plat_analysis.artifact import Figure
from plat_analysis.figures import style
from plat_analysis.report.markdown_page import markdown_page
from plat_analysis.report.render import inert
from plat_analysis.report.report import Report
from tools.documents.bundles import Bundles
from tools.documents.pages import NUMBERS

INDEX = """# Reports

One page for each experiment, made from the runs in `results/`: its question and prediction, its tables and figures, the
verdicts, and the conclusion. [How to read them](../operating.md#how-to-read-a-report).

| experiment | artifact | question | verdicts |
|---|---|---|---|
"""


def chosen(bundles: Bundles) -> list[str]:
    """Return the names of the experiment files that get a page."""
    pages = json.loads(
        (bundles.root / NUMBERS).read_text(encoding="utf-8")
    )  # some files have their runs in many bundles
    known, asked = sorted({*bundles.folders(), *pages}), os.environ.get("REPORTS", "")
    return known if asked == "all" else [name for name in known if name in asked.split(",")]


def report_pages(root: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (name on the site, path in the repository or "", content) of the index and of each page and picture."""
    bundles = Bundles(root)
    reports = [bundles.report(name) for name in chosen(bundles)]
    yield "reports/index.md", "", (INDEX + "\n".join(map(_line, reports)) + "\n").encode()
    for report in reports:
        for artifact in report.artifacts:
            if isinstance(artifact, Figure):
                report.pictures[artifact.name] = style.images(artifact, ["svg"])
        folder = f"reports/{report.experiment.name}"
        yield f"{folder}/report.md", report.experiment.path.as_posix(), markdown_page(report).encode()
        yield from ((f"{folder}/{name}.svg", "", kinds["svg"]) for name, kinds in report.pictures.items())


def _line(report: Report) -> str:
    experiment = report.experiment
    words = dict.fromkeys(verdict.word for verdict in report.claims)
    link = f"[{experiment.name}]({experiment.name}/report.md)"
    cells = (link, experiment.source or "", inert(experiment.question or experiment.title), ", ".join(words))
    return f"| {' | '.join(cells)} |"
