"""What a paper claims, from `claims:` of its file, and which verdicts test each of its claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from plat.errors import SpecError
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
    """Every claim of the papers of these files, in the order of each paper's file.

    SpecError where an entry of `claims:` has no id or sentence, or its tests are no list of `FILE: ID`.
    """
    papers = {experiment.paper: experiment.paper_data or {} for experiment in experiments if experiment.paper}
    return [
        _claim(entry, f"experiments/papers/{paper}.yaml, claims: entry {index}")
        for paper, data in papers.items()
        for index, entry in enumerate(data.get("claims") or (), start=1)
    ]


def by_claim(
    claims: Sequence[PaperClaim], items: Mapping[Test, Item]
) -> tuple[list[tuple[PaperClaim, list[Item]]], list[Item]]:
    """Each claim with the items that test it, in its own order; and those that belong to none."""
    groups = [(claim, [items[test] for test in claim.tests if test in items]) for claim in claims]
    named = {test for claim in claims for test in claim.tests}
    return groups, [item for test, item in items.items() if test not in named]


def _claim(entry: Any, where: str) -> PaperClaim:
    if not isinstance(entry, Mapping) or not all(isinstance(entry.get(key), str) for key in ("id", "says")):
        raise SpecError("a claim of the paper has no id or sentence", where=where, mend="write {id: NAME, says: TEXT}")
    tests = entry.get("tested_by") or []
    if not isinstance(tests, list) or not all(isinstance(test, Mapping) and len(test) == 1 for test in tests):
        raise SpecError(
            f"tested_by of {entry['id']!r} is no list of claims", where=where, mend="write tested_by: [FILE: ID, ...]"
        )
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
