"""The change that a claim judged, as its verdict prints it: `+2.5 [+1.4, +3.6]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.report.report import Report

CHANGE = re.compile(r"(?P<row>.*?) ?(?P<change>[+−]?\d[\d.]* \[[^\]]+\])")


def change(report: Report, words: Sequence[str]) -> str:
    """The change of a row of a claim, with its interval."""
    verdicts = {verdict.id: verdict for verdict in report.claims}
    name = words[0] if words else ""
    if name not in verdicts:
        raise SpecError(f"the report has no claim {name!r}", mend=mend(name, verdicts, "claims"))
    rows: dict[str, str] = {}
    for line in verdicts[name].lines:
        # a verdict about one kind of row has the kind before the row: `without enough data: GRPO +1.0 [...]`
        match = CHANGE.match(line.rpartition(": ")[2])
        if match:
            rows[match["row"]] = match["change"]
    row = words[1] if len(words) == 2 else ""
    if row not in rows:
        raise SpecError(f"the claim {name!r} judges no row {row!r}", mend=mend(row, rows, "rows"))
    return rows[row]
