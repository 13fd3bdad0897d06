"""What a paper claims, from `claims:` of its file, and which verdicts test each of its claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from plat_analysis.text import printable

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

Item = TypeVar("Item")
Test = tuple[str, str]  # name of an experiment file, id of a claim in it


@dataclass(frozen=True)
class PaperClaim:
    """A sentence of the paper in our words, where it stands there, and what tests it.

    published  the printed values, as one text
    tests      the claims of experiment files that test it
    open       what would decide it, where nothing does
    """

    id: str
    says: str
    source: str
    published: str
    tests: tuple[Test, ...]
    open: str


def paper_claims(experiments: Iterable[Experiment]) -> list[PaperClaim]:
    """Every claim of the papers of these files, in the order of each paper's file."""
    papers = {experiment.paper: experiment.paper_data or {} for experiment in experiments if experiment.paper}
    return [_claim(entry) for data in papers.values() for entry in data.get("claims") or ()]


def by_claim(
    claims: Sequence[PaperClaim], items: Mapping[Test, Item]
) -> tuple[list[tuple[PaperClaim, list[Item]]], list[Item]]:
    """Each claim with the items that test it, in its own order; and those that belong to none."""
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
    """`Q1 21.1, Q2 19.5`; a list of values as `6.6 to 26`."""
    if isinstance(published, Mapping):
        return ", ".join(f"{name} {_text(value)}" for name, value in published.items())
    if isinstance(published, list):
        return " to ".join(map(str, published))
    return "" if published is None else str(published)
