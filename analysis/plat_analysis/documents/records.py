"""Numbers of a table of a report by their labels: one of them, or by how many percent one differs from another.

Labels of its tidy line, as the table's CSV file has them, choose a number: `row=GRPO,column=sokoban,quantity=peak`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.artifact import Table, interval, number
from plat_analysis.data.runs import spell
from plat_analysis.documents.conditions import labels, options
from plat_analysis.report.report import Report
from plat_analysis.statistics.intervals import Estimate

RECORD = {"digits": "1", "signed": "no", "interval": "no", "of": "value"}


def record(report: Report, words: Sequence[str]) -> str:
    """`26.2`; `+9.7 [+7.6, +11.8]` with `signed=yes interval=yes`; another column of the line with `of=NAME`."""
    line = _line(report, words[:2])
    given = options(words[2:], RECORD)
    signed, digits = given["signed"] == "yes", int(given["digits"])
    value = line.get(given["of"])
    if not isinstance(value, int | float):
        raise SpecError(f"the line has no number {given['of']!r}", mend=mend(given["of"], line, "columns"))
    shown = number(float(value), digits, signed)
    if given["interval"] == "yes":
        shown += f" {interval(Estimate(value, line.get('low'), line.get('high')), digits, signed)}"
    return shown


def percent(report: Report, words: Sequence[str]) -> str:
    """By how many percent the second number is below (`−`) or above (`+`) the first: `−17.0 %`."""
    if len(words) != 3:
        raise SpecError("it names no two numbers", mend="write `EXPERIMENT percent TABLE LABELS LABELS`")
    before, after = (float(_line(report, [words[0], text])["value"]) for text in words[1:])
    return f"{number(100 * (after / before - 1), 1, signed=True)} %"


def _line(report: Report, words: Sequence[str]) -> dict[str, Any]:
    """The one tidy line of a table that has these labels."""
    if len(words) != 2:
        raise SpecError("it names no table and labels", mend="write TABLE and NAME=VALUE,NAME=VALUE")
    tables = {artifact.name: artifact for artifact in report.artifacts if isinstance(artifact, Table)}
    if words[0] not in tables:
        raise SpecError(f"the report has no table {words[0]!r}", mend=mend(words[0], tables, "tables"))
    wanted = labels(words[1])
    lines = [
        line
        for line in tables[words[0]].records
        if all(name in line and spell(line[name]) == value for name, value in wanted.items())
    ]
    if len(lines) != 1:
        raise SpecError(
            f"{len(lines)} numbers of {words[0]!r} have {words[1]}", mend="give the labels that choose one of them"
        )
    return lines[0]
