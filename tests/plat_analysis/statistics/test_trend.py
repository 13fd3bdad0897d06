"""Page's test against its definition, and its error on blocks without a trend."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import falling, rising_p, slopes, trend_p


def by_counting(blocks):
    """The share of all orders within blocks whose Page statistic is at least the one seen (no ties)."""
    ranks = np.argsort(np.argsort(blocks, axis=1), axis=1) + 1
    weights = np.arange(1, ranks.shape[1] + 1)
    seen = (ranks @ weights).sum()
    sums = np.array([np.dot(order, weights) for order in permutations(weights)])
    totals = sums
    for _ in range(len(ranks) - 1):
        totals = np.add.outer(totals, sums).ravel()
    return (totals >= seen).mean()


@given(st.lists(st.permutations([1, 2, 3, 4]), min_size=2, max_size=3))
def test_the_p_value_is_the_share_of_all_orders(blocks):
    assert rising_p(blocks) == pytest.approx(by_counting(np.array(blocks)))


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=6), min_size=1, max_size=4))
def test_slopes_are_those_of_polyfit(blocks):
    blocks = [block[: min(map(len, blocks))] for block in blocks]
    for block, mine in zip(blocks, slopes(blocks), strict=True):
        assert mine == pytest.approx(np.polyfit(range(len(block)), block, 1)[0], abs=1e-9)


def test_both_tests_have_to_show_a_trend():
    """Ranks that rise in every block, and values that do not: one block falls by more than the others rise."""
    blocks = [[1.0, 2.0, 3.0]] * 6 + [[90.0, 2.0, 1.0]]
    slope = over_replicates({Replicate(None, seed): value for seed, value in enumerate(slopes(blocks))})
    assert rising_p(blocks) < 0.025 < trend_p(blocks, slope)


def test_equal_values_show_nothing_and_order_counts():
    assert rising_p([[1, 1, 1]] * 6) == 1.0
    rising = [[1, 2, 3, 4]] * 5
    assert rising_p(rising) < 0.001 < 0.9 < rising_p(falling(rising))
    with pytest.raises(ValueError, match="at least 3 conditions"):
        rising_p([[1, 2]])


def test_blocks_without_a_trend_are_rarely_said_to_have_one():
    rng = np.random.default_rng(0)
    found = sum(rising_p(rng.standard_normal((10, 4)) + rng.standard_normal((10, 1))) <= 0.025 for _ in range(500))
    assert found <= stats.binom.ppf(0.999, 500, 0.025)
