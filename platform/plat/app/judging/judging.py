"""Judge two versions of a command: execute pairs of runs until one is shown to be better, or is not.

The runs, their looks and their error are those of `decide` (`plat.app.deciding`). What is special is asked of the first
pairs: do both versions run, is the metric there, and does the seed change anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.app.deciding import run_looks, standing
from plat.app.importing import load_results
from plat.app.judging.judgement_file import NEW, OLD, Design, make_question
from plat.app.judging.versions import Version
from plat.app.sweeping import Sweep, run_missing
from plat.errors import SpecError
from plat.spec.expansion.decide import ERROR
from plat.store.mlflow.plan_record import write_judged
from plat.units import counted, duration
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.progress import Progress
    from plat.dispatch.sweep_ends import SweepReport
    from plat.spec.expansion.experiment import Experiment, Run

FIRST = 4  # runs: two pairs, which show whether the seed changes anything
CODES = {"better": 0, "worse": 10, "no difference of that size": 11, "undecided": 12, "fails": 13}
WORDS = {
    "shown": "better",
    "contradicted": "worse",
    "not_of_this_size": "no difference of that size",
    "open": "undecided",
    "not_enough_data": "undecided",
}


class BudgetSpent(Exception):
    """The time of a judgement is over."""


class Fails(Exception):
    """The new version fails where the old one does not; the message says how."""


@dataclass(frozen=True)
class Judgement:
    """What was found.

    verdict      one of `CODES`
    means        version -> its mean over the pairs that were used
    difference   of the new version to the old, in the unit of the metric; `low` and `high` are its interval over all
                 looks, wrong on each side with the `error`
    pairs        pairs that were used
    error        of a false *better*, fixed before the first run
    why          what stopped it, in words
    """

    verdict: str
    metric: str
    means: dict[str, float]
    difference: float | None
    low: float | None
    high: float | None
    pairs: int
    seconds: float
    error: float
    why: str
    file: str

    @property
    def code(self) -> int:
        return CODES[self.verdict]

    @property
    def line(self) -> str:
        """Return the judgement in one line."""
        took = f'{counted(self.pairs, "pair")}, {duration(self.seconds)}; a false "better": {100 * self.error:.2g} %'
        if self.difference is None or self.low is None or self.high is None:
            return f"{self.verdict}: {self.why}; {took}"
        sizes = [self.difference, self.low, self.high]
        digits = _digits((self.high - self.low) / 2 or self.difference)
        change, low, high = (f"{size:+.{digits}f}".replace("-", "−") for size in sizes)
        levels = f"{self.metric} {self.means[OLD]:.{digits}f} → {self.means[NEW]:.{digits}f}"
        why = f"; {self.why}" if self.why else ""
        return f"{self.verdict}: {levels}, {change} [{low}, {high}], {took}{why}"

    def to_json(self) -> dict[str, Any]:
        """Return the judgement for a program."""
        return {
            "verdict": self.verdict,
            "exit_code": self.code,
            "metric": self.metric,
            **{name: self.means.get(name) for name in (OLD, NEW)},
            "difference": self.difference,
            "interval": None if self.low is None else [self.low, self.high],
            "pairs": self.pairs,
            "seconds": round(self.seconds, 1),
            "error": self.error,
            "why": self.why,
            "file": self.file,
        }


def _digits(size: float) -> int:
    """Return the decimals with which a size has two digits that count, at most 8."""
    from math import floor, log10

    return max(0, min(8, 1 - floor(log10(abs(size))))) if size else 2


def judge(
    asked: Sweep,
    design: Design,
    old: Version,
    new: Version,
    budget: float | None = None,
    study: str = "",
    progress: Callable[[], Progress] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Judgement:
    """Execute pairs until the question is decided, and return the judgement.

    asked     the home, its store, and where runs are executed
    budget    seconds after which no further run starts; None: no limit
    study     the study to which the judgement belongs; "": none
    progress  makes what shows the progress of runs
    say       shows a line after each look

    Raises SpecError before any run if the two versions are the same, or a run cannot work; after the first pairs if the
    metric is missing, or the seed changes nothing. Raises KeyboardInterrupt after a signal.
    """
    began = time.monotonic()
    experiment = make_question(asked, design.checked(), old, new, study)
    path = experiment.path
    seen: set[str] = set()

    def run(some: list[Run]) -> SweepReport:
        total: SweepReport | None = None
        by = 2 * (asked.jobs or os.cpu_count() or 1) if budget else len(some)
        for batch in _batches(some, by, not seen) or [[]]:
            if budget and time.monotonic() - began > budget:
                raise BudgetSpent
            made = progress() if progress else None
            report = run_missing(asked, batch, [experiment], fail_fast=True, progress=made)
            if total is not None:
                report.ends = {**total.ends, **report.ends}
            total = report
            if report.interrupted:
                raise KeyboardInterrupt
            _check_failures(report, experiment)
            if batch and not seen:
                _check_first(asked, experiment, design)
            seen.update(one.id for one in batch)
        assert total is not None
        return total

    why = ""
    try:
        run_looks(asked, [experiment], run, say)
    except BudgetSpent:
        why = f"the budget of {duration(budget or 0)} is spent"
    except Fails as failure:
        took = time.monotonic() - began
        error = experiment.decide.error if experiment.decide else ERROR
        return Judgement("fails", design.metric, {}, None, None, None, 0, took, error, str(failure), str(path))
    found = _judged(asked, experiment, design, time.monotonic() - began, why, str(path))
    if study and not why:
        write_judged(asked.home, asked.uri, experiment.name, found.verdict)
    return found


def _batches(some: Sequence[Run], by: int, is_first: bool) -> list[list[Run]]:
    """Return runs in batches of this size, the first pairs alone."""
    first, rest = (list(some[:FIRST]), list(some[FIRST:])) if is_first else ([], list(some))
    return [batch for batch in (first, *(rest[at : at + by] for at in range(0, len(rest), max(by, 1)))) if batch]


def _check_failures(report: SweepReport, experiment: Experiment) -> None:
    """Raise Fails if runs of the new version failed and none of the old one did; SpecError if others failed."""
    failed = {
        version: [end for end in report.ends.values() if end.run.axes["version"] == version and _has_failed(end)]
        for version in (OLD, NEW)
    }
    if not (failed[OLD] or failed[NEW]):
        return
    first = (failed[NEW] or failed[OLD])[0]
    said = f"run {first.run.name} {first.outcome or first.state}: {first.reason}".rstrip(": ")
    if failed[NEW] and not failed[OLD]:
        raise Fails(f"the old version runs, the new one does not: {said}")
    raise RunsFailed(said)


def _has_failed(end: Any) -> bool:
    return end.state in (RunStatus.FAILED, RunStatus.UNKNOWN)


class RunsFailed(Exception):
    """Runs of the old version failed, so that nothing can be judged."""


def _check_first(asked: Sweep, experiment: Experiment, design: Design) -> None:
    """Raise SpecError if the first pairs lack the metric, or if the seed changes nothing in either version."""
    frames = load_results(asked.home, asked.uri, experiment)
    version = {run.id: run.axes["version"] for run in experiment.runs}
    names = {side: set[str]() for side in (OLD, NEW)}
    curves: dict[str, list[list[float]]] = {OLD: [], NEW: []}
    for run_id, own in frames.metrics.groupby("run_id"):
        side = version[str(run_id)]
        names[side] |= set(own["key"])
        curves[side].append(own.loc[own["key"] == design.metric, "value"].tolist())
    lacking = [side for side in (OLD, NEW) if names[side] and design.metric not in names[side]]
    if lacking:
        there = sorted(names[OLD] | names[NEW])
        where = "neither version" if len(lacking) == 2 else f"the {lacking[0]} version does not"
        what = f"{where} prints {design.metric}" if len(lacking) == 2 else f"{where} print {design.metric}"
        raise SpecError(
            what, where="--metric", fix=f"name one of: {', '.join(there[:20])}; or say what reads it: --reads"
        )
    if all(len(found) > 1 and all(one == found[0] for one in found) for found in curves.values()):
        what = f"the seed changes nothing: {design.metric} is equal for seeds 0 and 1 in both versions"
        fix = "let the script use it: `{seed}` in the command, an option --seed, or the variable PLAT_SEED"
        raise SpecError(what, where="plat judge", fix=fix)


def _judged(asked: Sweep, experiment: Experiment, design: Design, seconds: float, why: str, path: str) -> Judgement:
    """Return the judgement by what the store has."""
    stand = standing(asked.home, asked.uri, experiment)
    (verdict,) = stand.verdicts
    used = set(verdict.planned.asked) if verdict.planned else set()
    frames = load_results(asked.home, asked.uri, experiment)
    own = frames.metrics[(frames.metrics["key"] == design.metric) & frames.metrics["run_id"].isin(used)]
    last = own.groupby("run_id")["value"].last()
    version = {run.id: run.axes["version"] for run in experiment.runs}
    means = {side: float(last[[version[run] == side for run in last.index]].mean()) for side in (OLD, NEW)}
    sign = -1.0 if design.lower else 1.0
    values = list(verdict.value.values()) if isinstance(verdict.value, dict) else []
    bounds = list(verdict.bounds.values())
    difference = sign * values[0] if values else None
    low, high = sorted(sign * bound for bound in bounds[0]) if bounds else (None, None)
    pairs = sum(version[run] == NEW for run in last.index)
    plan = experiment.decide
    assert plan is not None
    word = WORDS[verdict.status]
    if word == "undecided" and not why:
        size = f" by {design.margin:g}" if design.margin else ""
        stopped = f"it is probably not better{size}" if pairs < plan.looks[-1] else "these are the most pairs"
        why = stopped if verdict.status == "open" else verdict.deciding
    return Judgement(word, design.metric, means, difference, low, high, pairs, seconds, plan.error, why, path)
