"""Assemble a logbook: the reports of experiment files as one static folder for readers who have no store.

    index.html  README.md      verdicts, commands, tables and figures of all files
    claims.json                what `plat claims --json` prints
    NAME/                      the tables and figures of NAME.yaml as Markdown, CSV, LaTeX, SVG, PNG and PDF

Links are relative, and equal reports give equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plat_analysis.claims.reference import paper_claims
from plat_analysis.report.markdown_page import markdown_page
from plat_analysis.report.page import heading, page
from plat_analysis.report.render import inert
from plat_analysis.report.report import RECORDED, Provenance, Published, Report
from plat_analysis.report.report_files import report_files
from plat_analysis.report.verdicts import Judged, VerdictLine, as_json, over_all, verdict_lines

PAGES = ("report.html", "report.md", "claims.json")  # of one report; a logbook has its own
CLAIMS = "claims.json"


def logbook_files(
    reports: Mapping[str, Report],
    names: Mapping[str, str],
    commands: Mapping[str, Sequence[str]],
    clean: Callable[[Mapping[str, bytes]], Mapping[str, bytes]],
    changed: Collection[str] = (),
) -> dict[str, bytes]:
    """Return relative path -> content of the files of a logbook, without experiment files.

    Args:
        reports: folder of its files -> report. A figure that cannot be drawn is named in `Report.failures`.
        names: the same folder -> the experiment file, relative to the pages.
        commands: the same folder -> what makes the runs, the report and the verdicts again.
        clean: returns the files of a report as they are published, perhaps fewer.
        changed: experiment files that are not published as they are.
    """
    files: dict[str, bytes] = {}
    for folder, report in reports.items():
        own = clean({f"{folder}/{name}": data for name, data in report_files(report).items() if name not in PAGES})
        is_recorded = any(run.run.trainer == RECORDED for run in report.results.runs)
        is_clean = names[folder] not in changed
        published = Published(folder, names[folder], tuple(commands[folder]), tuple(own), is_clean, is_recorded)
        report.provenance = replace(report.provenance or Provenance(), published=published)
        files |= own
    shown = list(reports.values())
    lines = verdict_lines([Judged(report.experiment, report.claims, report.reference) for report in shown])
    files["index.html"] = page(shown).encode("utf-8", "backslashreplace")
    files["README.md"] = _readme(shown, lines).encode("utf-8", "backslashreplace")
    return files


def claims_data(reports: Sequence[Report], notes: Sequence[str]) -> dict[str, Any]:
    """Return what `plat claims --json` prints of these reports (`ClaimsData` in `plat.cli.schemas.results`)."""
    lines = verdict_lines([Judged(report.experiment, report.claims, report.reference) for report in reports])
    claimed = paper_claims([report.experiment for report in reports])
    return {"claims": as_json(lines, claimed), "notes": list(notes), "failed": []}


def claims_json(data: Mapping[str, Any]) -> str:
    """Return it as the command line prints JSON: with null for what is no finite number."""
    text = json.dumps(data, default=str)
    return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=2) + "\n"


def _readme(reports: Sequence[Report], lines: Sequence[VerdictLine]) -> str:
    title, runs = heading(reports)
    parts = [f"# {inert(title)}", inert(runs), *_verdicts(lines)]
    pages = [markdown_page(report) for report in reports]
    if len(pages) == 1:
        pages = [pages[0].split("\n\n", 1)[1]]  # its title stands above
    return "\n\n".join([*parts, *(page.rstrip() for page in pages)]) + "\n"


def _verdicts(lines: Sequence[VerdictLine]) -> Iterator[str]:
    """Yield the verdicts in short: word, claim, reason, kind of runs, error; then the error over all claims."""
    if not lines:
        yield "These files claim nothing."
        return
    yield "## Verdicts in short"
    for line in lines:
        verdict = line.verdict
        why = "; ".join(filter(None, [verdict.reason, line.over_all]))
        needed = f" To decide it: {verdict.needed}." if verdict.needed else ""
        reference = f" Earlier runs of this project: {line.reference}." if line.reference else ""
        text = f"{line.sentence.rstrip('.')}. {why}.{needed}{reference}"
        yield f"- **{verdict.word}** ({inert(line.artifact)}, `{verdict.id}`): {inert(text)} *{inert(line.how)}.*"
    yield f"[{CLAIMS}]({CLAIMS}) has every row with its interval, its p-values and its runs."
    if sentence := over_all(lines):
        yield inert(sentence)
