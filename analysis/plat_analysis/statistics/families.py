"""Decide about many estimates at once: which cells of a table are starred, which rows of a claim hold.

Holm's procedure keeps the probability of any false decision in a family at its level. The p-values are those of
`sign_flips.shown_above`. `benchmarks/error_rates.py` measures the error rates, also where `SPREAD_SHARE` is 0. Limit: a
collapse that none of a few seeds shows leaves no spread to warn of it, so a table of one cell is starred too often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from plat_analysis.statistics.intervals import LEVEL, Estimate
from plat_analysis.statistics.sign_flips import shown_above, shown_below

ERROR = 1 - LEVEL  # probability of any false decision in a family
SPREAD_SHARE = 1.0  # least spread of a cell, as a share of its peers': a few seeds may agree by chance
Key = TypeVar("Key")


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted by Holm's step-down procedure, in the order given.

    A hypothesis is rejected at `level` where its adjusted p-value is at most `level`. None stays None and does not add
    to the size of the family.
    """
    known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[index] = largest
    return adjusted


def shared_spread(estimates: Mapping[Key, Estimate]) -> dict[Key, Estimate]:
    """Return the estimates with standard errors of at least `SPREAD_SHARE` times the spread of all, over √units.

    The estimates are peers: cells of one column, or rows of one claim. Their spread is the root mean square of error
    times √units. Intervals stay as they are. Estimates without an error stay, and are not counted.
    """
    squares = [estimate.error**2 * estimate.units for estimate in estimates.values() if estimate.error is not None]
    least = SPREAD_SHARE * float(np.sqrt(np.mean(squares))) if squares else 0.0
    return {
        key: replace(estimate, error=max(estimate.error, least / estimate.units**0.5))
        if estimate.error is not None
        else estimate
        for key, estimate in estimates.items()
    }


def starred(columns: Sequence[Mapping[Key, Estimate]]) -> dict[Key, Estimate]:
    """Return the cells of a table, given by column with distinct keys, each with its `star`: +1, 0 or -1.

    All cells of all columns are one two-sided family, tested at `ERROR`. A cell that is not `judged` gets 0. The spread
    that a column shares (`shared_spread`) enters the tests, not the returned errors.
    """
    guarded = [estimate for column in columns for estimate in shared_spread(column).values()]
    cells = [item for column in columns for item in column.items()]
    stars = {}
    for (key, estimate), p in zip(cells, holm([two_sided(estimate) for estimate in guarded]), strict=True):
        shown = p is not None and p <= ERROR and estimate.value
        stars[key] = replace(estimate, star=int(np.sign(shown or 0.0)))
    return stars


def two_sided(estimate: Estimate) -> float | None:
    """Return the two-sided p-value of "the true value is zero"; None for a cell that is not `judged`."""
    if not estimate.judged:
        return None
    return min(1.0, 2 * min(shown_below(estimate, 0.0), shown_above(estimate, 0.0)))
