"""Judge two versions of a command: execute pairs of runs until one is shown to be better, or is not.

The runs, their looks and their error are those of `decide` (`plat.app.deciding`). What is special is asked of the first
pairs: do both versions run, is the metric there, and does the seed change anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.app.deciding import run_looks, standing
from plat.app.importing import load_results
from plat.app.judging.judgement_file import NEW, OLD, Design, make_question
from plat.app.judging.versions import Version
from plat.app.sweeping import Sweep, run_missing
from plat.errors import SpecError
from plat.runner.failures import FINAL
from plat.spec.expansion.decide import LEAST
from plat.store.mlflow.plan_record import write_judged
from plat.trainer.script.import_hook import READS
from plat.units import counted, duration
from plat.words.outcomes import NO_METRIC
from plat.words.states import RunStatus

if TYPE_CHECKING:
    import pandas as pd

    from plat.dispatch.progress import Progress
    from plat.dispatch.sweep_ends import RunEnd, SweepReport
    from plat.spec.expansion.experiment import Experiment, Run

FIRST = 4  # runs: two pairs, which show whether the seed changes anything
ALONE = 4  # equal runs that show the same where each has a single value, which may be equal by chance
SHOWN = 20  # names of metrics in a message
MOST_DIGITS = 8  # decimals of a number in the line
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


class RunsFailed(Exception):
    """Runs failed or are missing, so that nothing can be judged; the message names one, `run_id` is its id, or ""."""

    def __init__(self, message: str, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


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
    margin       the smallest difference that is an improvement
    was_done     all runs had been executed by earlier calls; else `seconds` is the time of this one
    outside      files outside of both versions and the home that their Python processes have read
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
    outside: tuple[str, ...] = ()
    was_done: bool = False
    margin: float = 0.0

    @property
    def code(self) -> int:
        return CODES[self.verdict]

    @property
    def line(self) -> str:
        """Return the judgement in one line."""
        time = "done before" if self.was_done else duration(self.seconds)
        took = f"{counted(self.pairs, 'pair')}, {time}"
        if self.verdict == "better":
            took += f'; a false "better": {100 * self.error:.2g} %'
        if self.difference is None or self.low is None or self.high is None:
            return f"{self.verdict}: {self.why}; {took}"
        sizes = [size + 0.0 for size in (self.difference, self.low, self.high)]  # −0.0 is 0
        verdict = self.verdict
        if CODES[verdict] == CODES["no difference of that size"]:
            is_equal = self.low == self.high
            verdict = "no difference" if is_equal else f"not better by {self.margin:g}" if self.margin else "not better"
        old, new = self.means[OLD], self.means[NEW]
        digits = _digits((self.high - self.low) / 2 or self.difference)
        rounded = [round(number, digits) for number in (new, old, self.difference)]
        if abs(rounded[0] - rounded[1] - rounded[2]) > 0.5 * 10**-digits:  # with one more, the three agree better
            digits = min(MOST_DIGITS, digits + 1)
        change, low, high = (f"{size:{'+' if size else ''}.{digits}f}".replace("-", "−") for size in sizes)
        levels = f"{self.metric} {_level(old, digits)} → {_level(new, digits)}"
        why = f"; {self.why}" if self.why else ""
        return f"{verdict}: {levels}, {change} [{low}, {high}], {took}{why}"

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
            "reads_outside": list(self.outside),
        }


def _digits(size: float) -> int:
    """Return the decimals with which a size has two digits that count, at most 8."""
    from math import floor, log10

    return max(0, min(MOST_DIGITS, 1 - floor(log10(abs(size))))) if size else 2


def _level(mean: float, digits: int) -> str:
    """Return a mean with these decimals, or with two digits that count, if that is more."""
    text = f"{mean:.{digits}f}"
    return text if abs(mean) >= 10 ** (1 - digits) or mean == 0 else f"{mean:.2g}"


def judge(
    asked: Sweep,
    design: Design,
    old: Version,
    new: Version,
    budget: float | None = None,
    study: str = "",
    progress: Callable[[], Progress] | None = None,
) -> Judgement:
    """Execute pairs until the question is decided, and return the judgement.

    asked     the home, its store, and where runs are executed
    budget    seconds after which no further run starts; None: no limit
    study     the study to which the judgement belongs; "": none
    progress  makes what shows the progress of runs

    Raises SpecError before any run if the two versions are the same, or a run cannot work; after the first pairs if the
    metric is missing, or the seed changes nothing. Raises KeyboardInterrupt after a signal.
    """
    began = time.monotonic()
    try:
        experiment = make_question(asked, design.checked(), old, new, study)
    except SpecError as wrong:
        if str(asked.home.judgements) in str(wrong.where):  # of a file that nobody has written
            wrong.where = "the command"
        raise
    path, error = experiment.path, experiment.decide.error  # type: ignore[union-attr]

    checked: list[bool] = []
    executed: list[int] = []

    def run(some: list[Run]) -> SweepReport:
        total: SweepReport | None = None
        by = 2 * (asked.jobs or os.cpu_count() or 1) if budget else len(some)
        for batch in _batches(some, by, not checked) or [[]]:
            if batch and budget and time.monotonic() - began > budget:
                raise BudgetSpent
            executed.append(len(batch))
            made = progress() if progress else None
            report = run_missing(asked, batch, [experiment], retry=True, progress=made)
            if total is not None:
                report.ends = {**total.ends, **report.ends}
            total = report
            if report.interrupted:
                raise KeyboardInterrupt
            _check_failures(report)
            _check_values(asked, experiment, design)
            checked.append(True)
        assert total is not None
        return total

    reads, why = path.with_suffix(".reads"), ""
    os.environ[READS] = str(reads.absolute())  # the runs inherit it
    try:
        _check_values(asked, experiment, design)  # of runs that an earlier call has made
        run_looks(asked, [experiment], run, say=lambda line: None)
    except BudgetSpent:
        why = f"the budget of {duration(budget or 0)} is spent"
    except Fails as failure:
        took = time.monotonic() - began
        return Judgement("fails", design.metric, {}, None, None, None, 0, took, error, str(failure), str(path))
    finally:
        del os.environ[READS]
    found, is_decided = _judged(asked, experiment, design, time.monotonic() - began, why)
    if study and is_decided:
        write_judged(asked.home, asked.uri, experiment.name, found.verdict)
    outside = _outside(reads, [old.whole, new.whole, asked.home.root])
    return replace(found, was_done=not any(executed), outside=outside, margin=design.margin or 0.0)


def _outside(reads: Path, inside: Sequence[Path]) -> tuple[str, ...]:
    """Return the files in the notes of all runs that are in none of these folders, sorted."""
    try:
        lines = reads.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ()
    folders = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in inside)
    return tuple(sorted(path for path in {*lines} - {""} if not path.startswith(folders)))


def _batches(some: Sequence[Run], by: int, is_first: bool) -> list[list[Run]]:
    """Return runs in batches of this size; the first pairs, and as many after them, which show what is wrong, alone."""
    alone, rest = (2 * FIRST, list(some[2 * FIRST :])) if is_first else (0, list(some))
    first = [list(some[at : at + FIRST]) for at in range(0, alone, FIRST)]
    return [batch for batch in (*first, *(rest[at : at + by] for at in range(0, len(rest), max(by, 1)))) if batch]


def _check_failures(report: SweepReport) -> None:
    """Raise Fails if a run of the new version fails where that of the old one is done; RunsFailed for other failures.

    A run that failed for want of memory, disk or a machine says nothing about a version.
    """
    done = {
        end.run.axes["seed"] for end in report.ends.values() if end.state == RunStatus.DONE and _version(end) == OLD
    }
    failed = [end for end in report.ends.values() if end.state in (RunStatus.FAILED, RunStatus.UNKNOWN)]
    for end in failed:
        said = f"run {end.run.name} {end.outcome or end.state}: {end.reason}".rstrip(": ")
        is_mistake = end.outcome in FINAL and not end.reason.startswith(NO_METRIC)
        if _version(end) == NEW and is_mistake and end.run.axes["seed"] in done:
            raise Fails(f"the old version runs, the new one does not: {said}")
    if failed:
        end = failed[0]
        raise RunsFailed(f"run {end.run.name} {end.outcome or end.state}: {end.reason}".rstrip(": "), end.run.id)


def _version(end: RunEnd) -> object:
    return end.run.axes["version"]


def _check_values(asked: Sweep, experiment: Experiment, design: Design) -> None:
    """Raise SpecError if finished runs lack the metric, or if the seed changes nothing in one of the versions.

    Raises Fails if the metric ends as no finite number in the new version alone, RunsFailed if it does in the old one.
    """
    frames = load_results(asked.home, asked.uri, experiment)
    version = {run.id: str(run.axes["version"]) for run in experiment.runs}
    curves: dict[str, list[pd.DataFrame]] = {OLD: [], NEW: []}
    for run_id, own in frames.metrics.groupby("run_id"):
        curves[version[str(run_id)]].append(own[["key", "step", "value"]].reset_index(drop=True))
    names = {side: {str(key) for own in found for key in own["key"]} for side, found in curves.items()}
    lacking = [side for side in (OLD, NEW) if names[side] and design.metric not in names[side]]
    if lacking:
        there = ", ".join(sorted(names[OLD] | names[NEW])[:SHOWN])
        who = "neither version prints" if len(lacking) == 2 else f"the {lacking[0]} version does not print"
        notes = frames.runs.get("tag.plat.summary.notes")
        said = next((f" ({note})" for note in notes if isinstance(note, str)), "") if notes is not None else ""
        fix = f"name one of: {there}; or say what reads it: --reads"
        raise SpecError(f"{who} {design.metric}{said}", where="--metric", fix=fix)
    ends = {
        side: [own[own["key"] == design.metric]["value"].iloc[-1:] for own in found] for side, found in curves.items()
    }
    diverged = {
        side: [end.iloc[0] for end in found if len(end) and not isfinite(end.iloc[0])] for side, found in ends.items()
    }
    for side in (OLD, NEW):
        if bad := diverged[side]:
            share = f"at {len(bad)} of {counted(len(ends[side]), 'seed')}"
            said = f"{design.metric} ends as {bad[0]} in the {side} version, {share}"
            raise RunsFailed(said) if side == OLD else Fails(f"{said}, and as a number in the old one")
    for side, found in curves.items():
        metric = [own[own["key"] == design.metric].reset_index(drop=True) for own in found]
        least = 2 if found and len(found[0]) > 1 else ALONE
        are_same = len(found) >= least and all(own.equals(found[0]) for own in found)
        if are_same or (len(found) >= LEAST and all(own.equals(metric[0]) for own in metric)):
            what = f"the seed changes nothing: {design.metric} of the {side} version is equal for {len(found)} seeds"
            fix = "let the script use it: `{seed}` in the command, an option --seed, or the variable PLAT_SEED"
            raise SpecError(what, where="plat judge", fix=fix)


def _judged(asked: Sweep, experiment: Experiment, design: Design, seconds: float, why: str) -> tuple[Judgement, bool]:
    """Return the judgement by what the store has, and True if it is decided or has used the most pairs.

    Raises RunsFailed if it needs runs that are not done, and the budget is no reason.
    """
    (verdict,) = standing(asked.home, asked.uri, experiment).verdicts
    planned, plan = verdict.planned, experiment.decide
    assert planned is not None and plan is not None
    if planned.open and not why:
        raise RunsFailed(f"runs are not done, or are executed by another command ({verdict.deciding})")
    looks = (0, *plan.looks)
    pairs = looks[looks.index(planned.look) - 1] if planned.open else len(planned.asked) // len((OLD, NEW))
    seeds = experiment.axes["seed"][:pairs]
    version = {run.id: str(run.axes["version"]) for run in experiment.runs}
    counted_runs = {run.id for run in experiment.runs if run.axes["seed"] in seeds}
    metrics = load_results(asked.home, asked.uri, experiment).metrics
    whole = metrics[metrics["key"] == design.metric].groupby("run_id")["value"].last()
    last = whole[whole.index.isin(counted_runs)]
    means = {side: _mean([last[run] for run in last.index if version.get(str(run)) == side]) for side in (OLD, NEW)}
    sign = -1.0 if design.lower else 1.0
    values = list(verdict.value.values()) if isinstance(verdict.value, dict) else []
    bounds = list(verdict.bounds.values())
    difference = sign * values[0] if values else None
    low, high = sorted(sign * bound for bound in bounds[0]) if bounds else (None, None)
    word = WORDS[verdict.status]
    done = min(sum(version.get(str(run)) == side for run in whole.index) for side in (OLD, NEW))
    if why and done > pairs and planned.open:
        why = f"{why}; {done} pairs are done, and the next look is at {looks[looks.index(pairs) + 1]}"
    if word == "undecided" and not why:
        size = f" by {design.margin:g}" if design.margin else ""
        why = f"it is probably not better{size}" if pairs < plan.looks[-1] else "these are the most pairs"
    sizes = (difference, low, high)
    made = Judgement(word, design.metric, means, *sizes, pairs, seconds, plan.error, why, str(experiment.path))
    return made, not planned.open


def _mean(values: Sequence[float]) -> float:
    return float(sum(values) / len(values)) if values else float("nan")
