"""Decisions about many estimates at once: which cells of a table are starred, which rows of a claim hold.

Holm's step-down procedure keeps the probability of even one false decision in a family at its level, whatever else in
the family is true. The p-values are those of `sign_flips.shown_above`: Student's t and the flips of signs, over seeds
or builds.

With a few seeds, the spread of a single cell is a poor estimate: where runs either learn or collapse, five runs that
happen to agree seem to have no spread at all. For decisions, a cell's spread is therefore taken as at least
`SPREAD_SHARE` of the root mean square spread of its peers, the cells of the same column or the rows of the same claim.
Without that, false stars and verdicts are more frequent than promised (`benchmarks/error_rates.py --spread-share 0`).

What no test can know is what no run has shown: where one condition alone collapses in one run of ten, most samples of
a few seeds hold no collapse, and their spread does not warn of it. In a large table the peers of a cell still do; a
table of one cell is then starred far too often, as `benchmarks/error_rates.py` prints.

A cell that lacks wanted runs is never starred: they may be missing because of what they would have shown. One of fewer
than `MIN_JUDGED` units is not starred either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate
from plat_analysis.statistics.sign_flips import shown_above, shown_below

ERROR = 1 - LEVEL  # probability of any false decision in a family
SPREAD_SHARE = 1.0  # least spread of a cell, as a share of the spread of its peers
Key = TypeVar("Key")


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values: at most `level` where Holm's procedure at that level rejects. None stays None and does not
    count towards the size of the family."""
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = largest
    return adjusted


def shared_spread(estimates: Mapping[Key, Estimate]) -> dict[Key, Estimate]:
    """The estimates of peers, each with a standard error that supposes at least `SPREAD_SHARE` of their common spread.
    Intervals stay as they are."""
    squares = [estimate.error**2 * estimate.units for estimate in estimates.values() if estimate.error is not None]
    least = SPREAD_SHARE * float(np.sqrt(np.mean(squares))) if squares else 0.0
    return {
        key: replace(estimate, error=max(estimate.error, least / estimate.units**0.5))
        if estimate.error is not None
        else estimate
        for key, estimate in estimates.items()
    }


def starred(columns: Sequence[Mapping[Key, Estimate]]) -> list[dict[Key, Estimate]]:
    """The cells of a table, by column, each with its `star`; all cells of all columns are one family, two-sided."""
    guarded = [estimate for column in columns for estimate in shared_spread(column).values()]
    adjusted = iter(holm([two_sided(estimate) for estimate in guarded]))
    return [{key: _with_star(estimate, next(adjusted)) for key, estimate in column.items()} for column in columns]


def two_sided(estimate: Estimate) -> float | None:
    """p-value of "the true value is zero", two-sided; None for a cell that may not be judged."""
    if not estimate.judged:
        return None
    below, above = shown_below(estimate, 0.0), shown_above(estimate, 0.0)
    return None if below is None or above is None else min(1.0, 2 * min(below, above))


def _with_star(estimate: Estimate, adjusted: float | None) -> Estimate:
    if adjusted is None or adjusted > ERROR or not estimate.value:
        return replace(estimate, star=0)
    return replace(estimate, star=1 if estimate.value > 0 else -1)
