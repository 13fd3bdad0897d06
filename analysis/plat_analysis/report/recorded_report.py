"""Make the store's record of a report: estimates as metrics, verdicts as tags, and a summary in Markdown.

    plat.claim.<id>  plat.claim.<id>.says   tags: the verdict's word, and what is claimed

The metrics and the table of all estimates are made by `plat_analysis.report.recorded_report`. Equal reports give equal
records.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plat.store.mlflow.report_record import CLAIMS, ReportRecord
from plat.store.mlflow.run_tags import clean_key
from plat.units import counted
from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import Verdict
from plat_analysis.facets import named_number
from plat_analysis.report.render import inert
from plat_analysis.report.report import Report
from plat_analysis.shown_text import printable, shortened

# List every estimate of a report for MLflow: rows of one table among the artifacts, and metrics of the report's run.
#
#     estimates.json                                   table of all estimates; `mlflow.load_table` reads it
#     fig8/correlations/grpo/within/Retrieval/rho      metric: file, artifact (unless it is named like the file), labels
#     fig8/correlations/grpo/within/Retrieval/rho.low  with `.low`, `.high` and `.p` where they are known
#     claim/<id>/<row>                                 metric: what was judged, with `.low` and `.high`
#     claim/<id>/p                                     metric: the p-value of the claim
#
# Values along training steps are the steps of one metric. A label that is a number has its column's name before it.

ESTIMATES = "estimates.json"
CLAIM = "claim"
LONGEST = 230  # characters of a metric's name before `.low`; MLflow takes 250
ENDS = ("low", "high", "p")
_NAMED = ("against",)  # columns whose name is part of every label

Line = Mapping[str, Any]  # labels, then `value` and what belongs to it
Metrics = dict[tuple[str, int], float]  # name and step -> value


def estimates_table(report: Report) -> str:
    """Return every estimate of the report's tables, figures and claims as JSON: `columns`, and a list for each line.

    The first columns are `table`, the name of the artifact or claim, and `name`, the name of the line's metric. A
    value is null where its artifact has no such column, or where it is no finite number.
    """
    lines = [
        {"table": source, "name": name, **line}
        for source, name, line in [*_named_lines(report), *_claim_lines(report.claims)]
    ]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    data = [[_plain_value(line.get(name)) for name in columns] for line in lines]
    return json.dumps({"columns": [*map(printable, columns)], "data": data}, ensure_ascii=False) + "\n"


def estimate_metrics(report: Report) -> Metrics:
    """Return (name, step) -> value of every estimate of the report that has a value."""
    metrics: Metrics = {}
    for _, name, line in [*_named_lines(report), *_claim_lines(report.claims)]:
        ends = {f"{name}.{end}": line.get(end) for end in ENDS}
        for key, value in {name: line["value"], **ends}.items():
            if value is not None:
                metrics[key, int(line.get("step") or 0)] = float(value)
    return metrics


def estimates_of(artifact: Table | Figure) -> Sequence[Line]:
    """Return the estimates of a table or figure; those without any have their key numbers."""
    if isinstance(artifact, Figure) and artifact.estimates:
        return artifact.estimates
    shown = artifact.records if isinstance(artifact, Table) else artifact.points
    lines = [line for line in shown if {"value", "low", "high"} <= line.keys()]
    return lines or [{"quantity": name, "value": float(value)} for name, value in artifact.values.items()]


def _named_lines(report: Report) -> Iterator[tuple[str, str, Line]]:
    """Yield the artifact's name, the metric's name and the line of every estimate; no two have one name and step."""
    taken: set[tuple[str, int]] = set()
    for artifact in report.artifacts:
        for line in estimates_of(artifact):
            yield artifact.name, _distinct(_name(report.experiment.name, artifact.name, line), line, taken), line


def _name(file: str, artifact: str, line: Line) -> str:
    labels = list(line)[: list(line).index("value")]
    parts = [_label(name, line[name]) for name in labels if name not in ("step", "run_id", "run_ids")]
    return "/".join(filter(None, [file, artifact if artifact != file else "", *parts]))


def _label(name: str, value: Any) -> str:
    if value is None or value is False or value == "":
        return ""
    if value is True:
        return name
    return f"{name} {value}" if name in _NAMED else named_number(name, str(value))


def _distinct(name: str, line: Line, taken: set[tuple[str, int]]) -> str:
    """Return a name that MLflow accepts and that no other line has at this step; add it to `taken`."""
    stem, step, number = clean_key(metric_name(name.replace(" · ", " "))[:LONGEST]), int(line.get("step") or 0), 1
    while (found := stem if number == 1 else f"{stem}-{number}", step) in taken:
        number += 1
    taken.add((found, step))
    return found


def metric_name(name: str) -> str:
    """Return a name with `-` in place of characters that MLflow refuses in names of metrics; not shortened."""
    return re.sub(r"[^A-Za-z0-9_./ -]+", "-", name)


def _claim_lines(claims: list[Verdict]) -> Iterator[tuple[str, str, Line]]:
    """Yield the claim's id, the metric's name and the line of every number that was judged, and of every p-value."""
    taken: set[tuple[str, int]] = set()
    for name, verdict in named_claims(claims):
        if verdict.p is not None:
            line: Line = {"quantity": "p", "value": float(verdict.p)}
            yield verdict.id, _distinct(f"{CLAIM}/{name}/p", line, taken), line
        judged = verdict.value if isinstance(verdict.value, Mapping) else {"value": verdict.value}
        for row, value in judged.items():
            low, high = verdict.bounds.get(row, (None, None))
            if value is not None:
                line = {"row": row, "value": float(value), "low": low, "high": high}
                yield verdict.id, _distinct(f"{CLAIM}/{name}/{row}", line, taken), line


def named_claims(claims: list[Verdict], longest: int = 200) -> Iterator[tuple[str, Verdict]]:
    """Yield each claim with a distinct id that MLflow accepts, of at most about `longest` characters."""
    taken: set[str] = set()
    for verdict in claims:
        stem = clean_key(verdict.id)[:longest].rstrip("/") or "_"
        number = 1
        while (name := stem if number == 1 else f"{stem}-{number}") in taken or f"{name}.says" in taken:
            number += 1
        taken |= {name, f"{name}.says"}
        yield name, verdict


def _plain_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(float(value), 10) if math.isfinite(value) else None
    return printable(value)


SHOWN_TABLES = "mlflow.loggedArtifacts"  # the tag by which MLflow's page finds tables among the artifacts
LONGEST_SENTENCE = 300


def recorded(report: Report) -> ReportRecord:
    """Return the record of a report."""
    tags = {SHOWN_TABLES: json.dumps([{"path": f"report/{ESTIMATES}", "type": "table"}])}
    for name, verdict in named_claims(report.claims):
        tags[f"{CLAIMS}{name}"] = verdict.word
        tags |= {f"{CLAIMS}{name}.says": verdict.says} if verdict.says else {}
    return ReportRecord(estimate_metrics(report), tags, _summary(report))


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
    """Return `- **shown in 3 of 9** id: what is claimed. Found: GRPO, PPO and DAPO, p .003 over 9 rows.`"""
    words = [f"- **{verdict.word}** {_plain(verdict.id)}:", _plain(verdict.says)]
    if verdict.deciding:
        words.append(f"Found: {_plain(verdict.found)}.")
    return " ".join(filter(None, words))


def _plain(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([*_`])", r"\\\1", inert(shortened(" ".join(printable(text).split()), LONGEST_SENTENCE)))
