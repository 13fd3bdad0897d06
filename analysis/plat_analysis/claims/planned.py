"""Judge the rows of a claim at the looks of `decide`, and name the runs that its next look needs.

`statistics.sequential` decides from the values alone, so every command that reads the same runs comes to the same
decisions. A row that has ended asks for no further runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plat.errors import SpecError
from plat.spec.expansion.decide import Decide
from plat.spec.expansion.experiment import Experiment
from plat.units import counted
from plat_analysis.artifact import number
from plat_analysis.claims.decided import SHORT, RowEvidence, about_rows, brief, gain, remarked
from plat_analysis.claims.engine import Planned, Verdict
from plat_analysis.claims.record import ErrorControl, RowRecord
from plat_analysis.claims.row_words import skew
from plat_analysis.data.results import Results
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds
from plat_analysis.statistics.sequential import Decision, Plan, Row, decide

POINTS = " points"
UNLOGGED = "no run logged"  # `quantities.metric`: the name of the metric may be wrong
SMALLEST_POINTS = 0.1  # a smaller margin of a measure in percent was meant as a share
WAITING = ("not run", "unfinished", "deleted in MLflow")  # `RunView.missing` of runs that have not failed
ORDER = ("shown", "contradicted", "not of this size", "open")


@dataclass(frozen=True)
class PlannedRow:
    """Hold a row that is judged at looks.

    estimate  its values by replicate, and the runs that they ask for
    smallest  the smallest effect of interest, where `decide` has no margin; 0 if the claim has none
    sides     what is claimed of the mean (see `sequential.Row`)
    digits    shown behind the decimal point
    unit      written behind a size: ` points` for a measure in percent
    signed    shown with a sign
    """

    estimate: Estimate
    smallest: float = 0.0
    sides: tuple[tuple[int, float], ...] = ((1, 0.0),)
    digits: int = 1
    unit: str = POINTS
    signed: bool = True

    @classmethod
    def of(cls, evidence: RowEvidence) -> PlannedRow:
        """Return a row whose change is claimed to be above zero."""
        return cls(evidence.estimate, evidence.size, digits=evidence.digits, unit=evidence.unit)


def judge_by_looks(results: Results, rows: Mapping[str, PlannedRow], builds: Builds = "fixed") -> Verdict:
    """Return the verdict on these rows by the `decide` of the file, with `Verdict.planned`.

    Raises SpecError where a row lacks a block of build and seed in the matrix, the margin is in another unit, or the
    claim is about builds like several ones (`builds: random`): pairs of one build are then not independent.
    """
    plan = results.experiment.decide
    assert plan is not None
    several = len({replicate.build for row in rows.values() for replicate in row.estimate.asks}) > 1
    if builds == "random" and several:
        what = "builds: random: pairs of one build are not independent of each other, so they cannot be judged at looks"
        raise SpecError(
            what, where=plan.where, fix="write `builds: fixed` in the claim, which is then about these builds"
        )
    for name, row in rows.items():
        _check(name, row, plan)
    blocks = {name: _in_order(results, row.estimate) for name, row in rows.items()}
    why_not = {run.id: run.missing for run in results.runs}
    gaps = {name: _gap(row.estimate, blocks[name], why_not) for name, row in rows.items()}
    decisions = decide(
        {
            name: Row(_without_gap(row.estimate, blocks[name]), _margin(row, plan), row.sides, bool(gaps[name]))
            for name, row in rows.items()
        },
        Plan(plan.looks, plan.error),
    )
    going = {name: blocks[name] for name, decision in decisions.items() if not decision.ended}
    look = next(
        (n for n in plan.looks if n > max((decisions[name].pairs for name in going), default=0)), plan.looks[-1]
    )
    lacking = {name: [r for r in order[:look] if r not in rows[name].estimate.values] for name, order in going.items()}
    asked = (run for name, order in lacking.items() for r in order for run in rows[name].estimate.asks[r])
    needs = tuple(dict.fromkeys(run for run in asked if why_not[run]))
    until = {name: look if name in going else decision.pairs for name, decision in decisions.items()}
    used = [run for name, row in rows.items() for r in blocks[name][: until[name]] for run in row.estimate.asks[r]]
    without = {name: _lacks(rows[name], gaps[name]) for name, decision in decisions.items() if decision.is_short}
    units = {row.unit for row in rows.values()}
    failed = sum(why_not[run] not in WAITING for run in needs)
    planned = Planned(
        needs,
        look,
        len(rows),
        len(going) + len(without),
        tuple(dict.fromkeys(used)),
        " and ".join(sorted(units)),
        failed,
    )
    verdict = _verdict(rows, decisions, planned, without, plan)
    records = tuple(_record(name, row, decisions[name], blocks[name], plan) for name, row in rows.items())
    return replace(verdict, rows=records, control=ErrorControl("looks", plan.error, len(rows), len(plan.looks)))


def _record(name: str, row: PlannedRow, decision: Decision, order: Sequence[object], plan: Decide) -> RowRecord:
    """Return the numbers of a row at its last look. The interval holds over all looks, so it has the plan's level."""
    ids = dict.fromkeys(run for replicate in order[: decision.pairs] for run in row.estimate.asks[replicate])
    facts: dict[str, Any] = {"wanted": plan.looks[-1], "about": row.estimate.about, "note": row.estimate.note}
    if not decision.pairs:
        return RowRecord(name, SHORT, estimate=Estimate(**facts))
    pairs: dict[str, Any] = {"seeds": decision.pairs, "units": decision.pairs, "run_ids": tuple(ids)}
    estimate = Estimate(decision.mean, decision.low, decision.high, "seeds", **pairs, **facts)
    unit = row.unit.strip() if row.signed or row.unit != POINTS else "percent"
    return RowRecord(name, decision.word, estimate=estimate, unit=unit, level=1 - 2 * plan.error)


def _lacks(row: PlannedRow, gap: str) -> str:
    """Return why a row cannot be judged: no run logged its metric, or a replicate has no value."""
    _, found, why = row.estimate.note.partition(UNLOGGED)
    if found:
        return f"cannot be judged: {found}{re.split(r', seed |; ', why)[0]}"
    return f"has no value at {gap}, although its runs have ended: it cannot be judged"


def _check(name: str, row: PlannedRow, plan: Decide) -> None:
    """Raise SpecError for a row with unequal blocks, or a margin that cannot be in the unit of the measure."""
    blocks = len(row.estimate.asks)
    if blocks != plan.looks[-1]:
        what = f"{name}: the matrix has {counted(blocks, 'block')} of build and seed for it, not {plan.looks[-1]}"
        raise SpecError(what, where=plan.where, fix="give every row the same builds and seeds, on both sides of a pair")
    if plan.margin is not None and row.unit == POINTS and plan.margin < SMALLEST_POINTS:
        what = f"decide: margin: {plan.margin:g}, and {name} is in points, from 0 to 100"
        raise SpecError(what, where=plan.where, fix=f"write margin: {100 * plan.margin:g} for that share")


def _margin(row: PlannedRow, plan: Decide) -> float:
    """Return the margin of a row; a row that is claimed to lie within bounds has none beside them."""
    return row.smallest if plan.margin is None or len(row.sides) > 1 else plan.margin


def _in_order(results: Results, estimate: Estimate) -> list[object]:
    """Return the replicates in the order in which they were planned: seed by seed, the builds of each."""
    seeds = {seed: at for at, seed in enumerate(results.experiment.axes["seed"])}
    return sorted(estimate.asks, key=lambda replicate: seeds[replicate.seed])


def _gap(estimate: Estimate, order: Sequence[object], why_not: Mapping[str, str]) -> str:
    """Return the first replicate whose runs have ended without a value; "" if none of those before it have."""
    first = next((r for r in order if r not in estimate.values), None)
    return "" if first is None or any(why_not[run] for run in estimate.asks[first]) else str(first)


def _without_gap(estimate: Estimate, order: Sequence[object]) -> list[float]:
    """Return the values up to the first replicate that has none: a later one was not planned before it."""
    values = []
    for replicate in order:
        if replicate not in estimate.values:
            break
        values.append(estimate.values[replicate])
    return values


def _verdict(
    rows: Mapping[str, PlannedRow],
    decisions: Mapping[str, Decision],
    planned: Planned,
    without: Mapping[str, str],
    plan: Decide,
) -> Verdict:
    """Return the verdict in words; `without` are rows whose runs ended without a value, with the reason."""
    words = {name: decision.word for name, decision in decisions.items()}
    groups = {
        word: [
            f"{word} in {len(own)} of {len(rows)}",
            *(_line(name, rows[name], decisions[name], plan) for name in own),
        ]
        for word in ORDER
        if (own := [name for name in rows if words[name] == word])
    }
    lines = [line for group in groups.values() for line in group]
    if without:
        name, why = next(iter(without.items()))
        verdict = Verdict("not_enough_data", deciding=f"{name} {why}")
    elif planned.open:
        done = plan.looks.index(planned.look)
        seen = f"open after {counted(done, 'look')}" if done else "not enough data for the first look"
        failed = f" ({planned.failed} failed)" if planned.failed else ""
        next_look = f"{counted(len(planned.needs), 'run')} to the next, at {planned.look} pairs{failed}"
        verdict = Verdict("open" if done else "not_enough_data", deciding=f"{seen}; {next_look}")
    else:
        decisive = next(word for word in ("contradicted", *ORDER) if word in groups)
        status = "shown_in_part" if decisive == "shown" and len(groups) > 1 else decisive.replace(" ", "_")
        names = {word: [name for name in rows if words[name] == word] for word in groups}
        found = {name: _line(name, row, decisions[name], plan) for name, row in rows.items()}
        deciding = brief(names, found, decisive, status == "shown_in_part")
        verdict = Verdict(status, deciding=deciding, held=(sum(word == decisive for word in words.values()), len(rows)))
    if without or planned.open:
        lines = [verdict.deciding, *lines]
    lines += about_rows({name: row.estimate for name, row in rows.items()})
    return _numbered(remarked(verdict, lines), decisions, planned)


def _numbered(verdict: Verdict, decisions: Mapping[str, Decision], planned: Planned) -> Verdict:
    """Return the verdict with each row's mean and repeated interval, and the runs that were used."""
    judged = {name: decision for name, decision in decisions.items() if decision.pairs}
    return replace(
        verdict,
        value={name: decision.mean for name, decision in judged.items()},
        bounds={name: (decision.low, decision.high) for name, decision in judged.items()},
        run_ids=planned.asked,
        planned=planned,
    )


def _excludes(decision: Decision, side: tuple[int, float]) -> bool:
    """Return True if the interval lies on the claimed side of a bound."""
    sign, bound = side
    return min(sign * (decision.low - bound), sign * (decision.high - bound)) > 0


def _line(name: str, row: PlannedRow, decision: Decision, plan: Decide) -> str:
    """Return a row in words: `GRPO +2.5 [1.4, 3.6] at 12 pairs`, with its largest loss where changes are skewed."""
    if not decision.pairs:
        return f"{name} ({len(row.estimate.values)} of {counted(plan.looks[0], 'pair')} for the first look)"
    mean, low, high = (number(x, row.digits, row.signed) for x in (decision.mean, decision.low, decision.high))
    found = f"{name} {mean} [{low}, {high}] at {counted(decision.pairs, 'pair')}"
    if decision.word == "not of this size":
        found += f": {gain(_margin(row, plan), row.unit)} excluded"
    if decision.word == "open" and decision.ended and decision.pairs < plan.looks[-1]:
        found += f", stopped: {gain(_margin(row, plan), row.unit)} is improbable"
    elif decision.word == "open" and decision.ended and any(_excludes(decision, side) for side in row.sides):
        found += ": not shown by both tests with the error of all rows"
    return found + (skew(list(row.estimate.values.values()), row.digits) if decision.ended else "")


def asked_for(experiment: Experiment, verdicts: Sequence[Verdict]) -> Experiment:
    """Return an experiment with `decide` reduced to the runs that its claims have asked for by now.

    Runs that no claim asks for are left out. Without `decide`, the experiment is returned as it is.
    """
    if experiment.decide is None:
        return experiment
    asked = {run for verdict in verdicts if verdict.planned is not None for run in verdict.planned.asked}
    cells = [(labels, run) for labels, run in experiment.cells if run in asked]
    if not cells:
        return experiment
    kept = {run for _, run in cells}
    return replace(experiment, runs=[run for run in experiment.runs if run.id in kept], cells=cells)
