"""Read what a paper claims from `claims:` of its file, and which verdicts test each claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from plat.spec.expansion.experiment import Experiment
from plat_analysis.shown_text import printable

Item = TypeVar("Item")
Test = tuple[str, str]  # name of an experiment file, id of a claim in it


@dataclass(frozen=True)
class PaperClaim:
    """Hold a claim of the paper in our words, its source in the paper, and its tests.

    published  the printed values, as one text
    tests      the claims of experiment files that test it
    open       if nothing decides the claim: what would decide it
    """

    id: str
    says: str
    source: str
    published: str
    tests: tuple[Test, ...]
    open: str


def paper_claims(experiments: Iterable[Experiment]) -> list[PaperClaim]:
    """Return every claim of the papers of these files, in the order of each paper's file."""
    papers = {experiment.paper: experiment.paper_data or {} for experiment in experiments if experiment.paper}
    return [_claim(entry) for data in papers.values() for entry in data.get("claims") or ()]


def by_claim(
    claims: Sequence[PaperClaim], items: Mapping[Test, Item]
) -> tuple[list[tuple[PaperClaim, list[Item]]], list[Item]]:
    """Return (claim, the items that test it) for each claim, and the items that test no claim."""
    groups = [(claim, [items[test] for test in claim.tests if test in items]) for claim in claims]
    named = {test for claim in claims for test in claim.tests}
    return groups, [item for test, item in items.items() if test not in named]


def _claim(entry: Mapping[str, Any]) -> PaperClaim:
    tests = entry.get("tested_by") or []
    return PaperClaim(
        id=printable(entry["id"]),
        says=printable(entry["says"]),
        source=printable(entry.get("source", "")),
        published=printable(_text(entry.get("published"))),
        tests=tuple((str(name), str(claim)) for test in tests for name, claim in test.items()),
        open=printable(entry.get("open", "")),
    )


def _text(published: Any) -> str:
    """Return the printed values as text: `Q1 21.1, Q2 19.5`; a list as `6.6 to 26`."""
    if isinstance(published, Mapping):
        return ", ".join(f"{name} {_text(value)}" for name, value in published.items())
    if isinstance(published, list):
        return " to ".join(map(str, published))
    return "" if published is None else str(published)
