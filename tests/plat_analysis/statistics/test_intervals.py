"""Intervals against scipy, published examples and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics.intervals import (
    bootstrap_mean,
    combine_mean,
    newcombe_paired,
    newcombe_unpaired,
    t_interval,
    upper_bound,
    welch_lower_bound,
    wilson,
)
from plat_analysis.statistics.replicates import Replicate, over_replicates


@given(st.integers(1, 600), st.data())
def test_wilson_equals_scipy(n, data):
    k = data.draw(st.integers(0, n))
    low, high = wilson(k, n)
    oracle = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert low == pytest.approx(oracle.low, abs=1e-12) and high == pytest.approx(oracle.high, abs=1e-12)


def test_wilson_is_vectorised():
    low, high = wilson([0, 5, 10], 10)
    assert low.shape == (3,) and low[0] == 0.0 and high[2] == 1.0
    assert (low[1], high[1]) == tuple(float(x) for x in wilson(5, 10))


def pairs(both, first_only, second_only, neither):
    table = [(1, 1)] * both + [(1, 0)] * first_only + [(0, 1)] * second_only + [(0, 0)] * neither
    return np.array(table).T


def test_paired_difference_of_newcombes_example():
    # Newcombe (1998), table III: 36 both, 12 only the one, 2 only the other, 0 neither; method 10
    x, y = pairs(36, 2, 12, 0)
    low, high = newcombe_paired(x, y)
    assert (round(low, 4), round(high, 4)) == (0.0569, 0.3404)


def test_unpaired_difference_of_newcombes_example():
    # Newcombe (1998), table II, contrast (a): 56/70 - 48/80; method 10
    low, high = newcombe_unpaired(48 / 80, 80, 56 / 70, 70)
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=300))
def test_paired_difference_laws(rows):
    x, y = np.array(rows).T
    low, high = newcombe_paired(x, y)
    difference = y.mean() - x.mean()
    assert -1 - 1e-9 <= low <= difference + 1e-12 and difference - 1e-12 <= high <= 1 + 1e-9
    assert high - low > 0  # equal vectors still leave doubt
    back = newcombe_paired(y, x)
    assert (-back[1], -back[0]) == pytest.approx((low, high))


def test_paired_difference_is_like_the_bootstrap_for_many_instances():
    rng = np.random.default_rng(0)
    strength = rng.random(2000)
    x, y = (strength < 0.4).astype(int), (strength + 0.1 * rng.standard_normal(2000) < 0.5).astype(int)
    value, low, high = bootstrap_mean(y - x, seed=1)
    assert newcombe_paired(x, y) == pytest.approx((low, high), abs=0.003)
    assert value == pytest.approx(y.mean() - x.mean())


def test_pairing_tightens_the_interval_of_correlated_vectors():
    rng = np.random.default_rng(0)
    strength = rng.random(256)
    x, y = (strength < 0.5).astype(int), (strength < 0.55).astype(int)
    paired, unpaired = newcombe_paired(x, y), newcombe_unpaired(x.mean(), 256, y.mean(), 256)
    assert paired[1] - paired[0] < 0.6 * (unpaired[1] - unpaired[0])


def test_paired_difference_covers_the_truth():
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        strength = rng.random(120)
        noise = 0.2 * rng.standard_normal((2, 120))
        x, y = (strength + noise[0] < 0.4).astype(int), (strength + noise[1] < 0.5).astype(int)
        low, high = newcombe_paired(x, y)
        hits += low <= TRUE_DIFFERENCE <= high
    assert hits >= 370  # 95 % of 400 is 380, standard error 4.4


def _truth():
    z = stats.norm()
    grid = np.linspace(0, 1, 20001)
    return float(np.mean(z.cdf((0.5 - grid) / 0.2) - z.cdf((0.4 - grid) / 0.2)))


TRUE_DIFFERENCE = _truth()


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_t_interval_equals_scipy(values):
    mean, low, high = t_interval(values)
    scale = stats.sem(values)
    if scale == 0:
        assert low == pytest.approx(mean) and high == pytest.approx(mean)
        return
    oracle = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=scale)
    assert (low, high) == pytest.approx(oracle, rel=1e-9, abs=1e-9)


def test_t_interval_along_an_axis():
    values = np.arange(12.0).reshape(3, 4)
    mean, low, high = t_interval(values, axis=0)
    for column in range(4):
        assert (mean[column], low[column], high[column]) == tuple(t_interval(values[:, column]))


def test_combined_mean_is_the_stratified_bootstrap():
    rng = np.random.default_rng(2)
    strata = [(rng.random(400) < p).astype(float) for p in (0.1, 0.5, 0.9)]
    parts = [(s.mean(), *(float(b) for b in wilson(s.sum(), len(s)))) for s in strata]
    value, low, high = combine_mean(parts)
    resampled = np.mean([s[rng.integers(400, size=(4000, 400))].mean(axis=1) for s in strata], axis=0)
    assert value == pytest.approx(np.mean([s.mean() for s in strata]))
    assert (low, high) == pytest.approx(tuple(np.quantile(resampled, [0.025, 0.975])), abs=0.004)


def test_bootstrap_is_a_function_of_its_seed():
    values = np.random.default_rng(0).random(50)
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3) != bootstrap_mean(values, seed=4)
    low, high = stats.t.interval(0.95, 49, loc=values.mean(), scale=stats.sem(values))
    assert bootstrap_mean(values, seed=3)[1:] == pytest.approx((low, high), abs=0.015)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=30), st.lists(st.floats(0, 1), min_size=3, max_size=30))
def test_the_welch_bound_equals_scipy(first, second):
    if min(np.std(first), np.std(second)) < 1e-3:
        return
    test = stats.ttest_ind(first, second, equal_var=False, alternative="greater")
    low = test.confidence_interval(0.99).low
    assert welch_lower_bound(first, second, 0.99) == pytest.approx(low, rel=1e-6, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_the_upper_bound_equals_scipy(values):
    if np.std(values) < 1e-3:
        assert upper_bound(values, 0.999) == pytest.approx(np.mean(values), abs=1)
        return
    high = stats.ttest_1samp(values, 0, alternative="less").confidence_interval(0.999).high
    assert upper_bound(values, 0.999) == pytest.approx(high)


def test_p_values_equal_scipy():
    values = {Replicate(None, seed): value for seed, value in enumerate([1.0, 4.0, 2.5, 3.0])}
    estimate = over_replicates(values, wanted=4)
    for bound in (-1.0, 2.0, 5.0):
        below = stats.ttest_1samp(list(values.values()), bound, alternative="less").pvalue
        assert estimate.p_above(bound) == pytest.approx(1 - below)
    assert estimate.scaled(-2).high == pytest.approx(-2 * estimate.low)
    assert over_replicates({Replicate(None, 0): 1.0}, wanted=1).p_above(0.0) is None
