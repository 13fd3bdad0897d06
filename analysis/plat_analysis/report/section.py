"""One experiment file on the page: what the template needs to show of its report, and the anchors that link to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from plat_analysis.artifact import Cell, Figure, Row, Table
from plat_analysis.data.labels import is_stand_in, model_that_ran
from plat_analysis.data.published import contradictions
from plat_analysis.figures import style
from plat_analysis.report.provenance import provenance_facts
from plat_analysis.report.report import Report
from plat_analysis.report.verdicts import anchor, artifact_name
from plat_analysis.text import printable

Artifact = Table | Figure


@dataclass(frozen=True)
class Line:
    """A line of a table. `stub` are the cells that name its row, where the line opens one of `span` lines."""

    row: Row
    stub: tuple[Cell, ...] = ()
    span: int = 1


class Section:
    """A report with its pictures (figure name -> SVG)."""

    def __init__(self, report: Report, pictures: Mapping[str, bytes]) -> None:
        self.report, self._svgs = report, pictures
        self.experiment, self.runs = report.experiment, report.results.runs
        self.anchor = anchor(self.experiment)
        self.artifact = artifact_name(self.experiment)
        self.title = printable(self.experiment.title)

    @property
    def subtitle(self) -> str:
        parts = [self.experiment.paper, self.experiment.source, self.experiment.name]
        return printable(" · ".join(filter(None, parts)))

    def id_of(self, artifact: Artifact) -> str:
        """The anchor of a table or figure; no two of a page are equal."""
        return f"{self.anchor}--{artifact.name}"

    @cached_property
    def artifacts(self) -> list[Artifact]:
        """Tables, and figures that could be drawn; first the figures, then the tables with the paper's numbers."""
        shown = [a for a in self.report.artifacts if isinstance(a, Table) or a.name in self._svgs]
        return sorted(shown, key=lambda artifact: 2 - 2 * _published(artifact) + isinstance(artifact, Table))

    def picture(self, figure: Figure) -> str:
        return style.inline(figure, self._svgs[figure.name], self.id_of(figure))

    @property
    def done(self) -> int:
        return sum(not run.missing for run in self.runs)

    @property
    def seeds(self) -> int:
        return len({str(run.seed) for run in self.runs})

    @property
    def missing(self) -> list[tuple[int, str]]:
        """How many runs have no result, and why: (number, reason)."""
        counts = Counter(run.missing for run in self.runs if run.missing)
        return [(count, reason) for reason, count in sorted(counts.items())]

    @property
    def stand_in(self) -> str:
        ran = [run for run in self.runs if not run.missing]
        return model_that_ran(ran) if any(is_stand_in(run) for run in ran) else ""

    @property
    def contradictions(self) -> list[str]:
        return list(dict.fromkeys(map(printable, contradictions(self.experiment))))

    @property
    def provenance(self) -> list[tuple[str, str]]:
        return provenance_facts(self.report.provenance, self.experiment, self.runs)

    @property
    def runs_table(self) -> Table:
        return self.report.runs_table


def lines(table: Table) -> Iterator[Line]:
    """The lines of a table. Those whose first cell is empty belong to the row above, and have no stub.

    So do those whose first cell is pale, where a second column names the lines.
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


def stubs(table: Table) -> int:
    """How many columns name the rows: those before the first number."""
    numeric = [column.numeric for column in table.columns]
    return numeric.index(True) if True in numeric else 1


def _continues(row: Row, named: int) -> bool:
    first = row.cells[0] if row.cells else Cell()
    return not row.rule and not row.section and (not first.text or (first.tone == "dim" and named > 1))


def _published(artifact: Artifact) -> bool:
    """Whether the paper's numbers stand beside ours."""
    shown: list[dict[str, Any]] = artifact.records if isinstance(artifact, Table) else artifact.points
    return any(line.get("paper") is not None for line in shown)
