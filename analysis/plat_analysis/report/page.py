"""One or several reports as one self-contained HTML page: no script, no network, no other file. Equal reports, equal
bytes.

The page begins with the verdicts. The page is a Jinja2 template (`report.html.j2`) with autoescape on: whatever a
title, a label or a note holds is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from plat.units import counted
from plat_analysis.artifact import Table
from plat_analysis.plugins.failure import Failure
from plat_analysis.report.render import groups
from plat_analysis.report.report import Report
from plat_analysis.report.section import Section, lines, stubs
from plat_analysis.report.verdicts import WORDS, Judged, over_all, tally, verdict_lines
from plat_analysis.text import printable

FOLDER = resources.files("plat_analysis.report")


def page(
    reports: Sequence[Report],
    pictures: Sequence[Mapping[str, bytes]],
    failures: Sequence[Failure] = (),
    command: str = "",
) -> str:
    """The page.

    reports   in the order in which they stand; one with the main claim of its paper comes first
    pictures  of each report, the SVGs by name of the figures that could be drawn
    failures  what could not be made of the whole: files with a mistake
    command   what makes a page of several files
    """
    from jinja2 import Environment, StrictUndefined

    sections = [Section(report, svgs) for report, svgs in zip(reports, pictures, strict=True)]
    verdicts = verdict_lines([Judged(r.experiment, r.claims, r.reference) for r in reports])
    if verdicts and verdicts[0].is_main:
        sections.sort(key=lambda section: section.experiment is not verdicts[0].experiment)
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string((FOLDER / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(
        css=(FOLDER / "report.css").read_text(encoding="utf-8"),
        title=_title(sections),
        alone=len(sections) == 1 and not failures,
        sections=sections,
        verdicts=verdicts,
        tally=tally(verdicts),
        signs=WORDS,
        runs=_runs(sections),
        over_all=over_all(verdicts),
        failures=failures,
        command=command,
        groups=groups,
        lines=lines,
        stubs=stubs,
        group_starts=_group_starts,
    )


def _title(sections: Sequence[Section]) -> str:
    """The file's title, or of several files the title of their paper."""
    if len(sections) == 1:
        return sections[0].title
    papers = {str((section.experiment.paper_data or {}).get("title", "")) for section in sections}
    papers.discard("")
    return printable(papers.pop()) if len(papers) == 1 else f"Report of {counted(len(sections), 'experiment file')}"


def _runs(sections: Sequence[Section]) -> str:
    """`700 of 720 runs have a result`; a run of several files counts once."""
    runs = {run.id: run.missing for section in sections for run in section.runs}
    done = sum(not missing for missing in runs.values())
    seeds = max((section.seeds for section in sections), default=0)
    scales = " and ".join(dict.fromkeys(section.experiment.scale for section in sections))
    return f"{done} of {counted(len(runs), 'run')} with a result, {counted(seeds, 'seed')}, scale {scales}"


def _group_starts(table: Table) -> set[int]:
    """Indices of the columns that open a group; none where the table has no groups."""
    if not any(column.group for column in table.columns):
        return set()
    starts, position = set(), 0
    for _, span in groups(table):
        starts.add(position)
        position += span
    return starts
