"""Run the claim checks of an experiment file. A verdict is one of six words, with its numbers and runs.

shown              by the spread between runs, in every row; of a claim of a paper: reproduced
shown in k of n    in some of the rows
contradicted       the opposite is shown in some row
not of this size   no row is shown, and in some row the size that the claim assumes is excluded
open               there are enough runs for an interval, and it decides nothing
not enough data    fewer than five seeds, or runs that are missing
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment
from plat.store.mlflow.frames import Frames
from plat_analysis.artifact import p_value
from plat_analysis.claims.record import ErrorControl, RowRecord, scale_in_words
from plat_analysis.data.results import spell
from plat_analysis.plugins import builders
from plat_analysis.plugins.builders import Failure
from plat_analysis.plugins.command_line import Part, narrowing, parts
from plat_analysis.plugins.entry_checking import OF_A_CLAIM, check_claim_entries, place, why_left_out
from plat_analysis.plugins.expectations import OLDER, STATUSES, expected_statuses
from plat_analysis.shown_text import printable


@dataclass(frozen=True)
class Planned:
    """Hold where a claim stands that is judged at looks (`decide`).

    needs  ids of the runs that its next look lacks, in the order of the blocks; () when every row has ended
    look   pairs at that look
    rows   number of rows
    open   number of rows that need more pairs
    asked  ids of all runs that it has asked for by now, `needs` included
    unit   of its measures: ` points` for shares, "" for others
    failed  how many of `needs` have failed
    """

    needs: tuple[str, ...]
    look: int
    rows: int
    open: int
    asked: tuple[str, ...] = field(default=(), repr=False)
    unit: str = ""
    failed: int = 0


@dataclass(frozen=True)
class Verdict:
    """Hold the verdict on one claim.

    status    one of `STATUSES`, or a word of plat 0.5 (`OLDER`) for one more version; ValueError otherwise
    value     the number that decided, or numbers by name; `bounds` are their intervals
    id, says  from the experiment file; the engine fills them in
    lines     the reasons of `detail` one by one, where a check gives them
    p         p-value of the finding, corrected over its rows; None where there is none
    deciding  the reason that decided (default: the first line)
    planned   where it stands if it is judged at looks, else None
    held      how many of how many rows decided it
    of_paper  True if the claim is one of a paper; the engine fills it in
    expected  the statuses that the file accepts (`expect`), () if it has no `expect`; the engine fills it in
    part      `only: matrix.task=[sokoban]` if overrides chose a part of the matrix, else ""; the engine fills it in
    rows      the numbers of each row; () where a check of a plug-in gives none
    control   how the error is held; None where a check of a plug-in does not say it
    entry     the claim as the file has it; the engine fills it in
    scale     what its runs are, in words; the engine fills it in
    """

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
    part: str = field(default="", repr=False)
    planned: Planned | None = field(default=None, repr=False)
    held: tuple[int, int] = (0, 0)
    of_paper: bool = field(default=False, repr=False)
    expected: tuple[str, ...] = field(default=(), repr=False)
    rows: tuple[RowRecord, ...] = field(default=(), repr=False)
    control: ErrorControl | None = field(default=None, repr=False)
    entry: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    scale: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", OLDER.get(self.status, self.status))
        if self.status not in STATUSES:
            raise ValueError(f"unknown verdict {self.status!r}; one of {', '.join(STATUSES)}")
        for name in ("detail", "id", "says"):
            object.__setattr__(self, name, printable(getattr(self, name)))
        lines = self.lines or ((self.detail,) if self.detail else ())
        object.__setattr__(self, "lines", tuple(map(printable, lines)))
        object.__setattr__(self, "deciding", printable(self.deciding) or next(iter(self.lines), ""))

    @property
    def word(self) -> str:
        """Return the status in print: `shown in 3 of 9`, `not of this size`; `reproduced` for a claim of a paper."""
        rows, of = self.held
        is_counted = self.status in ("shown_in_part", "contradicted", "not_of_this_size") and 0 < rows < of
        return f"{self.kind} in {rows} of {of}" if is_counted else self.kind

    @property
    def as_expected(self) -> bool | None:
        """Return True if the verdict is one that the file expects; None if it expects nothing."""
        return self.status in self.expected if self.expected else None

    @property
    def kind(self) -> str:
        """Return the word without the number of rows."""
        shown = "reproduced" if self.of_paper else "shown"
        return shown if self.status in ("shown", "shown_in_part") else self.status.replace("_", " ")

    @property
    def reason(self) -> str:
        """Return what decided, with its p-value if it has one: `GRPO +2.5 [+1.4, +3.6], p .001 over 9 rows; open: PPO`.

        If overrides chose a part of the matrix, the text begins with `part`.
        """
        found = re.sub(r" in 1 of 1(?!\d)", "", self.found)  # `in 1 of 10 runs` stays
        return "; ".join(filter(None, [self.part * self.is_chosen, found]))

    @property
    def found(self) -> str:
        """Return what decided, and behind its first part the p-value of that where there are several rows.

        It is the largest one if all rows are shown (each by its own test), else that of Holm's procedure over the rows.
        """
        rows = self.held[1]
        if self.p is None or rows == 1 or (isinstance(self.value, Mapping) and len(self.value) == 1):
            return self.deciding
        first, semicolon, rest = self.deciding.partition("; ")
        largest, over = ("largest ", "") if self.status == "shown" else ("", f" over {rows} rows" if rows else "")
        return f"{first}, {largest}p {p_value(self.p)}{over}{semicolon}{rest}"

    @property
    def is_chosen(self) -> bool:
        """Return True if overrides chose a part of the matrix; a claim at each value of an added axis says it by id."""
        return "matrix." in self.part

    @property
    def sentence(self) -> str:
        """Return what is claimed, with the value of an added axis at which it was judged: `A helps (lr = 0.1)`."""
        part = "" if self.is_chosen else self.part.removeprefix("only: ")
        return f"{(self.says or self.id).rstrip('.')} ({part})" if part else self.says or self.id

    @property
    def needed(self) -> str:
        """Return how many seeds would decide an open claim; "" if that is not known."""
        found = re.search(r"^.*(would|needed to) decide", "\n".join(self.lines), re.MULTILINE)
        return found[0] if found else ""

    @property
    def brief(self) -> list[str]:
        """Return `lines` for the terminal: the kind of an only row stands before its finding.

        Without what is usual (`over seeds`) and without the part of the matrix that the id says (`only: lr = 0.1`). Of
        more than MANY rows of a kind, the first FEW are there.
        """
        said = {"over seeds"} if self.is_chosen else {"over seeds", self.part}
        text = "\n".join(line for line in self.lines if line not in said)
        return shortened(re.sub(r" in 1 of 1(\n|$)", lambda found: ": " if found[1] else "", text).splitlines())

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as `plat claims --json` prints it (`Verdict` in `plat.cli.schemas.results`)."""
        return {
            "id": self.id,
            "verdict": self.status,
            "word": self.word,
            "says": self.says,
            "check": str(self.entry.get("check", "")),
            "options": {key: value for key, value in self.entry.items() if key not in OF_A_CLAIM},
            "scale": self.scale,
            "reason": self.reason,
            "value": self.value,
            "p": self.p,
            "error_control": self.control.as_dict() if self.control else None,
            "rows": [row.as_dict() for row in self.rows],
            "detail": self.detail,
            "run_ids": list(self.run_ids),
            "expected": list(self.expected) or None,
            "as_expected": self.as_expected,
        }


HEADING = re.compile(r" in (\d+) of \d+$")  # of rows of one kind
MANY, FEW = 20, 10  # rows of a kind


def shortened(lines: Sequence[str]) -> list[str]:
    """Return the lines of a verdict with at most MANY rows of a kind."""
    kept: list[str] = []
    skip = 0
    for at, line in enumerate(lines):
        if skip:
            skip -= 1
            continue
        kept.append(line)
        found = HEADING.search(line)
        count = int(found[1]) if found else 0
        if count > MANY:
            kept += [*lines[at + 1 : at + 1 + FEW], f"and {count - FEW} more, in claims.json"]
            skip = count
    return kept


def check_claims(frames: Frames, experiment: Experiment) -> list[Verdict]:
    """Return one verdict per claim of the file, in its order.

    Raises SpecError if a claim cannot be checked, and PluginError if its check cannot be loaded.
    """
    check_claim_entries(experiment)
    verdicts, failures = run_checks(frames, experiment)
    if failures:
        raise SpecError(failures[0].what, where=failures[0].where, fix=failures[0].fix or None)
    return verdicts


def judge_planned(frames: Frames | None, experiment: Experiment) -> list[Verdict]:
    """Return the verdicts on the claims that are judged at the looks of `decide`; without frames, before any run.

    Raises SpecError if one of them cannot be judged, and PluginError if its check cannot be loaded.
    """
    verdicts = []
    for index, claim in enumerate(experiment.claims):
        where = place(experiment, "claims", index)
        if not getattr(builders.find("plat.claims", str(claim["check"]), where), "by_looks", False):
            continue
        for part in parts(experiment, claim):
            if not why_left_out(part.experiment, "claims", index):
                verdicts.append(_run_check(frames, part.experiment, claim, where))
    return verdicts


def run_checks(frames: Frames, experiment: Experiment) -> tuple[list[Verdict], list[Failure]]:
    """Return the verdicts on the claims, in the file's order, and a Failure for each claim whose check raised an error.

    The `run_ids` of a verdict are those of its runs that have an outcome in the store; a failed run has one, too.
    """
    verdicts, failures = [], []
    ended = {run for run, outcome in zip(frames.runs["run_id"], frames.runs["outcome"], strict=True) if outcome}
    for index, claim in enumerate(experiment.claims):
        where = place(experiment, "claims", index)
        for part in parts(experiment, claim):
            name = f"{claim.get('id', claim.get('check'))}{part.ending}"
            try:
                why = why_left_out(part.experiment, "claims", index) if narrowing(experiment) else ""
                undone = Verdict("not_enough_data", detail=why)
                verdict = undone if why else _run_check(frames, part.experiment, claim, where)
            except Exception as error:
                failures.append(Failure.of(f"the claim {name!r}", error, where))
                continue
            ids = tuple(run for run in verdict.run_ids if run in ended)
            of_paper = experiment.paper is not None and not claim.get("ours")
            verdict = replace(verdict, id=name, says=str(claim.get("says", "")), run_ids=ids, of_paper=of_paper)
            scale = scale_in_words(part.experiment, ids)
            verdict = replace(verdict, expected=expected_statuses(claim, where), entry=claim, scale=scale)
            verdicts.append(_restricted(verdict, part))
    return verdicts, failures


def _run_check(frames: Frames | None, experiment: Experiment, claim: Mapping[str, Any], where: str) -> Verdict:
    check = builders.find("plat.claims", str(claim["check"]), where)
    if experiment.decide is not None and not getattr(check, "by_looks", False):
        why = f"the check {claim['check']} cannot be judged while seeds are added: sweep without decide"
        return Verdict("not_enough_data", detail=why)
    arguments = {key: value for key, value in claim.items() if key not in OF_A_CLAIM}
    verdict = check(frames, experiment, **arguments)
    if not isinstance(verdict, Verdict):
        raise SpecError(
            f"the check {claim['check']!r} returned a {type(verdict).__name__}",
            where=where,
            fix="return a plat_analysis.claims.engine.Verdict",
        )
    return verdict


def _restricted(verdict: Verdict, part: Part) -> Verdict:
    """Prepend the part of the matrix that was judged, where overrides left out another part or added an axis.

    Fewer seeds are the same claim; the reasons count them.
    """
    experiment = part.experiment
    chosen = [
        f"matrix.{axis}=[{', '.join(map(spell, experiment.axes.get(axis, ())))}]"
        for axis, values in experiment.left_out.items()
        if values and axis != "seed"
    ]
    chosen += [part.words] if part.words else []
    if not chosen:
        return verdict
    only = f"only: {' '.join(chosen)}"
    detail = "; ".join(filter(None, [only, verdict.detail]))
    return replace(verdict, detail=detail, lines=(only, *verdict.lines), part=printable(only))
