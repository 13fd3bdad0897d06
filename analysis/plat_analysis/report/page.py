"""The report as one self-contained HTML page: no script, no network, no other file. Equal reports, equal bytes.

The page is a Jinja2 template (`report.html.j2`) with autoescape on: whatever a title, a label or a note holds is text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import resources

from plat_analysis.artifact import Figure, Table
from plat_analysis.data.labels import is_stand_in, model_that_ran
from plat_analysis.data.published import discrepancies
from plat_analysis.figures import style
from plat_analysis.report.provenance import provenance_facts
from plat_analysis.report.render import groups
from plat_analysis.report.report import Report
from plat_analysis.tables.runs_table import runs_table
from plat_analysis.text import printable

FOLDER = resources.files("plat_analysis.report")


def page(report: Report, pictures: Mapping[str, bytes]) -> str:
    """The page; `pictures` are the figures' SVGs by name, of those that could be drawn."""
    from jinja2 import Environment, StrictUndefined

    experiment, runs = report.experiment, report.results.runs
    figures = {artifact.name: artifact for artifact in report.artifacts if isinstance(artifact, Figure)}
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string((FOLDER / "report.html.j2").read_text(encoding="utf-8"))
    absent = Counter(run.missing for run in runs if run.missing)
    return template.render(
        css=(FOLDER / "report.css").read_text(encoding="utf-8"),
        title=printable(experiment.title),
        source=printable(" · ".join(filter(None, [experiment.paper, experiment.source, experiment.name]))),
        counts=_counts(report),
        missing=", ".join(f"{count} {reason}" for reason, count in sorted(absent.items())),
        stand_in=model_that_ran(runs) if any(is_stand_in(run) for run in runs) else "",
        has_paper=experiment.paper is not None,
        warnings=report.warnings,
        provenance=provenance_facts(report.provenance, experiment, runs),
        failures=report.failures,
        artifacts=report.artifacts,
        pictures={name: style.inline(figures[name], svg) for name, svg in pictures.items()},
        claims=report.claims,
        contradictions=list(dict.fromkeys(printable(entry.text) for entry in discrepancies(experiment, None))),
        runs=runs_table(report.results),
        groups=groups,
        group_starts=_group_starts,
    )


def _counts(report: Report) -> list[tuple[str, str]]:
    """The figures at the top of the page: (number, what it counts)."""
    runs = report.results.runs
    done = sum(not run.missing for run in runs)
    seeds = len({str(run.seed) for run in runs})
    counts = [
        (f"{done}/{len(runs)}", "runs with a result"),
        (report.experiment.scale, "scale"),
        (str(seeds), "seed" if seeds == 1 else "seeds"),
    ]
    verdicts = Counter(verdict.status for verdict in report.claims)
    return counts + [
        (str(count), f"claim{'s' * (count > 1)} {status.replace('_', ' ')}")
        for status, count in sorted(verdicts.items())
    ]


def _group_starts(table: Table) -> set[int]:
    """Indices of the columns that open a group; none where the table has no groups."""
    if not any(column.group for column in table.columns):
        return set()
    starts, position = set(), 0
    for _, span in groups(table):
        starts.add(position)
        position += span
    return starts
