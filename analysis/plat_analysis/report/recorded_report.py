"""Make the store's record of a report: estimates as metrics, verdicts as tags, and a summary in Markdown.

    plat.claim.<id>  plat.claim.<id>.says   tags: the verdict's word, and what is claimed

The metrics and the table of all estimates are made by `plat_analysis.report.estimates`. Equal reports give equal
records.
"""

from __future__ import annotations

import json
import re

from plat.store.mlflow.report_record import CLAIMS, ReportRecord
from plat.store.mlflow.run_tags import clean_key
from plat.units import counted
from plat_analysis.artifact import p_value
from plat_analysis.claims.engine import Verdict
from plat_analysis.report.estimates import ESTIMATES, estimate_metrics, named_claims
from plat_analysis.report.render import inert
from plat_analysis.report.report import Report
from plat_analysis.shown_text import printable, shortened

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
    """Return `- **partial** id: what is claimed. Found: above zero in 3 of 9; over all its rows p .003.`"""
    words = [f"- **{verdict.word}** {_plain(verdict.id)}:", _plain(verdict.says)]
    if verdict.deciding:
        p = f"; over all its rows p {p_value(verdict.p)}" if verdict.p is not None else ""
        words.append(f"Found: {_plain(verdict.deciding)}{p}.")
    return " ".join(filter(None, words))


def _plain(text: str) -> str:
    """Escape text for Markdown, on one line."""
    return re.sub(r"([*_`])", r"\\\1", inert(shortened(" ".join(printable(text).split()), LONGEST_SENTENCE)))
