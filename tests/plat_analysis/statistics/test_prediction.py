"""Ranges for one more run: the formula, their coverage by simulation, and the chance that several lie outside."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_analysis.statistics.replicates import MIN_RUNS, chance_of_as_many, prediction_interval, too_few

TRIALS = 5_000


def of_one_build(values, more=1, rounding=0.0):
    return prediction_interval({0: list(values)}, {0: more}, rounding)


def share_covered(ranges, values):
    return np.mean([low <= x <= high for (_, low, high), x in zip(ranges, values, strict=True)])


def simulated(builds, between, seed):
    """[trial, build, run]: ten runs of each build, with a standard deviation of 3 within a build; a row more, at the
    end, for a build that no reference has."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(50, between, (TRIALS, builds + 1, 1))
    return levels + rng.normal(0, 3, (TRIALS, builds + 1, 5))


def test_the_range_is_the_textbook_one():
    values = [10.0, 12.0, 14.0, 16.0, 18.0]
    mean, low, high = of_one_build(values)
    half = 2.7764451052 * 10**0.5 * (1 + 1 / 5) ** 0.5  # t with 4 degrees of freedom, variance 10
    assert (mean, low, high) == pytest.approx((14.0, 14 - half, 14 + half))
    _, low, high = of_one_build(values, more=5)
    assert high - low == pytest.approx(2 * 2.7764451052 * 10**0.5 * (2 / 5) ** 0.5)


def test_no_spread_is_at_least_that_of_rounding():
    assert of_one_build([50.0] * 6)[1:] == (50.0, 50.0)
    _, low, high = of_one_build([50.0] * 6, rounding=0.1)
    assert high - low == pytest.approx(2 * 2.5705818356 * 0.1 * (7 / 6) ** 0.5)


@pytest.mark.parametrize("more", [1, 3])
def test_ninety_five_of_a_hundred_ranges_hold_what_comes_next(more):
    rng = np.random.default_rng(0)
    reference = rng.normal(50, 4, (TRIALS, 9))
    following = rng.normal(50, 4, (TRIALS, more)).mean(axis=1)
    ranges = [of_one_build(row, more) for row in reference]
    assert share_covered(ranges, following) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("between", [0.0, 3.0, 13.0])
def test_a_run_is_expected_around_the_level_of_its_own_build(between):
    """Five seeds on two builds; the run that comes next is one of the first build, however far apart they are."""
    runs = simulated(2, between, seed=1)
    ranges = [prediction_interval({0: first[1:], 1: second}, {0: 1}) for first, second, _ in runs]
    assert share_covered(ranges, runs[:, 0, 0]) == pytest.approx(0.95, abs=0.012)
    alike = np.median([high - low for _, low, high in ranges])
    one_build = [of_one_build(first) for first, _, _ in runs[:500]]
    assert alike < np.median([high - low for _, low, high in one_build]), "no wider because of the other build"


@pytest.mark.parametrize("between", [0.0, 3.0, 13.0])
def test_a_run_of_another_build_is_expected_where_builds_are(between):
    runs = simulated(4, between, seed=2)
    ranges = [prediction_interval(dict(enumerate(trial[:4])), {4: 1}) for trial in runs]
    assert share_covered(ranges, runs[:, 4, 0]) > 0.94, "more often where builds hardly differ"


def test_a_mean_over_builds_is_expected_around_theirs():
    runs = simulated(2, 13.0, seed=3)
    ranges = [prediction_interval({0: first[2:], 1: second[2:]}, {0: 2, 1: 2}) for first, second, _ in runs]
    assert share_covered(ranges, runs[:, :2, :2].mean(axis=(1, 2))) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(
    ("values", "more"),
    [({0: [1.0] * (MIN_RUNS - 1)}, {0: 1}), ({0: [1.0] * 9}, {}), ({0: [1.0] * 9, 1: [2.0] * 9}, {2: 1})],
)
def test_too_few_runs_or_builds_give_no_range(values, more):
    assert prediction_interval(values, more) is None


@given(
    st.dictionaries(st.integers(0, 3), st.lists(st.floats(0, 1), max_size=6), min_size=1).filter(
        lambda values: any(values.values())
    ),
    st.dictionaries(st.integers(0, 3), st.integers(1, 3), min_size=1),
)
def test_what_is_lacking_is_said_exactly_where_there_is_no_range(values, more):
    assert bool(too_few(values, more)) == (prediction_interval(values, more) is None)


def test_what_is_lacking_counts_runs_or_builds():
    assert too_few({0: [1.0] * 4}, {0: 1}) == "4 of 5" and too_few({0: [1.0] * 3, 1: [1.0]}, {0: 1}) == "4 of 6"
    assert too_few({0: [1.0] * 9}, {7: 1}) == "1 of 3 builds"


@given(st.integers(0, 20), st.integers(0, 20))
def test_the_chance_is_the_tail_of_a_binomial(outside, inside):
    ranges = outside + inside
    slow = sum(comb(ranges, k) * 0.05**k * 0.95 ** (ranges - k) for k in range(outside, ranges + 1))
    assert chance_of_as_many(outside, ranges) == pytest.approx(slow, abs=1e-12)
