"""The verdicts of one or several reports as a reader meets them first: the artifact, the sentence, the word, and why.

The error is held over all claims that stand together (`claims.together`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plat_analysis.claims.engine import STATUSES, Verdict
from plat_analysis.claims.reasons import reason
from plat_analysis.claims.reference import Earlier
from plat_analysis.claims.together import judged, summary, together
from plat_analysis.text import printable

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

WORDS = {
    "reproduced": "✓",
    "partial": "≈",
    "not_reproduced": "✗",
    "undecided": "?",
    "not_enough_data": "…",
}


@dataclass(frozen=True)
class Judged:
    """An experiment file with its verdicts; `reference` is what the committed results say of some claims, by id."""

    experiment: Experiment
    verdicts: Sequence[Verdict]
    reference: Mapping[str, Earlier] = field(default_factory=dict)


@dataclass(frozen=True)
class VerdictLine:
    """One claim in the list.

    holds      whether it stands with the error held over all claims of the list; None where that is not asked
    reference  what the committed results say, where there is not enough data; None otherwise
    """

    experiment: Experiment
    verdict: Verdict
    holds: bool | None
    reference: Earlier | None

    @property
    def by_reference(self) -> bool:
        """Whether the committed results alone answer it."""
        return self.verdict.status == "not_enough_data" and bool(self.reference)

    @property
    def answer(self) -> str:
        """The status that answers it: that of the committed results where there is not enough data here."""
        return self.reference.status if self.reference and self.by_reference else self.verdict.status

    @property
    def artifact(self) -> str:
        return artifact_name(self.experiment)

    @property
    def anchor(self) -> str:
        return anchor(self.experiment)

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
    def over_all(self) -> str:
        """Whether it stands over all claims, in words."""
        if self.holds is None:
            return ""
        return "stands over all claims" if self.holds else "does not stand over all claims"

    @property
    def says_nothing(self) -> bool:
        return self.verdict.status == "not_enough_data" and not self.reference

    @property
    def is_main(self) -> bool:
        """Whether the paper's file names this claim as the main one (`main_claim`)."""
        return bool((self.experiment.paper_data or {}).get("main_claim") == self.verdict.id)


def artifact_name(experiment: Experiment) -> str:
    """`Table 6`, or the name of a file that is not about an artifact of a paper."""
    return printable(experiment.source or experiment.name)


def anchor(experiment: Experiment) -> str:
    """The id of the file's section on a page."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", experiment.report_name)


def verdict_lines(files: Sequence[Judged]) -> list[VerdictLine]:
    """Every claim of the files in their order. The main claim of the paper comes first; last come those that say
    nothing: without enough data, here and in the committed results."""
    verdicts = [verdict for file in files for verdict in file.verdicts]
    compared, standing = set(map(id, judged(verdicts))), set(map(id, together(verdicts)))
    lines = []
    for file in files:
        for verdict in file.verdicts:
            asked = len(compared) > 1 and id(verdict) in compared and verdict.status != "undecided"
            holds = id(verdict) in standing if asked else None
            lines.append(VerdictLine(file.experiment, verdict, holds, file.reference.get(verdict.id)))
    return sorted(lines, key=lambda line: (not line.is_main, line.says_nothing))


def tally(lines: Sequence[VerdictLine]) -> list[tuple[int, str, str]]:
    """(number, word, status) of the verdicts that occur, in the order in which they are explained."""
    counts = Counter((line.word, line.verdict.status) for line in lines)
    keys = sorted(counts, key=lambda key: STATUSES.index(key[1]))
    return [(counts[word, status], word, status) for word, status in keys]


def over_all(lines: Sequence[VerdictLine]) -> str:
    """The sentence about the error over all claims; "" where fewer than two had enough data."""
    verdicts = [line.verdict for line in lines]
    return summary(verdicts) if len(judged(verdicts)) > 1 else ""
