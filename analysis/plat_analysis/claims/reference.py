"""What the committed results say of the claims of an experiment file: shown where one's own runs are too few to decide.

`verdicts.json` beside the experiment files has them, by the name of the file and the id of the claim. `make results`
writes it from the bundles in docs/. An entry is used only while the claim asks what it asked then.

    {"table4": {"command": "plat sweep ...", "results": "docs/results", "runs": 720,
                "claims": {"filter-helps-every-row": {"asks": "1a2b...", "verdict": "partial", "found": "..."}}}}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.plain_files import read_json_value
from plat.spec.identity import canonical
from plat.units import counted
from plat_analysis.text import printable

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat_analysis.claims.engine import Verdict

FILE = "verdicts.json"
NOTHING = "not enough data"  # says nothing beside the same words


@dataclass(frozen=True)
class Earlier:
    """What earlier runs say of a claim: `partial`, what decided it, and `720 runs in docs/results`."""

    verdict: str
    found: str
    source: str

    @property
    def status(self) -> str:
        """The verdict as `Verdict.status` has it."""
        return self.verdict.replace(" ", "_")

    def __str__(self) -> str:
        return printable(f"{self.verdict} ({self.found}), {self.source}")


def verdicts_file(experiment: Experiment) -> Path | None:
    """The file beside the experiment file, or beside the folder that it is in; None where there is none."""
    folder = experiment.path.absolute().parent
    return next((path for place in (folder, folder.parent) if (path := place / FILE).is_file()), None)


def reference_verdicts(experiment: Experiment) -> dict[str, Earlier]:
    """Claim id -> `partial (above zero in 1 of 9; p .0010 over all its rows), 720 runs in docs/results`, as text.

    SpecError where the file cannot be read.
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
            mend="write them again with `make results`, or remove the file",
        ) from error


def reference_beside(experiment: Experiment, verdicts: Sequence[Verdict]) -> dict[str, Earlier]:
    """Those of the verdicts for which there is not enough data."""
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
    """A hash of what a claim asks; other words for it change nothing."""
    content = {key: value for key, value in claim.items() if key != "says"}
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:16]
