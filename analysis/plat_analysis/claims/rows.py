"""The verdict on a claim that an effect is above zero in every row, from the spread between runs.

All tests are Student's t at one-sided 2.5 %, as the 95 % interval has it, with a row's spread taken as at least half of
that of all rows (`families.shared_spread`). A row is

- above zero: by its own test when every row is (then the claim cannot hold falsely in more than 2.5 %), else by Holm's
  procedure over the rows;
- below zero, or too small: shown to be below zero, or below the published size, by Holm's procedure over the rows.
  Where none is published, the smallest effect of interest stands in its place.

The claim about all rows is then

- reproduced: every row is above zero;
- not reproduced: some row is below zero; or no row is above zero and some row is too small;
- partial: some rows are above zero;
- undecided: none of these;
- not enough data: some row has a run missing, or fewer than three seeds (or builds, where they vary).

Where nothing is true of any row, at most 2.5 % of claims are called reproduced or partial; where the published sizes
are true, at most 2.5 % are called not reproduced. `benchmarks/error_rates.py` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plat_analysis.artifact import interval, number
from plat_analysis.statistics.families import ERROR, holm, shared_spread
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.power import MOST, POWER, seeds_needed
from plat_analysis.statistics.replicates import MIN_UNITS

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
    """What is known of one row: its mean change in points, the published one, and the smallest effect of interest."""

    estimate: Estimate
    published: float | None = None
    smallest: float = 5.0

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
    def enough(self) -> bool:
        """Whether no run is missing and there are enough units for a standard error."""
        return self.estimate.complete and self.estimate.error is not None


@dataclass(frozen=True)
class Decision:
    """The verdict's word, and its reasons, a row a line."""

    status: str
    lines: tuple[str, ...]

    @property
    def detail(self) -> str:
        """The reasons as one paragraph."""
        return "; ".join(self.lines)


def decide(evidence: Mapping[str, RowEvidence]) -> Decision:
    """The verdict on all rows together."""
    kinds = row_kinds(evidence)
    held, refuted = [list(kinds.values()).count(kind) for kind in (ABOVE, BELOW)]
    if not kinds or SHORT in kinds.values():
        status = "not_enough_data"
    elif held == len(kinds):
        status = "reproduced"
    elif refuted or (not held and SMALL in kinds.values()):
        status = "not_reproduced"
    else:
        status = "partial" if held else "undecided"
    return Decision(status, _lines(status, kinds, evidence))


def row_kinds(evidence: Mapping[str, RowEvidence]) -> dict[str, str]:
    """Row -> above, below, too small, open or short."""
    judged = {row: item for row, item in evidence.items() if item.enough}
    guarded = shared_spread({row: item.estimate for row, item in judged.items()})
    alone = {row: estimate.p_above(0.0) for row, estimate in guarded.items()}
    all_above = len(judged) == len(evidence) and all(p is not None and p <= LEVEL for p in alone.values())
    above = set(alone) if all_above else shown(alone)
    below = shown({row: guarded[row].p_below(min(0.0, item.published or 0.0)) for row, item in judged.items()})
    small = shown({row: guarded[row].p_below(item.supposed) for row, item in judged.items()})
    kinds = dict.fromkeys(evidence, SHORT) | dict.fromkeys(judged, OPEN)
    for kind, rows in ((SMALL, small), (BELOW, below), (ABOVE, above)):
        kinds |= dict.fromkeys(rows, kind)
    return kinds


def shown(p_values: Mapping[str, float | None]) -> set[str]:
    """The rows whose null hypothesis Holm's procedure rejects."""
    adjusted = holm(list(p_values.values()))
    return {row for row, p in zip(p_values, adjusted, strict=True) if p is not None and p <= LEVEL}


def _lines(status: str, kinds: Mapping[str, str], evidence: Mapping[str, RowEvidence]) -> tuple[str, ...]:
    """How many rows are of each kind, a line for each row, and where it is open, what would decide."""
    lines = []
    for kind, words in WORDS.items():
        rows = [row for row in kinds if kinds[row] == kind]
        if rows:
            lines += [f"{words} in {len(rows)} of {len(kinds)}", *(row_line(row, evidence[row]) for row in rows)]
    if status in ("partial", "undecided", "not_enough_data"):
        lines.append(_needed(evidence))
    return tuple(filter(None, lines))


def row_line(row: str, item: RowEvidence) -> str:
    """A row with its change and interval, or how many of its seeds there are."""
    estimate = item.estimate
    if not estimate.complete:
        return f"{row} ({estimate.note or f'{estimate.seeds}/{estimate.wanted} seeds'})"
    shown = f"{row} {number(estimate.value, signed=True)}"
    if estimate.error is None:  # an interval over instances is left out: it says nothing about another run
        return f"{shown} ({estimate.seeds} seed{'s' * (estimate.seeds != 1)})"
    published = f", published {number(item.published, signed=True)}" if item.published is not None else ""
    return f"{shown} {interval(estimate, signed=True)}{published}"


def _needed(evidence: Mapping[str, RowEvidence]) -> str:
    """How many seeds (or builds) would decide, from the spread between those there are (pooled over the rows)."""
    spreads = [spread for item in evidence.values() if (spread := _spread(item.estimate)) is not None]
    if not spreads:
        return f"the spread between seeds is unknown with one seed: at least {MIN_UNITS} are needed to decide"
    spread = float(np.sqrt(np.mean(np.square(spreads))))
    count = seeds_needed([(item.size, spread) for item in evidence.values()], LEVEL)
    present = max(item.estimate.units for item in evidence.values())
    count = max(count, present + 1)  # those there are did not decide
    sizes = sorted({round(item.size, 1) for item in evidence.values()})
    deviations = [d for item in evidence.values() if (d := item.estimate.deviation) is not None]
    observed = float(np.sqrt(np.mean(np.square(deviations))))
    least = ", the least that the rounding of a success rate allows" if observed < spread * (1 - 1e-9) else ""
    supposed = f"{sizes[0]:g}" if len(sizes) == 1 else f"{sizes[0]:g} to {sizes[-1]:g}"
    about = f"more than {MOST}" if count > MOST else f"about {count}"
    units = "builds" if any(item.estimate.over == "builds" for item in evidence.values()) else "seeds"
    return (
        f"{about} {units} would decide (spread {spread:.1f} points between {units}{least}; true effects of {supposed} "
        f"points, {100 * POWER:g} % to show all rows)"
    )


def _spread(estimate: Estimate) -> float | None:
    """Standard deviation between the units, at least that of rounding where there is an error; None with one unit."""
    return estimate.deviation if estimate.error is None else estimate.error * estimate.units**0.5
