"""Make one table of all estimates of a report, as MLflow shows tables among the artifacts of a run."""

from __future__ import annotations

import json
import math
from typing import Any

from plat_analysis.artifact import Figure, Table
from plat_analysis.report.report import Report
from plat_analysis.shown_text import printable

CELLS = "cells.json"


def cells(report: Report) -> str:
    """Return the estimates of every table as JSON: `columns`, and `data` with a list for each estimate.

    The first column is `table`, the name of the artifact. Artifacts without estimates have their key numbers. A value
    is null where its table has no such column, or where it is no finite number. `mlflow.load_table` reads this.
    """
    records = [{"table": artifact.name, **line} for artifact in report.artifacts for line in _lines(artifact)]
    columns = list(dict.fromkeys(name for line in records for name in line))
    data = [[_plain(line.get(name)) for name in columns] for line in records]
    return json.dumps({"columns": [*map(printable, columns)], "data": data}, ensure_ascii=False) + "\n"


def _lines(artifact: Table | Figure) -> list[dict[str, Any]]:
    records = artifact.records if isinstance(artifact, Table) else []
    estimates = [line for line in records if {"value", "low", "high"} <= line.keys()]
    return estimates or [{"quantity": name, "value": float(value)} for name, value in artifact.values.items()]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return round(float(value), 10) if math.isfinite(value) else None
    return printable(value)
