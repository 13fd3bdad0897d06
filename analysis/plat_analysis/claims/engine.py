"""Runs the claim checks of an experiment file. A verdict is one of five words, with the numbers and runs behind it.

reproduced       shown by the spread between runs
partial          for a claim about several rows: some of them hold
not_reproduced   there is evidence against it: an interval below zero, or one that excludes the published size
undecided        there are enough runs for an interval, and it decides nothing
not_enough_data  fewer than five seeds, or runs that are missing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.data.runs import spell
from plat_analysis.plugins import registry
from plat_analysis.plugins.checking import check_claim_entries, place
from plat_analysis.plugins.failure import Failure
from plat_analysis.text import printable

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

STATUSES = ("reproduced", "partial", "not_reproduced", "undecided", "not_enough_data")


@dataclass(frozen=True)
class Verdict:
    """What became of one claim. `value` is the number (or numbers by name) that decided; `id` and `says` are filled in
    by the engine from the experiment file. `lines` are the reasons of `detail` one by one, where a check gives them,
    and `deciding` the one that decided (default: the first). `bounds` are the intervals of the numbers in `value`.
    `p` is the p-value of what was found, corrected over its rows; None where nothing was, or a check has none."""

    status: str
    value: float | Mapping[str, float] | None = None
    detail: str = ""
    run_ids: tuple[str, ...] = field(default=(), repr=False)
    id: str = ""
    says: str = ""
    lines: tuple[str, ...] = field(default=(), repr=False)
    p: float | None = None
    deciding: str = field(default="", repr=False)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"unknown verdict {self.status!r}; one of {', '.join(STATUSES)}")
        for name in ("detail", "id", "says"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        lines = self.lines or ((self.detail,) if self.detail else ())
        object.__setattr__(self, "lines", tuple(map(printable, lines)))
        object.__setattr__(self, "deciding", printable(self.deciding) or next(iter(self.lines), ""))

    def as_dict(self) -> dict[str, Any]:
        """For `plat claims --json`."""
        return {
            "id": self.id,
            "verdict": self.status,
            "says": self.says,
            "value": self.value,
            "p": self.p,
            "detail": self.detail,
            "run_ids": list(self.run_ids),
        }


def check_claims(frames: Frames, experiment: Experiment) -> list[Verdict]:
    """One verdict per claim of the file, in its order; SpecError when one cannot be checked."""
    check_claim_entries(experiment)
    verdicts, failures = run_checks(frames, experiment)
    if failures:
        raise SpecError(failures[0].what, where=failures[0].where, mend=failures[0].mend or None)
    return verdicts


def run_checks(frames: Frames, experiment: Experiment) -> tuple[list[Verdict], list[Failure]]:
    """The verdicts in the order of the file, with those of their runs that have a result, and the claims whose check
    failed."""
    verdicts, failures = [], []
    ended = {run for run, outcome in zip(frames.runs["run_id"], frames.runs["outcome"], strict=True) if outcome}
    for index, claim in enumerate(experiment.claims):
        where = place(experiment, "claims", index)
        name = str(claim.get("id", claim.get("check")))
        try:
            verdict = _run_check(frames, experiment, claim, where)
        except Exception as error:
            failures.append(Failure.of(f"the claim {name!r}", error, where))
            continue
        ids = tuple(run for run in verdict.run_ids if run in ended)
        verdict = replace(verdict, id=name, says=str(claim.get("says", "")), run_ids=ids)
        verdicts.append(_restricted(verdict, experiment))
    return verdicts, failures


def _run_check(frames: Frames, experiment: Experiment, claim: Mapping[str, Any], where: str) -> Verdict:
    if not claim.get("check"):
        raise SpecError("it names no check", where=where, mend="add `check: <name>`")
    check = registry.find("plat.claims", str(claim["check"]), where)
    arguments = {key: value for key, value in claim.items() if key not in ("id", "check", "says")}
    verdict = registry.call(check, frames, experiment, arguments, where)
    if not isinstance(verdict, Verdict):
        raise SpecError(
            f"its check {claim['check']!r} gave a {type(verdict).__name__}",
            where=where,
            mend="a check returns a plat_analysis.claims.engine.Verdict",
        )
    return verdict


def _restricted(verdict: Verdict, experiment: Experiment) -> Verdict:
    """The verdict, which says first which part of the matrix it was judged on where overrides left out another part.

    Fewer seeds are no other claim, and are counted in the reasons.
    """
    chosen = [
        f"matrix.{axis}=[{', '.join(map(spell, experiment.axes.get(axis, ())))}]"
        for axis, values in experiment.left_out.items()
        if values and axis != "seed"
    ]
    if not chosen:
        return verdict
    only = f"only: {' '.join(chosen)}"
    detail = "; ".join(filter(None, [only, verdict.detail]))
    return replace(verdict, detail=detail, lines=(only, *verdict.lines))
