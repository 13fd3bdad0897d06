"""Ranges for one more run: the formula, their coverage by simulation, and the chance that several lie outside."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_analysis.statistics.prediction import MIN_RUNS, chance_of_as_many, prediction_interval

TRIALS = 20_000


def covered(reference, value, more=1):
    """Share of the rows of `reference` [trial, run] whose range holds the value."""
    ranges = (prediction_interval(row, more) for row in reference)
    return np.mean([low <= x <= high for (_, low, high), x in zip(ranges, value, strict=True)])


def test_the_range_is_the_textbook_one():
    values = [10.0, 12.0, 14.0, 16.0, 18.0]
    mean, low, high = prediction_interval(values)
    half = 2.7764451052 * 10**0.5 * (1 + 1 / 5) ** 0.5  # t with 4 degrees of freedom, variance 10
    assert (mean, low, high) == pytest.approx((14.0, 14 - half, 14 + half))
    _, low, high = prediction_interval(values, more=5)
    assert high - low == pytest.approx(2 * 2.7764451052 * 10**0.5 * (2 / 5) ** 0.5)


def test_no_spread_is_at_least_that_of_rounding():
    assert prediction_interval([50.0] * 6)[1:] == (50.0, 50.0)
    _, low, high = prediction_interval([50.0] * 6, rounding=0.1)
    assert high - low == pytest.approx(2 * 2.5705818356 * 0.1 * (7 / 6) ** 0.5)


@pytest.mark.parametrize("more", [1, 3])
def test_ninety_five_of_a_hundred_ranges_hold_what_comes_next(more):
    rng = np.random.default_rng(0)
    reference = rng.normal(50, 4, (TRIALS, 9))
    following = rng.normal(50, 4, (TRIALS, more)).mean(axis=1)
    assert covered(reference, following, more) == pytest.approx(0.95, abs=0.006)


def test_builds_that_differ_do_not_make_the_ranges_too_narrow():
    """Five seeds on two builds; the run that comes next starts from the first build and is one of the ten."""
    rng = np.random.default_rng(1)
    builds = rng.normal(0, 3, (TRIALS, 2))
    runs = np.repeat(builds, 5, axis=1) + rng.normal(50, 3, (TRIALS, 10))
    assert 0.94 < covered(runs[:, 1:], runs[:, 0]) < 0.985


@pytest.mark.parametrize(("values", "more"), [([1.0] * (MIN_RUNS - 1), 1), ([1.0] * MIN_RUNS, 0)])
def test_too_few_runs_give_no_range(values, more):
    with pytest.raises(ValueError, match=f"at least {MIN_RUNS}"):
        prediction_interval(values, more)


@given(st.integers(0, 20), st.integers(0, 20))
def test_the_chance_is_the_tail_of_a_binomial(outside, inside):
    ranges = outside + inside
    slow = sum(comb(ranges, k) * 0.05**k * 0.95 ** (ranges - k) for k in range(outside, ranges + 1))
    assert chance_of_as_many(outside, ranges) == pytest.approx(slow, abs=1e-12)
