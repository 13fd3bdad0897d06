"""Render reports as one self-contained HTML page without scripts or network. Equal reports give equal bytes.

The Jinja2 template `report.html.j2` has autoescape on, so titles, labels and notes are always text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from plat.units import counted
from plat_analysis.artifact import Cell, Figure, Row, Table
from plat_analysis.data.labels import is_stand_in, model_that_ran
from plat_analysis.data.published import contradictions
from plat_analysis.figures import style
from plat_analysis.plugins.builders import Failure
from plat_analysis.report.render import groups, stubs
from plat_analysis.report.report import Published, Report, provenance_facts
from plat_analysis.report.verdicts import WORDS, Judged, anchor, artifact_name, over_all, tally, verdict_lines
from plat_analysis.shown_text import printable

FOLDER = resources.files("plat_analysis.report")
Artifact = Table | Figure


@dataclass(frozen=True)
class Line:
    """Hold a line of a table. `stub`: the cells that name its row, where the line opens a block of `span` lines."""

    row: Row
    stub: tuple[Cell, ...] = ()
    span: int = 1


class Section:
    """Hold a report whose figures were drawn."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.experiment, self.runs = report.experiment, report.results.runs
        self.anchor = anchor(self.experiment)
        self.artifact = artifact_name(self.experiment)
        self.title = printable(self.experiment.title)
        self.conclusion = printable(self.experiment.conclusion)

    @property
    def before(self) -> list[tuple[str, str]]:
        """Return (heading, text) of what the file says before its results: question, prediction, kind of evidence."""
        words = {"Question": self.experiment.question, "Prediction": self.experiment.prediction}
        words["Evidence"] = self.experiment.evidence_in_words
        return [(name, printable(text)) for name, text in words.items() if text]

    @property
    def subtitle(self) -> str:
        parts = [self.experiment.paper, self.experiment.source, self.experiment.name]
        return printable(" · ".join(filter(None, parts)))

    def id_of(self, artifact: Artifact) -> str:
        """Return the anchor of a table or figure, unique on the page."""
        return f"{self.anchor}--{artifact.name}"

    @cached_property
    def artifacts(self) -> list[Artifact]:
        """Return tables, and figures that could be drawn; first those with the paper's numbers, figures first."""
        shown = [a for a in self.report.artifacts if isinstance(a, Table) or a.name in self.report.pictures]
        return sorted(shown, key=lambda artifact: 2 - 2 * _published(artifact) + isinstance(artifact, Table))

    def picture(self, figure: Figure) -> str:
        """Return the SVG of a figure as an element of an HTML page. Raises KeyError if it was not drawn."""
        return style.inline(figure, self.report.pictures[figure.name]["svg"], self.id_of(figure))

    @property
    def done(self) -> int:
        """Return the number of runs that have a result."""
        return sum(not run.missing for run in self.runs)

    @property
    def seeds(self) -> int:
        """Return the number of different seeds of all runs, missing ones included."""
        return len({str(run.seed) for run in self.runs})

    @property
    def missing(self) -> list[tuple[int, str]]:
        """Return (number, reason) of the runs that have no result."""
        counts = Counter(run.missing for run in self.runs if run.missing)
        return [(count, reason) for reason, count in sorted(counts.items())]

    @property
    def stand_in(self) -> str:
        """Return which model ran, if a run with a result used a stand-in for the paper's model; "" if none did."""
        ran = [run for run in self.runs if not run.missing]
        return model_that_ran(ran) if any(is_stand_in(run) for run in ran) else ""

    @property
    def contradictions(self) -> list[str]:
        return list(dict.fromkeys(map(printable, contradictions(self.experiment))))

    @property
    def provenance(self) -> list[tuple[str, str]]:
        return provenance_facts(self.report.provenance, self.experiment, self.runs)

    @property
    def published(self) -> Published | None:
        return self.report.provenance.published if self.report.provenance else None

    @property
    def runs_table(self) -> Table:
        return self.report.runs_table


def lines(table: Table) -> Iterator[Line]:
    """Yield the lines of a table. A line whose first cell is empty belongs to the row above and has no stub.

    So does a line whose first cell has the tone `dim`, if a second column names the lines too. A line with a rule or a
    section always opens a row.
    """
    rows, named = table.rows, stubs(table)
    index = 0
    while index < len(rows):
        end = index + 1
        while end < len(rows) and _continues(rows[end], named):
            end += 1
        group = rows[index:end]
        stub = tuple(row.cells[0] for row in group if row.cells and row.cells[0].text)
        yield Line(group[0], stub or group[0].cells[:1], len(group))
        yield from map(Line, group[1:])
        index = end


def _continues(row: Row, named: int) -> bool:
    first = row.cells[0] if row.cells else Cell()
    return not row.rule and not row.section and (not first.text or (first.tone == "dim" and named > 1))


def _published(artifact: Artifact) -> bool:
    """Return True if the artifact has the paper's numbers."""
    shown: list[dict[str, Any]] = artifact.records if isinstance(artifact, Table) else artifact.points
    return any(line.get("paper") is not None for line in shown)


def page(reports: Sequence[Report], failures: Sequence[Failure] = (), command: str = "") -> str:
    """Return the page as HTML.

    reports   in the order of the page; the one with the main claim of its paper moves to the front. Figures must have
              been drawn (`report_files.draw`); others are left out
    failures  experiment files that could not be read
    command   the command that makes a page of several files
    """
    from jinja2 import Environment, StrictUndefined

    sections = [Section(report) for report in reports]
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
        published=any(section.published for section in sections),
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


def heading(reports: Sequence[Report]) -> tuple[str, str]:
    """Return the title of the page of these reports, and a sentence that counts their runs."""
    sections = [Section(report) for report in reports]
    return _title(sections), _runs(sections)


def _title(sections: Sequence[Section]) -> str:
    """Return the file's title, or for several files the title of their paper."""
    if len(sections) == 1:
        return sections[0].title
    papers = {str((section.experiment.paper_data or {}).get("title", "")) for section in sections}
    papers.discard("")
    return printable(papers.pop()) if len(papers) == 1 else f"Report of {counted(len(sections), 'experiment file')}"


def _runs(sections: Sequence[Section]) -> str:
    """Return `700 of 720 runs with a result, ...`; a run of several files counts once."""
    runs = {run.id: run.missing for section in sections for run in section.runs}
    done = sum(not missing for missing in runs.values())
    seeds = max((section.seeds for section in sections), default=0)
    scales = " and ".join(dict.fromkeys(section.experiment.scale for section in sections if section.experiment.scale))
    facts = [f"{done} of {counted(len(runs), 'run')} with a result", counted(seeds, "seed")]
    return ", ".join([*facts, *([f"scale {scales}"] if scales else [])])


def _group_starts(table: Table) -> set[int]:
    """Return the indices of the columns that open a group; none where the table has no groups."""
    if not any(column.group for column in table.columns):
        return set()
    starts, position = set(), 0
    for _, span in groups(table):
        starts.add(position)
        position += span
    return starts
