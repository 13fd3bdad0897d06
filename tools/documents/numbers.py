"""Collect the numbers of reports that pages may show: every estimate of a table or a claim, and every verdict.

    {"table4": {"runs": "720 runs (5 seeds, 2 builds of each base model; trained with embedded 3.0)",
                "verdicts": {"filter-helps-every-row": "reproduced in 1 of 9"},
                "numbers": {"peak_success/GRPO/sokoban/delta": [10.44, 7.48, 13.4]}}}

A number is its value and, where it has one, its interval. Names are those of `report/estimates.json` without the
file's.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from plat_analysis.artifact import Table
from plat_analysis.data.results import spell
from plat_analysis.report.recorded_report import estimates_table
from plat_analysis.report.report import Report

DIGITS = 6  # decimals that are kept


def numbers(report: Report) -> dict[str, Any]:
    """Return the entry of one report. Values along training steps are left out."""
    tables = {artifact.name for artifact in report.artifacts if isinstance(artifact, Table)}
    tables |= {verdict.id for verdict in report.claims}
    estimates = json.loads(estimates_table(report))
    lines = [dict(zip(estimates["columns"], line, strict=True)) for line in estimates["data"]]
    return {
        "runs": runs(report),
        "verdicts": {verdict.id: verdict.word for verdict in report.claims},
        "numbers": {
            line["name"].removeprefix(f"{report.experiment.name}/"): _with_interval(line)
            for line in lines
            if line["table"] in tables and line.get("step") is None and line["value"] is not None
        },
    }


def runs(report: Report) -> str:
    """Return `720 runs (5 seeds, 2 builds of each base model; embedded 3.0)`, with counts of missing runs by reason."""
    asked = report.results.runs
    done = [run for run in asked if not run.missing]
    seeds, builds = len({spell(run.seed) for run in asked}), len({spell(run.build) for run in asked})
    parts = [f"{seeds} seed{'s' * (seeds != 1)}"]
    parts += [f"{builds} builds of each base model"] if builds > 1 else []
    trainers = sorted({trainer for run in done if (trainer := run.tag("plat.trainer"))})
    missing = Counter(run.missing for run in asked if run.missing)
    absent = "".join(f", {count} more {reason}" for reason, count in sorted(missing.items()))
    return f"{len(done)} runs{absent} ({', '.join(parts)}; trained with {', '.join(trainers)})"


def _with_interval(line: dict[str, Any]) -> list[float]:
    ends = [line["value"], line.get("low"), line.get("high")]
    return [round(float(end), DIGITS) for end in ends if end is not None]
