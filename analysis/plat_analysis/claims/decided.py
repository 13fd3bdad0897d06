"""Decide a claim about several rows from p-values for it and against it in each row, whatever test they come from.

Each is one-sided at 2.5 %, divided by the number of planned looks. The claim is
- reproduced: every row is shown by its own test (the claim then holds falsely in at most 2.5 %);
- not reproduced: the opposite is shown in some row, by Holm's procedure over the rows;
- partial: some rows are shown, by Holm's procedure;
- undecided: none of these;
- not enough data: some row has a run missing, or too few units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plat.units import counted
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.seeds_to_decide import units_needed
from plat_analysis.statistics.assumptions import COMMON, common_seeds, one_sided, sign_p
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import SUCH_BUILDS
from plat_analysis.statistics.significance import (
    ERROR,
    flips_above,
    holm,
    shared_spread,
    shown_above,
    shown_below,
)
from plat_analysis.statistics.tasks import TASKS, signed_rank_p
from plat_analysis.statistics.unpaired import RUNS, least_p

LEVEL = ERROR / 2  # one-sided
SHOWN, OPPOSITE, OPEN, SHORT = "shown", "the opposite is shown", "not shown either way", "without enough data"
Tests = Mapping[str, Mapping[str, float]]  # kind, the claimed one first -> row -> p-value, of the rows with enough data


@dataclass(frozen=True)
class RowTests:
    """Hold the p-values of "the claim does not hold" and "the opposite does not hold" in a row, and the finding.

    p, opposite  None where there are too few units, or a run is missing
    line         the finding in words, with its interval: `grpo: −0.84 [−0.95, −0.73] over 10 blocks`
    estimate     its number
    """

    p: float | None
    opposite: float | None
    line: str
    estimate: Estimate = field(default_factory=Estimate)


def decide(rows: Mapping[str, RowTests], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    tests: dict[str, dict[str, float]] = {SHOWN: {}, OPPOSITE: {}}
    for row, tested in rows.items():
        if tested.p is not None and tested.opposite is not None:
            tests[SHOWN][row], tests[OPPOSITE][row] = tested.p, tested.opposite
    kinds = row_kinds(rows, tests, LEVEL / looks)
    return settled(kinds, tests, {row: tested.line for row, tested in rows.items()})


def row_kinds(rows: Collection[str], tests: Tests, level: float) -> dict[str, str]:
    """Return row -> the first kind of `tests` that is shown in it, `OPEN` if none is, `SHORT` if it has no p-value.

    The first kind is the claimed one. If every row's own test shows it at `level`, all rows are of this kind. Otherwise
    Holm's procedure over the rows decides where a kind is shown.
    """
    claimed, *others = tests
    alone = tests[claimed]
    every = len(alone) == len(rows) and all(p <= level for p in alone.values())
    kinds = dict.fromkeys(rows, SHORT) | dict.fromkeys(alone, OPEN)
    for kind in reversed(others):
        kinds |= dict.fromkeys(shown(tests[kind], level), kind)
    return kinds | dict.fromkeys(alone if every else shown(alone, level), claimed)


def outcome(kinds: Mapping[str, str], tests: Tests, weak: str = "") -> tuple[str, str, float | None]:
    """Return the status of a claim, the kind of the rows that decided it, and the p-value of that over all rows.

    weak  a kind that counts against the claim only where no row is of the claimed kind
    """
    found, (claimed, *others) = set(kinds.values()), tests
    if not found or SHORT in found:
        return "not_enough_data", SHORT, None
    if found == {claimed}:
        return "reproduced", claimed, max(tests[claimed].values())
    against = [kind for kind in others if kind in found and (kind != weak or claimed not in found)]
    decisive = [*against, *(found & {claimed})]
    if not decisive:
        return "undecided", OPEN, None
    p = min(p for p in holm(list(tests[decisive[0]].values())) if p is not None)
    return "not_reproduced" if against else "partial", decisive[0], p


def settled(kinds: Mapping[str, str], tests: Tests, lines: Mapping[str, str], weak: str = "") -> Verdict:
    """Return the verdict on rows of these kinds.

    lines  row -> its finding in words
    weak   see `outcome`

    The verdict's `lines` are grouped by kind: a heading (`shown in 3 of 4`), then the findings of its rows. Its
    `deciding` is the heading of the kind that decided. If this kind has a single row, the row's finding is appended.
    """
    status, decisive, p = outcome(kinds, tests, weak)
    groups = {
        kind: [f"{kind} in {len(rows)} of {len(kinds)}", *(lines[row] for row in rows)]
        for kind in (*tests, OPEN, SHORT)
        if (rows := [row for row in kinds if kinds[row] == kind])
    }
    by = groups.get(decisive, [""])
    return remarked(
        Verdict(status, p=p, deciding=": ".join(by) if len(by) == 2 else by[0]),
        [line for group in groups.values() for line in group],
    )


def remarked(verdict: Verdict, remarks: Sequence[str]) -> Verdict:
    """Return the verdict with further reasons in `lines` and `detail`; empty ones are left out."""
    lines = (*verdict.lines, *filter(None, remarks))
    return replace(verdict, lines=lines, detail="; ".join(lines))


def shown(p_values: Mapping[str, float], level: float = LEVEL) -> set[str]:
    """Return the rows whose null hypothesis Holm's procedure over these rows rejects at `level`."""
    adjusted = holm(list(p_values.values()))
    return {row for row, p in zip(p_values, adjusted, strict=True) if p is not None and p <= level}


# Decide a claim that an effect is above zero in every row, from the spread between runs.
#
# Each test is one-sided at 2.5 %, divided by the number of planned looks. A row's p-value is that of
# `significance.shown_above`. Below `significance.OWN_SPREAD` units a row has at least the spread of all rows
# (`significance.shared_spread`). A row is
# - above zero: if the own test of every row shows this, these tests decide; else Holm's procedure over the rows does;
# - below zero, or too small: Holm's procedure over the rows shows that the effect is below zero, or below the published
#   size (below the smallest effect of interest if no size is published).
#
# The claim is decided as above: a row above zero is shown, and one below zero is the opposite. Too small
# a row is the opposite only if no row is above zero.
#
# If no row has an effect, at most 2.5 % of claims are called reproduced or partial; if the published sizes are true, at
# most 2.5 % are called not reproduced. Exception: with five seeds, changes with random signs all have the claimed sign
# in 1 of 32 cases. Changes that are skewed, or that builds share, break the promise; `skew` and `dependence` warn of
# them. `benchmarks/error_rates.py` measures these rates.

ABOVE, BELOW, SMALL = "above zero", "below zero", "smaller than assumed, and not shown to be above zero"


@dataclass(frozen=True)
class RowEvidence:
    """Hold a row's mean change, the published one and the smallest effect of interest, in the unit of the measure.

    digits  shown behind the decimal point
    unit    written behind a size
    """

    estimate: Estimate
    published: float | None = None
    smallest: float = 5.0
    digits: int = 1
    unit: str = " points"

    @property
    def size(self) -> float:
        """Return the size that the claim assumes: the published one if above zero, else the smallest of interest."""
        return self.published if self.published is not None and self.published > 0 else self.smallest

    @property
    def supposed(self) -> float:
        """Return the size excluded where a row is too small: the published one, else the smallest of interest."""
        return self.smallest if self.published is None else self.published

    @property
    def refuted(self) -> float:
        """Return the bound below which a row contradicts the claim: zero, or a published size below zero."""
        return min(0.0, self.published or 0.0)


def decide_rows(evidence: Mapping[str, RowEvidence], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    level, tests = LEVEL / looks, row_tests(evidence)
    kinds = row_kinds(evidence, tests, level)
    guarded = shared_spread(judged(evidence))
    often = _usually(kinds, evidence, level)
    lines = {
        row: f"{row_line(row, item)}{_p_values(guarded.get(row), kinds[row], item)}{often.get(row, '')}{skew(item)}"
        for row, item in evidence.items()
    }
    verdict = settled(kinds, tests, lines, weak=SMALL)
    remarks = [about(item.estimate for item in evidence.values()), dependence(evidence)]
    if verdict.status in ("partial", "undecided", "not_enough_data"):
        open_rows = [item for row, item in evidence.items() if kinds[row] in (OPEN, SHORT)]
        shown = (open_rows[0].digits, open_rows[0].unit) if open_rows else ()
        remarks.append(units_needed([(item.estimate, item.size) for item in open_rows], level, *shown))
    return remarked(verdict, remarks)


def judged(evidence: Mapping[str, RowEvidence]) -> dict[str, Estimate]:
    """Return the estimates of the rows that lack no run and have enough units for a verdict."""
    return {row: item.estimate for row, item in evidence.items() if item.estimate.judged}


def row_tests(evidence: Mapping[str, RowEvidence]) -> dict[str, dict[str, float]]:
    """Return ABOVE, BELOW and SMALL -> row -> p-value, of the rows that may be judged."""
    guarded = shared_spread(judged(evidence))
    return {
        ABOVE: {row: shown_above(estimate, 0.0) for row, estimate in guarded.items()},
        BELOW: {row: shown_below(estimate, evidence[row].refuted) for row, estimate in guarded.items()},
        SMALL: {row: shown_below(estimate, evidence[row].supposed) for row, estimate in guarded.items()},
    }


def row_line(row: str, item: RowEvidence) -> str:
    """Return a row with its change, interval and published change; with what is missing if it lacks runs."""
    estimate = item.estimate
    if not estimate.complete:
        return f"{row} ({estimate.note or f'{estimate.seeds}/{estimate.wanted} seeds'})".strip()
    shown = f"{row} {number(estimate.value, item.digits, signed=True)}".strip()
    if estimate.error is None:  # an interval over instances is left out: it says nothing about another run
        few = (
            estimate.note
            if estimate.over == TASKS
            else counted(estimate.seeds, "run" if estimate.over == RUNS else "seed")
        )
        return f"{shown} ({few})"
    published = f", published {number(item.published, signed=True)}" if item.published is not None else ""
    return f"{shown} {interval(estimate, item.digits, signed=True)}{published}"


def _p_values(guarded: Estimate | None, kind: str, item: RowEvidence) -> str:
    """Return `, p .003 (t), .031 (sign flips)` before Holm's procedure, with the bound where it is not zero.

    The test is the one that gave the row its kind; that of "above zero" for an open row.
    """
    if guarded is None:
        return ""
    below = {BELOW: item.refuted, SMALL: item.supposed}
    estimate, bound = (guarded.scaled(-1.0), -below[kind]) if kind in below else (guarded, 0.0)
    against = f", both against {number(below[kind], item.digits, signed=True)}" if bound else ""
    if estimate.over == RUNS:
        t, other = p_value(estimate.p_above(bound)), p_value(flips_above(estimate, bound))
        least = p_value(least_p(*map(len, estimate.samples)))
        return f", p {t} (Welch), {other} (permutation of runs, at least {least}){against}"
    ranks = f", {p_value(signed_rank_p(estimate.samples[0], bound))} (signed ranks)" if estimate.over == TASKS else ""
    return f", p {_both(estimate, bound, kind == OPEN)}{ranks}{against}"


def _both(estimate: Estimate, bound: float, is_open: bool) -> str:
    """Return both p-values; `, the least that 5 seeds allow` in an open row where sign flips decide and show no more.

    t is that of the spread of all rows where this decides (see `significance.shown_above`).
    """
    used, t, flips = shown_above(estimate, bound), estimate.p_above(bound), flips_above(estimate, bound)
    least = min(map(len, estimate.samples), default=0)
    at_least = is_open and used == flips == 0.5**least
    floor = f", the least that {least} {_units(estimate)} allow" if at_least else ""
    return f"{p_value(used if used < flips else t)} (t), {p_value(flips)} (sign flips{floor})"


def _units(estimate: Estimate) -> str:
    """Return what the smallest sample of an estimate counts: seeds, builds, or runs on several builds."""
    if estimate.about != SUCH_BUILDS:
        return "seeds" if estimate.freedom == estimate.units - 1 else "runs"
    return "builds" if len(estimate.samples[0]) == min(map(len, estimate.samples)) else "seeds"


def skew(item: RowEvidence) -> str:
    """Return `; median +2.4, largest loss −20.1` for a row with a loss far from its other gains, or a gain; else ""."""
    estimate = item.estimate
    found = one_sided(estimate.samples[0]) if estimate.complete and estimate.samples else None
    if found is None or found.median * found.furthest >= 0:
        return ""
    middle, furthest = (number(value, item.digits, signed=True) for value in found)
    return f"; median {middle}, largest {'loss' if found.furthest < 0 else 'gain'} {furthest}"


def _usually(kinds: Mapping[str, str], evidence: Mapping[str, RowEvidence], level: float) -> dict[str, str]:
    """Return row -> `; usually above zero (9 of 10)` for open rows whose median the sign test shows to be above zero.

    The sign test says nothing about the size of a loss, so it decides no verdict. Holm's procedure over the rows.
    """
    samples = {row: item.estimate.samples[0] for row, item in evidence.items() if item.estimate.judged}
    found = shown({row: sign_p(values) for row, values in samples.items()}, level)
    return {
        row: f"; usually above zero ({sum(x > 0 for x in samples[row])} of {len(samples[row])}), the mean is open"
        for row in found
        if kinds[row] == OPEN
    }


def dependence(evidence: Mapping[str, RowEvidence]) -> str:
    """Return a warning where changes of one seed agree across builds, in the row where they do most; else "".

    If builds share effects of seeds, they are no independent units, and the error of the verdict is larger than
    promised: .06 to .10 for two builds whose changes share 60 to 90 % of their variance. The warning comes in 31 and
    83 % of such claims with five seeds, and in `COMMON` of the claims whose builds have nothing in common.
    """
    strata = {row: item.estimate for row, item in evidence.items() if item.estimate.over == "seeds"}
    found = {row: common for row, estimate in strata.items() if (common := common_seeds(estimate.values))}
    if not found:
        return ""
    row, common = min(found.items(), key=lambda item: item[1].p)
    if common.p * len(found) > COMMON:
        return ""
    at = f" in {row}" if row and len(evidence) > 1 else ""
    by_chance = f"correlation {number(common.correlation, 2)}, by chance in 1 of {1 / COMMON:g} claims"
    return (
        f"changes of one seed agree across builds{at} ({by_chance}): if builds share effects of seeds, "
        f"{common.seeds} seeds count, not {strata[row].seeds} runs, and the p-value is too small"
    )


def about(estimates: Iterable[Estimate]) -> str:
    """Return what the verdict is about: `about these 2 builds of the base model, over seeds`; "" without estimates."""
    over = {"seeds": ["over seeds"], RUNS: ["over runs, unpaired"], TASKS: ["over tasks like these"]}
    meant = dict.fromkeys((e.about, e.over if e.over in over else "") for e in estimates if e.about or e.over)
    parts = ([f"about {builds} of the base model"] * bool(builds) + over.get(kind, []) for builds, kind in meant)
    return " and ".join(", ".join(part) for part in parts if part)
