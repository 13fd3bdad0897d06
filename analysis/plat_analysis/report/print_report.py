"""A report on the terminal: its tables, the verdicts, and what could not be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat_analysis.artifact import Table
from plat_analysis.report.report import Report
from plat_analysis.report.terminal import print_table
from plat_analysis.tables.runs_table import short_runs_table

if TYPE_CHECKING:
    from rich.console import Console

CLAIM_STYLES = {
    "reproduced": "green",
    "partial": "yellow",
    "not_reproduced": "red",
    "undecided": "bright_black",
    "not_enough_data": "bright_black",
}


def print_report(report: Report, console: Console) -> None:
    """Tables, verdicts and failures, in the order of the experiment file; the runs where it asks for no report."""
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    if not report.experiment.report:
        print_table(console, short_runs_table(report.results))
        console.print()
    for artifact in report.artifacts:
        if isinstance(artifact, Table) and artifact.printed:
            print_table(console, artifact)
            console.print()
    for warning in report.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
    for verdict in report.claims:
        rows = Grid.grid(Column(justify="right", width=15), Column(), padding=(0, 2, 0, 0))
        status = Text(verdict.status.replace("_", " "), CLAIM_STYLES[verdict.status])
        rows.add_row(status, Text(f"{verdict.id}: {verdict.says}"))
        for line in verdict.lines:
            rows.add_row("", Text(line, "bright_black"))
        if reference := report.reference.get(verdict.id):
            rows.add_row("reference", Text(str(reference)))
        console.print(rows)
    for failure in report.failures:
        console.print(failure.render(), style="red", markup=False, highlight=False)
