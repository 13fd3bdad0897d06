"""Make the store's record of a report: numbers as metrics, verdicts as tags, and a summary in Markdown.

    claim/<id>/p  claim/<id>/<row>          metrics of a claim: its p-value, and the numbers that were judged with their
                                            intervals, `/low` and `/high`
    plat.claim.<id>  plat.claim.<id>.says   tags: the verdict's word, and what is claimed

All estimates are in one table among the artifacts (`plat_analysis.report.cells`). Equal reports give equal records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from plat.store.mlflow.report_record import CLAIMS, ReportRecord
from plat.store.mlflow.spelling import clean_key
from plat.units import counted
from plat_analysis.artifact import p_value
from plat_analysis.claims.engine import Verdict
from plat_analysis.report.cells import CELLS
from plat_analysis.report.render import inert
from plat_analysis.report.report import Report
from plat_analysis.shown_text import printable, shortened

SHOWN_TABLES = "mlflow.loggedArtifacts"  # the tag by which MLflow's page finds tables among the artifacts
LONGEST = 230  # characters of a metric's name before `/low`; MLflow takes 250
LONGEST_ID = 200  # of a claim's id in the name of a tag
LONGEST_SENTENCE = 300


def recorded(report: Report) -> ReportRecord:
    """Return the record of a report."""
    values: dict[str, float] = {}
    tags = {SHOWN_TABLES: json.dumps([{"path": f"report/{CELLS}", "type": "table"}])}
    for name, verdict in _named(report.claims):
        tags[f"{CLAIMS}{name}"] = verdict.word
        tags |= {f"{CLAIMS}{name}.says": verdict.says} if verdict.says else {}
        _add_claim(values, f"claim/{name}", verdict)
    return ReportRecord(values, tags, _summary(report))


def metric_name(name: str) -> str:
    """Return a name with `-` in place of characters that MLflow refuses in names of metrics; not shortened."""
    return re.sub(r"[^A-Za-z0-9_./ -]+", "-", name)


def _add_claim(values: dict[str, float], name: str, verdict: Verdict) -> None:
    if verdict.p is not None:
        values[clean_key(f"{name}/p")] = float(verdict.p)
    if isinstance(verdict.value, Mapping):
        for row, value in verdict.value.items():
            _add(values, f"{name}/{row}", float(value), *verdict.bounds.get(row, (None, None)))
    elif verdict.value is not None:
        _add(values, f"{name}/value", float(verdict.value), None, None)


def _add(values: dict[str, float], name: str, value: float, low: float | None, high: float | None) -> None:
    """Add a value with its interval under its name, numbered where another value has that name."""
    stem = clean_key(metric_name(name)[:LONGEST])
    number = 1
    while values.setdefault(name := stem if number == 1 else f"{stem}-{number}", value) != value and value == value:
        number += 1
    if low is not None and high is not None:
        values |= {f"{name}/low": float(low), f"{name}/high": float(high)}


def _named(claims: list[Verdict]) -> Iterator[tuple[str, Verdict]]:
    """Yield each claim with a distinct id that MLflow accepts."""
    taken: set[str] = set()
    for verdict in claims:
        stem = clean_key(verdict.id)[:LONGEST_ID].rstrip("/") or "_"
        number = 1
        while (name := stem if number == 1 else f"{stem}-{number}") in taken or f"{name}.says" in taken:
            number += 1
        taken |= {name, f"{name}.says"}
        yield name, verdict


def _summary(report: Report) -> str:
    """Return a line for each verdict, then the number of runs, then where the files are."""
    runs = report.results.runs
    done = sum(not run.missing for run in runs)
    failed, experiment = len(report.failures), report.experiment
    own = clean_key(experiment.name) + (f"@{experiment.mark}" if experiment.mark else "")
    at = f", at scale {_plain(experiment.scale)}" if experiment.scale else ""
    facts = [
        f"{done} of {counted(len(runs), 'run')} {'has' if done == 1 else 'have'} a result{at}.",
        f"{counted(failed, 'part')} of the report could not be made." if failed else "",
        f"Tables, figures and the page `report.html`: folder `report` among the artifacts of the run `{own}`.",
    ]
    verdicts = "\n".join(map(_line, report.claims))
    return "\n\n".join(filter(None, [verdicts, " ".join(filter(None, facts))]))


def _line(verdict: Verdict) -> str:
    """Return `- **partial** id: what is claimed. Found: above zero in 3 of 9; over all its rows p .003.`"""
    words = [f"- **{verdict.word}** {_plain(verdict.id)}:", _plain(verdict.says)]
    if verdict.deciding:
        p = f"; over all its rows p {p_value(verdict.p)}" if verdict.p is not None else ""
        words.append(f"Found: {_plain(verdict.deciding)}{p}.")
    return " ".join(filter(None, words))


def _plain(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([*_`])", r"\\\1", inert(shortened(" ".join(printable(text).split()), LONGEST_SENTENCE)))
