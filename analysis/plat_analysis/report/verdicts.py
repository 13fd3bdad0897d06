"""List the verdicts of one or several reports: the artifact, the sentence, the word, and the reason.

Each claim is judged at 2.5 %, so of forty false claims one is expected to be called shown. Holm's
procedure over all claims of the list keeps the probability of any such error at 2.5 %.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plat.spec.expansion.experiment import Experiment
from plat_analysis.claims.decided import LEVEL
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.reference import Earlier, PaperClaim
from plat_analysis.plugins.expectations import STATUSES
from plat_analysis.shown_text import printable
from plat_analysis.statistics.significance import holm

WORDS = {
    "shown": "✓",
    "shown_in_part": "≈",
    "contradicted": "✗",
    "not_of_this_size": "<",
    "open": "?",
    "not_enough_data": "…",
}


@dataclass(frozen=True)
class Judged:
    """Hold an experiment file with its verdicts; `reference`: claim id -> what the committed results found."""

    experiment: Experiment
    verdicts: Sequence[Verdict]
    reference: Mapping[str, Earlier] = field(default_factory=dict)


@dataclass(frozen=True)
class VerdictLine:
    """Hold one claim of the list.

    holds      True if it stands with the error held over all claims of the list; None where that is not asked
    reference  what the committed results found, where there is not enough data; None otherwise
    """

    experiment: Experiment
    verdict: Verdict
    holds: bool | None
    reference: Earlier | None

    @property
    def by_reference(self) -> bool:
        """Return True if only the committed results answer it."""
        return self.verdict.status == "not_enough_data" and bool(self.reference)

    @property
    def answer(self) -> str:
        """Return its status, or that of the committed results where there is not enough data here."""
        return self.reference.status if self.reference and self.by_reference else self.verdict.status

    @property
    def artifact(self) -> str:
        return artifact_name(self.experiment)

    @property
    def anchor(self) -> str:
        return anchor(self.experiment)

    @property
    def sentence(self) -> str:
        return self.verdict.sentence

    @property
    def over_all(self) -> str:
        """Return in words if it stands over all claims; "" where that is not asked."""
        if self.holds is None:
            return ""
        return f"{'remains' if self.holds else 'does not remain'} decided if the error is controlled over all claims"

    @property
    def how(self) -> str:
        """Return what its runs are, how its error is held, and what was expected, in words."""
        verdict, parts = self.verdict, []
        if verdict.control:
            parts.append(f"error: {verdict.control.in_words}")
        if levels := sorted({row.level for row in verdict.rows if row.has_interval}):
            of = "over all looks" if verdict.control and verdict.control.method == "looks" else "of each row alone"
            parts.append(f"intervals: {' and '.join(f'{100 * level:g} %' for level in levels)} {of}")
        if verdict.expected:
            words = " or ".join(verdict.expected).replace("_", " ")
            parts.append(f"expected: {words}{'' if verdict.as_expected else ' (differs)'}")
        return "; ".join(filter(None, [printable(verdict.scale), *parts]))

    @property
    def says_nothing(self) -> bool:
        """Return True if there is not enough data here and no committed result."""
        return self.verdict.status == "not_enough_data" and not self.reference

    @property
    def is_main(self) -> bool:
        """Return True if the paper's file names this claim as `main_claim`."""
        return bool((self.experiment.paper_data or {}).get("main_claim") == self.verdict.id)


def artifact_name(experiment: Experiment) -> str:
    """Return `Table 6`, or the file's name where it is not about an artifact of a paper."""
    return printable(experiment.source or experiment.name)


def anchor(experiment: Experiment) -> str:
    """Return the id of the file's section on a page."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", experiment.report_name)


def verdict_lines(files: Sequence[Judged]) -> list[VerdictLine]:
    """Return every claim of the files in their order, with the paper's main claim first.

    Claims without enough data, here and in the committed results, come last.
    """
    verdicts = [verdict for file in files for verdict in file.verdicts]
    compared, standing = set(map(id, judged(verdicts))), set(map(id, together(verdicts)))
    lines = []
    for file in files:
        for verdict in file.verdicts:
            asked = len(compared) > 1 and id(verdict) in compared and verdict.status != "open"
            holds = id(verdict) in standing if asked else None
            lines.append(VerdictLine(file.experiment, verdict, holds, file.reference.get(verdict.id)))
    return sorted(lines, key=lambda line: (not line.is_main, line.says_nothing))


def tally(lines: Sequence[VerdictLine]) -> list[tuple[int, str, str]]:
    """Return (number, word, status) of the verdicts on own runs that occur, in the order of `STATUSES`."""
    some = {"shown_in_part": " in some rows"}
    counts = Counter((v.kind + some.get(v.status, ""), v.status) for v in (line.verdict for line in lines))
    keys = sorted(counts, key=lambda key: STATUSES.index(key[1]))
    return [(counts[word, status], word, status) for word, status in keys]


def over_all(lines: Sequence[VerdictLine]) -> str:
    """Return the sentence about the error over all claims; "" where fewer than two had enough data."""
    verdicts = [line.verdict for line in lines]
    return summary(verdicts) if len(judged(verdicts)) > 1 else ""


def judged(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that count as comparisons: those with a p-value, and open ones."""
    return [verdict for verdict in verdicts if verdict.p is not None or verdict.status == "open"]


def together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the decided verdicts that stand with the error held over all claims that had enough data.

    A decided verdict without a p-value does not count among them.
    """
    counted = judged(verdicts)
    adjusted = holm([1.0 if verdict.p is None else verdict.p for verdict in counted])
    return [verdict for verdict, p in zip(counted, adjusted, strict=True) if p is not None and p <= LEVEL]


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return sentences: how many claims had enough data, how many are decided, and the ids of those in `together`."""
    counted = judged(verdicts)
    decided, standing = [v for v in counted if v.status != "open"], together(verdicts)
    names = ", ".join(f"`{verdict.id}`" for verdict in standing) or "none"
    return (
        f"{len(counted)} claims had enough data. Each is judged at {100 * LEVEL:g} %: if none were true, "
        f"{LEVEL * len(counted):.1f} would be called shown by chance. {len(decided)} are decided. "
        f"{len(standing)} of these remain decided if the error is controlled over all {len(counted)} (Holm): {names}."
    )


def as_json(lines: Sequence[VerdictLine], claimed: Sequence[PaperClaim]) -> list[dict[str, Any]]:
    """Return the verdicts as `plat claims --json` prints them (`ClaimVerdict` in `plat.cli.schemas.results`).

    "stands_over_all" and "reference" are `holds` and `reference` of the line (see `VerdictLine`).
    """
    compared = len(judged([line.verdict for line in lines]))
    return [
        {
            **line.verdict.as_dict(),
            "claims_compared": compared,
            "experiment": line.experiment.name,
            "source": line.experiment.source,
            "evidence": line.experiment.evidence_in_words,
            "stands_over_all": line.holds,
            "reference": str(line.reference) if line.reference else None,
            "paper_claims": [claim.id for claim in claimed if (line.experiment.name, line.verdict.id) in claim.tests],
        }
        for line in lines
    ]
