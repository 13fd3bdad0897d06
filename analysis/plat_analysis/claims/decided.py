"""Decide a claim about several rows from p-values for it and against it in each row, whatever test they come from.

Each is one-sided at 2.5 %, divided by the number of planned looks. The claim is
- shown: every row is shown by its own test (the claim then holds falsely in at most 2.5 %);
- contradicted: the opposite is shown in some row, by Holm's procedure over the rows;
- shown in k of n: some rows are shown, by Holm's procedure;
- not of this size: no row is shown, and some are shown to be below the assumed size, by Holm's procedure;
- open: none of these;
- not enough data: some row has a run missing, or too few units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from plat_analysis.artifact import p_value
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.record import ErrorControl, Method, tested_rows
from plat_analysis.claims.row_words import dependence, p_values_in_words, row_line, skew
from plat_analysis.claims.seeds_to_decide import units_needed
from plat_analysis.statistics.assumptions import sign_p
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.significance import (
    ERROR,
    holm,
    shared_spread,
    shown_above,
    shown_below,
)
from plat_analysis.statistics.tasks import TASKS
from plat_analysis.statistics.unpaired import RUNS

LEVEL = ERROR / 2  # one-sided
MOST_WORDS = 8  # in the names of the rows of one kind, in a short sentence
MOST_IN_ALL = 14  # words of the kinds of all rows; with the verdict, the two sides and a p-value these are 30
SHOWN, OPPOSITE, OPEN, SHORT = "shown", "the opposite is shown", "open", "without enough data"
SAID = (SHOWN, OPEN, SHORT, "contradicted", "not of this size")  # kinds that the word of the verdict says already
Tests = Mapping[str, Mapping[str, float]]  # kind, the claimed one first -> row -> p-value, of the rows with enough data


@dataclass(frozen=True)
class RowTests:
    """Hold the p-values of "the claim does not hold" and "the opposite does not hold" in a row, and the finding.

    p, opposite  None where there are too few units, or a run is missing
    line         the finding in words, with its interval: `grpo: −0.84 [−0.95, −0.73] over 10 blocks`
    estimate     its number
    unit         of the number: `points`, `percent`, or "" for that of the metric
    """

    p: float | None
    opposite: float | None
    line: str
    estimate: Estimate = field(default_factory=Estimate)
    unit: str = ""


def decide(rows: Mapping[str, RowTests], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    tests: dict[str, dict[str, float]] = {SHOWN: {}, OPPOSITE: {}}
    for row, tested in rows.items():
        if tested.p is not None and tested.opposite is not None:
            tests[SHOWN][row], tests[OPPOSITE][row] = tested.p, tested.opposite
    kinds = row_kinds(rows, tests, LEVEL / looks)
    return controlled(settled(kinds, tests, {row: tested.line for row, tested in rows.items()}), looks)


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

    weak  the kind of rows that are only shown to be below the assumed size
    """
    found, (claimed, *others) = set(kinds.values()), tests
    if not found or SHORT in found:
        return "not_enough_data", SHORT, None
    if found == {claimed}:
        return "shown", claimed, max(tests[claimed].values())
    against = [kind for kind in others if kind in found and kind != weak]
    words = {**dict.fromkeys(against, "contradicted"), claimed: "shown_in_part", weak: "not_of_this_size"}
    decisive = next((kind for kind in words if kind in found), OPEN)
    if decisive == OPEN:
        return "open", OPEN, None
    return words[decisive], decisive, min(p for p in holm(list(tests[decisive].values())) if p is not None)


def settled(kinds: Mapping[str, str], tests: Tests, lines: Mapping[str, str], weak: str = "") -> Verdict:
    """Return the verdict on rows of these kinds.

    lines  row -> its finding in words
    weak   see `outcome`

    The verdict's `lines` are grouped by kind: a heading (`above zero in 3 of 4`), then the findings of its rows. Its
    `deciding` says each kind that occurs, the deciding one first, with the finding of a row that is alone in its kind.
    """
    status, decisive, p = outcome(kinds, tests, weak)
    groups = {kind: [row for row in kinds if kinds[row] == kind] for kind in (*tests, OPEN, SHORT)}
    names = {kind: rows for kind, rows in groups.items() if rows}
    grouped = [
        line
        for kind, rows in names.items()
        for line in (f"{kind} in {len(rows)} of {len(kinds)}", *(lines[row] for row in rows))
    ]
    deciding = brief(names, lines, decisive, status == "shown_in_part") if names else ""
    held = (len(groups[decisive]), len(kinds))
    verdict = Verdict(status, p=p, deciding=deciding, held=held, rows=tested_rows(kinds, tests))
    return remarked(verdict, grouped)


def controlled(verdict: Verdict, looks: int) -> Verdict:
    """Return the verdict with how its error is held: by the tests of `row_kinds`, divided by `looks`."""
    rows = len(verdict.rows)
    method: Method = "one test" if rows == 1 else "every row" if verdict.status == "shown" else "holm"
    return replace(verdict, control=ErrorControl(method, LEVEL, rows, looks))


def brief(names: Mapping[str, Sequence[str]], lines: Mapping[str, str], decisive: str, in_part: bool) -> str:
    """Return the kinds of a claim's rows in one short sentence, the deciding one first.

    Args:
        names: kind -> its rows.
        lines: row -> its finding; the p-values, and what follows a semicolon, are left out.
        decisive: the kind that decided.
        in_part: True if the verdict's word says in how many rows the deciding kind was found.
    """
    count, rows = sum(map(len, names.values())), names[decisive]
    name = rows[0] if lines[rows[0]].startswith(rows[0]) else ""  # which may have a comma
    found_of_row = lines[rows[0]].removeprefix(name).partition(", " if decisive == SHORT else ", p ")[0]
    finding = name + found_of_row.partition(";")[0]
    is_counted = len(rows) < count and decisive not in (OPEN, SHORT)  # by the word, such as `contradicted in 1 of 2`
    said = "" if in_part or decisive in SAID else decisive
    every = "" if in_part or is_counted or count == 1 else f"in {len(rows)} of {count}"
    heading = " ".join(filter(None, [said, every]))
    found = finding if len(rows) == 1 else " and ".join(rows) if in_part and _is_short(rows) else ""
    first = ": ".join(filter(None, [heading, found])) or decisive
    others = {kind: of_kind for kind, of_kind in names.items() if kind != decisive}
    parts = {
        kind: f"{kind}: {' and '.join(of)}" if _is_short(of) else f"{kind} in {len(of)}" for kind, of in others.items()
    }
    for kind in sorted(others, key=lambda kind: -len(parts[kind].split())):  # the longest list becomes a number first
        counted = f"{kind} in {len(others[kind])}"
        if len("; ".join([first, *parts.values()]).split()) > MOST_IN_ALL:
            parts[kind] = min(parts[kind], counted, key=lambda text: len(text.split()))
    return "; ".join([first, *parts.values()])


def _is_short(rows: Sequence[str]) -> bool:
    """Return True if the names of rows fit into a short sentence."""
    return any(rows) and len(" and ".join(rows).split()) <= MOST_WORDS


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
# The claim is decided as above: a row above zero is shown, one below zero is the opposite, and one that is too small is
# not of the assumed size.
#
# If no row has an effect, at most 2.5 % of claims are called shown, in all or some rows; if the published sizes are
# true, at most 2.5 % are called contradicted or not of this size. Exception: with five seeds, changes with random signs
# all have the claimed sign in 1 of 32 cases. Changes that are skewed, or that builds share, break the promise; `skew`
# and `dependence` warn of them. `benchmarks/error_rates.py` measures these rates.

ABOVE, BELOW, SMALL = "above zero", "below zero", "below the assumed size"


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
        """Return the size below which a row is too small: the published one, else the smallest of interest."""
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
    lines = {row: _tested(row, item, kinds[row], guarded.get(row)) for row, item in evidence.items()}
    for row, item in evidence.items():
        lines[row] += (
            _corrected(row, item, kinds, tests) + often.get(row, "") + skew(whole_sample(item.estimate), item.digits)
        )
    small = _below(evidence.values())
    kinds = {row: small if kind == SMALL else kind for row, kind in kinds.items()}
    verdict = settled(kinds, {small if kind == SMALL else kind: p for kind, p in tests.items()}, lines, small)
    remarks = about_rows({row: item.estimate for row, item in evidence.items()})
    if verdict.status in ("shown_in_part", "not_of_this_size", "open", "not_enough_data"):
        open_rows = [item for row, item in evidence.items() if kinds[row] in (OPEN, SHORT)]
        shown = (open_rows[0].digits, open_rows[0].unit) if open_rows else ()
        remarks.append(units_needed([(item.estimate, item.size) for item in open_rows], level, *shown))
    return controlled(remarked(verdict, remarks), looks)


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


def _below(evidence: Iterable[RowEvidence]) -> str:
    """Return what is shown of rows that are too small: `a 5-point gain excluded`, or the published one is."""
    items = list(evidence)
    sizes = {gain(item.supposed, item.unit) for item in items if item.published is None}
    if len(sizes) == 1:
        published = any(item.published is not None for item in items)
        return f"the published gain, or {sizes.pop()}, excluded" if published else f"{sizes.pop()} excluded"
    return "the published gain excluded"


def gain(size: float, unit: str) -> str:
    """Return `a 5-point gain`, or `a gain of 0.3` of a measure without a unit."""
    return f"a {size:g}-point gain" if unit.strip() == "points" else f"a gain of {size:g}{unit}"


def _tested(row: str, item: RowEvidence, kind: str, guarded: Estimate | None) -> str:
    """Return a row with the p-values of the test that gave it its kind; of "above zero" for an open row."""
    below = {BELOW: item.refuted, SMALL: item.supposed}.get(kind)
    return row_line(row, item) + p_values_in_words(guarded, below, item.digits, kind == OPEN)


def whole_sample(estimate: Estimate) -> tuple[float, ...]:
    """Return the values of the first units of an estimate that lacks no run; () of any other."""
    return estimate.samples[0] if estimate.complete and estimate.samples else ()


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


def _corrected(row: str, item: RowEvidence, kinds: Mapping[str, str], tests: Tests) -> str:
    """Return `, .14 over 9 rows`, the p-value after correction, for an open row whose own interval excludes zero."""
    low, high = item.estimate.low, item.estimate.high
    if kinds[row] != OPEN or low is None or high is None or low <= 0 <= high or len(kinds) == 1:
        return ""
    p_values = tests[ABOVE if low > 0 else BELOW]
    p = dict(zip(p_values, holm(list(p_values.values())), strict=True))[row]
    return f", {p_value(p)} over {len(kinds)} rows"


def about_rows(estimates: Mapping[str, Estimate]) -> list[str]:
    """Return what a verdict on these rows is about, and a warning where the builds of a row are not independent."""
    return [about(estimates.values()), dependence(estimates)]


def about(estimates: Iterable[Estimate]) -> str:
    """Return what the verdict is about: `about these 2 builds of the base model, over seeds`; "" without estimates."""
    over = {"seeds": ["over seeds"], RUNS: ["over runs, unpaired"], TASKS: ["over tasks like these"]}
    meant = dict.fromkeys((e.about, e.over if e.over in over else "") for e in estimates if e.about or e.over)
    parts = ([f"about {builds} of the base model"] * bool(builds) + over.get(kind, []) for builds, kind in meant)
    return " and ".join(", ".join(part) for part in parts if part)
