"""The verdict on a claim that an effect is above zero in every row, from the spread between runs.

Each test is one-sided at 2.5 %, as the 95 % interval has it, divided by the number of looks that the claim foresees. A
row's p-value is the larger one of Student's t and of the flips of signs (`sign_flips.shown_above`), with a spread taken
as at least that of all rows (`families.shared_spread`). A row is

- above zero: by its own test when every row is (then the claim cannot hold falsely in more than 2.5 %), else by Holm's
  procedure over the rows;
- below zero, or too small: shown to be below zero, or below the published size, by Holm's procedure over the rows.
  Where none is published, the smallest effect of interest stands in its place.

The claim about all rows is then

- reproduced: every row is above zero;
- not reproduced: some row is below zero; or no row is above zero and some row is too small;
- partial: some rows are above zero;
- undecided: none of these;
- not enough data: some row has a run missing, or fewer than five seeds (or builds, where such builds are meant).

Where nothing is true of any row, at most 2.5 % of claims are called reproduced or partial; where the published sizes
are true, at most 2.5 % are called not reproduced. One case is worse with five seeds, and no test of five can mend it:
where the changes of a row are tosses of a coin, because one condition collapses in half of its runs, all five agree in
1 of 32. `benchmarks/error_rates.py` shows all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plat_analysis.artifact import interval, number, p_value
from plat_analysis.claims.needed import units_needed
from plat_analysis.statistics.families import ERROR, holm, shared_spread
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.sign_flips import flips_above, shown_above, shown_below

LEVEL = ERROR / 2  # one-sided
ABOVE, BELOW, SMALL, OPEN, SHORT = "above", "below", "too small", "open", "short"
WORDS = {
    ABOVE: "above zero",
    BELOW: "below zero",
    SMALL: "smaller than supposed, and not shown to be above zero",
    OPEN: "not shown either way",
    SHORT: "without enough data",
}


@dataclass(frozen=True)
class RowEvidence:
    """What is known of one row: its mean change, the published one, and the smallest effect of interest, all in points
    or in the unit of the measure; how many digits are shown behind the point, and what is written behind a size."""

    estimate: Estimate
    published: float | None = None
    smallest: float = 5.0
    digits: int = 1
    unit: str = " points"

    @property
    def size(self) -> float:
        """The size that the claim supposes: the published one where it is above zero, else the smallest of interest."""
        return self.published if self.published is not None and self.published > 0 else self.smallest

    @property
    def supposed(self) -> float:
        """What is excluded where a row is too small: the published size whatever its sign, else the smallest of
        interest."""
        return self.smallest if self.published is None else self.published

    @property
    def refuted(self) -> float:
        """The bound below which a row speaks against the claim: zero, or the published size where that is below it."""
        return min(0.0, self.published or 0.0)

    @property
    def enough(self) -> bool:
        """Whether no run is missing and there are enough units for a verdict."""
        return self.estimate.judged


@dataclass(frozen=True)
class Decision:
    """The verdict's word, its reasons, a row a line, the p-value of what it found, corrected over the rows, and which
    line decided."""

    status: str
    lines: tuple[str, ...]
    p: float | None = None
    deciding: str = ""

    @property
    def detail(self) -> str:
        """The reasons as one paragraph."""
        return "; ".join(self.lines)


def decide(evidence: Mapping[str, RowEvidence], looks: int = 1) -> Decision:
    """The verdict on all rows together, at one of so many looks at the claim."""
    level = LEVEL / looks
    tests = row_tests(evidence)
    kinds = row_kinds(evidence, tests, level)
    held, refuted = [list(kinds.values()).count(kind) for kind in (ABOVE, BELOW)]
    p = None
    if not kinds or SHORT in kinds.values():
        status, kind = "not_enough_data", SHORT
    elif held == len(kinds):
        status, kind, p = "reproduced", ABOVE, all_of(tests[ABOVE])
    elif refuted or (not held and SMALL in kinds.values()):
        kind = BELOW if refuted else SMALL
        status, p = "not_reproduced", any_of(tests[kind])
    elif held:
        status, kind, p = "partial", ABOVE, any_of(tests[ABOVE])
    else:
        status, kind = "undecided", OPEN
    found = _found(kinds, evidence)
    lines = [line for group in found.values() for line in group] + _remarks(status, kinds, evidence, level)
    return Decision(status, tuple(lines), p, deciding(found.get(kind, ())))


def deciding(lines: Sequence[str]) -> str:
    """The line that decided: the heading of the rows of one kind, with the row where there is one alone."""
    return ": ".join(lines) if len(lines) == 2 else next(iter(lines), "")


def row_tests(evidence: Mapping[str, RowEvidence]) -> dict[str, dict[str, float | None]]:
    """above, below and too small -> row -> p-value, of the rows that may be judged."""
    judged = {row: item for row, item in evidence.items() if item.enough}
    guarded = shared_spread({row: item.estimate for row, item in judged.items()})
    return {
        ABOVE: {row: shown_above(guarded[row], 0.0) for row in judged},
        BELOW: {row: shown_below(guarded[row], item.refuted) for row, item in judged.items()},
        SMALL: {row: shown_below(guarded[row], item.supposed) for row, item in judged.items()},
    }


def row_kinds(
    evidence: Mapping[str, RowEvidence], tests: Mapping[str, Mapping[str, float | None]], level: float = LEVEL
) -> dict[str, str]:
    """Row -> above, below, too small, open or short."""
    alone = tests[ABOVE]
    all_above = len(alone) == len(evidence) and all(p is not None and p <= level for p in alone.values())
    kinds = dict.fromkeys(evidence, SHORT) | dict.fromkeys(alone, OPEN)
    for kind in (SMALL, BELOW):
        kinds |= dict.fromkeys(shown(tests[kind], level), kind)
    return kinds | dict.fromkeys(alone if all_above else shown(alone, level), ABOVE)


def all_of(p_values: Mapping[str, float | None]) -> float:
    """p-value of "some of these null hypotheses are true"."""
    return max(1.0 if p is None else p for p in p_values.values())


def any_of(p_values: Mapping[str, float | None]) -> float:
    """p-value of "all of these null hypotheses are true", by Holm's procedure."""
    return min((p for p in holm(list(p_values.values())) if p is not None), default=1.0)


def shown(p_values: Mapping[str, float | None], level: float = LEVEL) -> set[str]:
    """The rows whose null hypothesis Holm's procedure rejects."""
    adjusted = holm(list(p_values.values()))
    return {row for row, p in zip(p_values, adjusted, strict=True) if p is not None and p <= level}


def _found(kinds: Mapping[str, str], evidence: Mapping[str, RowEvidence]) -> dict[str, list[str]]:
    """Kind -> how many rows are of it, and a line for each of them."""
    guarded = shared_spread({row: item.estimate for row, item in evidence.items() if item.enough})
    found = {}
    for kind, words in WORDS.items():
        rows = [row for row in kinds if kinds[row] == kind]
        if rows:
            tests = {row: _p_values(guarded.get(row), kind, evidence[row]) for row in rows}
            own = [f"{row_line(row, evidence[row])}{tests[row]}" for row in rows]
            found[kind] = [f"{words} in {len(rows)} of {len(kinds)}", *own]
    return found


def _remarks(status: str, kinds: Mapping[str, str], evidence: Mapping[str, RowEvidence], level: float) -> list[str]:
    """What the rows are about, and what would decide an open claim."""
    lines = [about(item.estimate for item in evidence.values())]
    if status in ("partial", "undecided", "not_enough_data"):
        open_rows = [item for row, item in evidence.items() if kinds[row] in (OPEN, SHORT)]
        shown = (open_rows[0].digits, open_rows[0].unit) if open_rows else ()
        lines.append(units_needed([(item.estimate, item.size) for item in open_rows], level, *shown))
    return list(filter(None, lines))


def row_line(row: str, item: RowEvidence) -> str:
    """A row with its change and interval, or how many of its seeds there are."""
    estimate = item.estimate
    if not estimate.complete:
        return f"{row} ({estimate.note or f'{estimate.seeds}/{estimate.wanted} seeds'})"
    shown = f"{row} {number(estimate.value, item.digits, signed=True)}"
    if estimate.error is None:  # an interval over instances is left out: it says nothing about another run
        return f"{shown} ({estimate.seeds} seed{'s' * (estimate.seeds != 1)})"
    published = f", published {number(item.published, signed=True)}" if item.published is not None else ""
    return f"{shown} {interval(estimate, item.digits, signed=True)}{published}"


def _p_values(guarded: Estimate | None, kind: str, item: RowEvidence) -> str:
    """`, p .003 (t), .031 (sign flips)`: of the test that made the row what it is called, of "above zero" where it is
    open; before Holm's procedure. With what it is tested against where that is not zero."""
    if guarded is None:
        return ""
    below = {BELOW: item.refuted, SMALL: item.supposed}
    estimate, bound = (guarded.scaled(-1.0), -below[kind]) if kind in below else (guarded, 0.0)
    against = f", both against {number(below[kind], item.digits, signed=True)}" if bound else ""
    return f", p {p_value(estimate.p_above(bound))} (t), {p_value(flips_above(estimate, bound))} (sign flips){against}"


def about(estimates: Iterable[Estimate]) -> str:
    """`about these 2 builds of the base model, over their seeds`: what the intervals and the verdict speak of."""
    meant = dict.fromkeys((e.about, ", over seeds" if e.over == "seeds" else "") for e in estimates if e.about)
    return " and ".join(f"about {builds} of the base model{over}" for builds, over in meant)
