"""The verdicts of the committed results, in one small file beside the experiment files (`claims.reference`)."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from plat_analysis.claims.reasons import reason
from plat_analysis.claims.reference import FILE, asks
from plat_analysis.documents.bundles import Bundles
from plat_analysis.report.report import Report

PLACE = Path("experiments") / FILE


def verdicts_text(bundles: Bundles) -> str:
    """The content of the file: an entry for each experiment file that has claims and whose results are in a bundle."""
    entries = {}
    for name, folder in sorted(bundles.folders().items()):
        if bundles.claims_of(name):
            entries[name] = _entry(bundles.report(name), folder.relative_to(bundles.root).as_posix())
    return json.dumps(entries, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _entry(report: Report, results: str) -> dict[str, Any]:
    """The entry of an experiment file from the report of its committed results."""
    experiment = report.experiment
    asked = {str(claim.get("id", claim.get("check"))): asks(claim) for claim in experiment.claims}
    return {
        "command": shlex.join(["plat", "sweep", experiment.path.as_posix(), *experiment.overrides]),
        "results": results,
        "runs": sum(not run.missing for run in report.results.runs),
        "claims": {
            verdict.id: {
                "asks": asked[verdict.id],
                "verdict": verdict.status.replace("_", " "),
                "found": reason(verdict),
            }
            for verdict in report.claims
        },
    }
