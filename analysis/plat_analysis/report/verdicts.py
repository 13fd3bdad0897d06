"""The verdicts of one or several reports as a reader meets them first: the artifact, the sentence, the word, and why.

The error is held over all claims that stand together (`claims.together`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.reasons import reason
from plat_analysis.claims.together import judged, summary, together
from plat_analysis.report.report import Report
from plat_analysis.text import printable

WORDS = {
    "reproduced": "✓",
    "partial": "≈",
    "not_reproduced": "✗",
    "undecided": "?",
    "not_enough_data": "…",
}


@dataclass(frozen=True)
class VerdictLine:
    """One claim in the list.

    artifact    what the file redraws, e.g. `Table 6`, or the file's name
    why         what decided, in one line
    over_all    whether it stands with the error held over all claims of the list; "" where that is not asked
    reference   what the reference results say, where there is not enough data; "" otherwise
    """

    report: Report
    verdict: Verdict
    over_all: str

    @property
    def artifact(self) -> str:
        return artifact_name(self.report)

    @property
    def anchor(self) -> str:
        return anchor(self.report)

    @property
    def word(self) -> str:
        return self.verdict.status.replace("_", " ")

    @property
    def sign(self) -> str:
        return WORDS[self.verdict.status]

    @property
    def sentence(self) -> str:
        return self.verdict.says or self.verdict.id

    @property
    def why(self) -> str:
        return reason(self.verdict)

    @property
    def reference(self) -> str:
        return self.report.reference.get(self.verdict.id, "")


def artifact_name(report: Report) -> str:
    """`Table 6`, or the name of a file that is not about an artifact of a paper."""
    return printable(report.experiment.source or report.experiment.name)


def anchor(report: Report) -> str:
    """The id of the report's section on a page."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", report.experiment.report_name)


def verdict_lines(reports: Sequence[Report]) -> list[VerdictLine]:
    """Every claim of the reports, the main claim of the paper first, then in the order of the files."""
    pairs = [(report, verdict) for report in reports for verdict in report.claims]
    verdicts = [verdict for _, verdict in pairs]
    counted, standing = set(map(id, judged(verdicts))), set(map(id, together(verdicts)))
    lines = []
    for report, verdict in pairs:
        over_all = ""
        if len(counted) > 1 and id(verdict) in counted and verdict.status != "undecided":
            over_all = "stands over all claims" if id(verdict) in standing else "does not stand over all claims"
        lines.append(VerdictLine(report, verdict, over_all))
    return sorted(lines, key=lambda line: not is_main(line.report, line.verdict))


def is_main(report: Report, verdict: Verdict) -> bool:
    """Whether the paper's file names this claim as the main one (`main_claim`)."""
    return bool(report.experiment.paper_data) and report.experiment.paper_data.get("main_claim") == verdict.id


def over_all(lines: Sequence[VerdictLine]) -> str:
    """The sentence about the error over all claims; "" where fewer than two had enough data."""
    verdicts = [line.verdict for line in lines]
    return summary(verdicts) if len(judged(verdicts)) > 1 else ""
