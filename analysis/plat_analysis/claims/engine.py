"""Runs the claim checks of an experiment file. A verdict is one of four words, with the numbers and runs behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis import plugins

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.reader import Frames

STATUSES = ("reproduced", "partial", "not_reproduced", "not_enough_data")


@dataclass(frozen=True)
class Verdict:
    """What became of one claim. `value` is the number (or numbers by name) that decided; `id` and `says` are filled in
    by the engine from the experiment file."""

    status: str
    value: float | dict[str, float] | None = None
    detail: str = ""
    run_ids: tuple[str, ...] = field(default=(), repr=False)
    id: str = ""
    says: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown verdict {self.status!r}; one of {', '.join(STATUSES)}")

    def as_dict(self) -> dict[str, Any]:
        """For `plat claims --json`."""
        return {
            "id": self.id,
            "verdict": self.status,
            "says": self.says,
            "value": self.value,
            "detail": self.detail,
            "run_ids": list(self.run_ids),
        }


def check_claims(frames: Frames, experiment: Experiment) -> list[Verdict]:
    """One verdict per claim of the file, in its order."""
    verdicts = []
    for index, claim in enumerate(experiment.claims):
        where = f"{experiment.path}: claims[{index}]"
        arguments = {key: value for key, value in claim.items() if key not in ("id", "check", "says")}
        if not claim.get("check"):
            raise SpecError("a claim names no check", where=where, mend="add `check: <name>`")
        check = plugins.find("plat.claims", str(claim["check"]), where)
        verdict = plugins.call(check, frames, experiment, arguments, where)
        if not isinstance(verdict, Verdict):
            raise SpecError(
                f"claim check {claim['check']!r} gave a {type(verdict).__name__}",
                where=where,
                mend="it must give a Verdict",
            )
        verdicts.append(replace(verdict, id=str(claim.get("id", claim["check"])), says=str(claim.get("says", ""))))
    return verdicts
