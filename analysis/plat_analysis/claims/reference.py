"""What is known of claims beside the runs of a report: committed verdicts, and what a paper claims.

Committed verdicts are shown where your own runs are too few to decide. `verdicts.json` beside the experiment files has
them by file name and claim id; `make results` writes it from the bundles in results/. An entry is used only while the
hash of the claim (`asks`) is unchanged:

    {"table4": {"command": "plat sweep ...", "results": "results/table4", "runs": 720,
                "claims": {"some-claim": {"asks": "1a2b...", "verdict": "reproduced in 1 of 9", "found": "..."}}}}
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plat.errors import SpecError
from plat.plain_files import read_json_value
from plat.spec.expansion.experiment import Experiment
from plat.spec.identity.run_identity import canonical
from plat.units import counted
from plat_analysis.shown_text import printable

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat_analysis.claims.engine import Verdict

FILE = "verdicts.json"
NOTHING = "not enough data"  # adds nothing to the user's own verdict


@dataclass(frozen=True)
class Earlier:
    """Hold what earlier runs found: the verdict's word, what decided it, and `720 runs in results/table4`."""

    verdict: str
    found: str
    source: str

    @property
    def status(self) -> str:
        """Return the verdict in the form of `Verdict.status`."""
        word, in_part, _ = self.verdict.replace("reproduced", "shown").partition(" in ")
        return "shown_in_part" if in_part and word == "shown" else word.replace(" ", "_")

    def __str__(self) -> str:
        return printable(f"{self.verdict} ({self.found}), {self.source}")


def verdicts_file(experiment: Experiment) -> Path | None:
    """Return `verdicts.json` in the experiment file's folder, else in its parent; None if neither has one."""
    folder = experiment.path.absolute().parent
    return next((path for where in (folder, folder.parent) if (path := where / FILE).is_file()), None)


def reference_verdicts(experiment: Experiment) -> dict[str, Earlier]:
    """Return claim id -> what earlier runs found; {} without a file. Raises SpecError if it cannot be read.

    A claim that has changed since (`asks`), or that the earlier runs could not decide, is left out.
    """
    path = verdicts_file(experiment)
    if path is None:
        return {}
    try:
        entry = read_json_value(path).get(experiment.name)
        return _sentences(experiment, entry) if entry else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SpecError(
            f"the reference verdicts cannot be read: {error}",
            where=str(path),
            fix="write the file again with `make results`, or remove it",
        ) from error


def reference_beside(experiment: Experiment, verdicts: Sequence[Verdict]) -> dict[str, Earlier]:
    """Return `reference_verdicts` of the claims with the verdict `not_enough_data`; reads nothing if there is none."""
    short = {verdict.id for verdict in verdicts if verdict.status == "not_enough_data"}
    known = reference_verdicts(experiment) if short else {}
    return {name: text for name, text in known.items() if name in short}


def _sentences(experiment: Experiment, entry: Mapping[str, Any]) -> dict[str, Earlier]:
    asked = {str(claim.get("id", claim.get("check"))): asks(claim) for claim in experiment.claims}
    runs = f"{counted(int(entry['runs']), 'run')} in {entry['results']}"
    return {
        name: Earlier(printable(claim["verdict"]), printable(claim["found"]), printable(runs))
        for name, claim in entry["claims"].items()
        if asked.get(name) == claim["asks"] and claim["verdict"] != NOTHING
    }


def asks(claim: Mapping[str, Any]) -> str:
    """Return a hash of a claim's entry without `says`, 16 hex digits."""
    content = {key: value for key, value in claim.items() if key not in ("says", "expect", "ours")}
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]


# Read what a paper claims from `claims:` of its file, and which verdicts test each claim.

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
