"""Rank correlations over settings: against scipy where the two agree, laws, planted effects and Simpson's reversal."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from plat_analysis.statistics import correlation
from plat_analysis.statistics.correlation import apart, between, over_runs, partial, within
from plat_analysis.statistics.orders import column_orders, orders, orders_within, smallest_p

SHAPE = (7, 2, 3)
values = arrays(np.float64, SHAPE, elements=st.integers(-20, 20).map(float))
alone = arrays(np.float64, (6, 1, 1), elements=st.integers(0, 9).map(float))
PARTS = [between, apart, within]


@pytest.fixture(autouse=True)
def few_resampled(monkeypatch):
    """Intervals are not what most tests here are about."""
    monkeypatch.setattr(correlation, "RESAMPLED", 50)


def rho(x, y):
    constant = len(set(x)) == 1 or len(set(y)) == 1
    return 0.0 if constant else stats.spearmanr(x, y).statistic


def test_perfect_order_is_one_and_no_last_digit_more():
    x = np.zeros((7, 2, 3))
    x[[0, 1, 2, 3], [1, 0, 1, 0], [2, 2, 2, 2]] = 1, -1, -1, 1  # its ranks have ties; the sum of products was 1 + 2e-16
    found = between(x, x)
    assert found.rho <= 1 and found.high <= 1 and between(x, -x).low >= -1


@settings(max_examples=20, deadline=None)
@given(alone, alone)
def test_one_run_a_setting_is_spearmans_correlation_with_its_permutation_test(x, y):
    mine = between(x, y)
    first, second = x.ravel(), y.ravel()
    assert mine.rho == pytest.approx(rho(first, second))
    for alternative, p in (("greater", mine.above), ("less", mine.below)):
        theirs = stats.permutation_test(
            (first,),
            lambda order: rho(order, second),
            permutation_type="pairings",
            alternative=alternative,
            n_resamples=np.inf,
            vectorized=False,
        )
        assert p == pytest.approx(theirs.pvalue)


def test_the_statistics_are_those_of_scipy():
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 9, 3, 4))
    means = x.mean(axis=2), y.mean(axis=2)
    of_builds = np.array([[rho(means[0][:, b], means[1][:, c]) for c in range(3)] for b in range(3)])
    assert between(x, y).rho == pytest.approx(np.diag(of_builds).mean())
    others = [np.mean(np.delete(side, 0, axis=1), axis=1) for side in means]
    first = np.mean([rho(means[0][:, 0], others[1]), rho(others[0], means[1][:, 0])])
    turned = [[side[:, [1, 0, 2]] for side in means], [side[:, [2, 1, 0]] for side in means]]
    rests = [[rho(a[:, 0], b[:, 1:].mean(axis=1)), rho(a[:, 1:].mean(axis=1), b[:, 0])] for a, b in turned]
    assert apart(x, y).rho == pytest.approx(np.mean([first, *np.mean(rests, axis=1)]))
    rests = [s - s.mean(2, keepdims=True) - s.mean(0, keepdims=True) + s.mean((0, 2), keepdims=True) for s in (x, y)]
    assert within(x, y).rho == pytest.approx(rho(*(rest.ravel() for rest in rests)))
    assert over_runs(x, y) == pytest.approx(rho(x.ravel(), y.ravel()))
    strength = random.standard_normal(9)
    x, y = x[:, :1], y[:, :1]
    ranks = [stats.rankdata(side.mean(axis=2).ravel()) for side in (x, y)]
    freed = [side - np.polyval(np.polyfit(strength, side, 1), strength) for side in ranks]
    assert partial(x, y, strength[:, None]).rho == pytest.approx(np.corrcoef(*freed)[0, 1])


@settings(max_examples=20, deadline=None)
@given(values, values, st.randoms(use_true_random=False))
def test_laws(x, y, random):
    order = list(range(len(x)))
    random.shuffle(order)
    seeds = random.sample(range(x.shape[2]), x.shape[2])
    for part in PARTS:
        found = part(x, y)
        turned, relabelled, scaled = part(y, x), part(x[order], y[order]), part(2 * x + 4, y)
        assert turned.rho == pytest.approx(found.rho) and turned.above == pytest.approx(found.above)
        assert relabelled.rho == pytest.approx(found.rho) and relabelled.above == pytest.approx(found.above)
        assert scaled == found
        assert part(x[:, :, seeds], y[:, :, seeds]).above == pytest.approx(found.above)
        mirrored = part(-x, y)
        assert mirrored.rho == pytest.approx(-found.rho) and mirrored.above == pytest.approx(found.below)
        assert -1 <= found.low <= found.rho <= found.high <= 1 and 0 < found.p <= 1


@settings(max_examples=20, deadline=None)
@given(alone, alone)
def test_of_one_run_a_setting_only_ranks_count(x, y):
    assert between(np.exp(x), y) == between(x, y) == between(x, y**3)


def test_covariates_that_say_nothing_change_nothing_much():
    x, y = np.random.default_rng(1).standard_normal((2, *SHAPE))
    assert partial(x, y, np.zeros((7, 1))).rho == pytest.approx(between(x, y).rho)
    with pytest.raises(ValueError, match="too few"):
        partial(x, y, np.eye(7)[:, :2])


def test_simpsons_reversal_both_parts_are_found():
    random = np.random.default_rng(2)
    settings, run = random.standard_normal((12, 1, 1)), random.standard_normal((12, 2, 5))
    x, y = 3 * settings + run, 3 * settings - run
    assert between(x, y).rho > 0.8 and between(x, y).above < 0.001
    assert apart(x, y).above < 0.001
    assert within(x, y).rho < -0.8 and within(x, y).below < 0.001
    assert over_runs(x, y) > 0.5  # and all runs together hide it


def test_what_a_strength_explains_is_taken_away():
    random = np.random.default_rng(3)
    strength = np.linspace(0, 1, 18)
    x, y = 5 * strength[:, None, None] + random.standard_normal((2, 18, 2, 5))
    assert between(x, y).above < 0.001
    assert partial(x, y, strength[:, None]).above > 0.05
    noise = random.standard_normal((18, 1, 1))
    assert partial(x + 3 * noise, y + 3 * noise, strength[:, None]).above < 0.001


def test_few_settings_in_perfect_order_have_a_wide_interval():
    found = between(np.arange(6.0).reshape(6, 1, 1), np.arange(6.0).reshape(6, 1, 1))
    assert found.rho == pytest.approx(1.0) and found.low < 0.9 and found.above == pytest.approx(1 / 720)


def test_equal_values_show_nothing():
    x, y = np.ones(SHAPE), np.random.default_rng(4).standard_normal(SHAPE)
    for part in PARTS:
        assert (part(x, y).rho, part(x, y).above, part(x, y).below) == (0.0, 1.0, 1.0)


def test_equal_means_of_other_numbers_are_ties():
    """.1 + .2 is not .3 in binary: the means of a setting would have an order that its runs have not."""
    x = np.full((6, 1, 3), 0.2)
    x[:3, 0] = 0.1, 0.2, 0.3
    assert between(x, np.arange(18.0).reshape(6, 1, 3)).rho == 0.0


def test_missing_runs():
    x, y = np.random.default_rng(5).standard_normal((2, *SHAPE))
    x[0, 0, 0] = np.nan
    kept = y.copy()
    kept[0, 0, 0] = 99.0  # no part of it without its partner
    assert between(x, y) == between(x, kept)
    with pytest.raises(ValueError, match="a run is missing"):
        within(x, y)
    x[0, 0] = np.nan
    with pytest.raises(ValueError, match="no run in some build"):
        between(x, y)
    with pytest.raises(ValueError, match="at least 6 settings"):
        between(x[1:6], y[1:6])


def test_a_bound_other_than_zero_is_judged_on_fishers_scale():
    random = np.random.default_rng(6)
    settings = random.standard_normal((18, 1, 1))
    x, y = settings + random.standard_normal((2, 18, 2, 5))
    assert between(x, y).p_under(0.3) > 0.5 and between(x, -y).p_under(0.3) < 0.001
    found = between(x, y)
    assert found.p_under(found.high) == pytest.approx(0.025, abs=1e-6)


def test_orders():
    assert len(orders(4)) == 24 and (orders(4)[0] == range(4)).all() and len(orders(9)) == 20_001
    products = np.random.default_rng(7).standard_normal((2, 3, 3))
    every = column_orders(products)
    assert len(every) == 36 and every[0] == pytest.approx(np.trace(products[0]) + np.trace(products[1]))
    many = column_orders(np.zeros((3, 5, 5)))
    assert len(many) == 20_001


# The test that decides: measure and outcome of different runs, settings permuted within families.

FAMILIES = [
    ["a"] * 4 + ["b"] * 3,
    ["a", "b", "a", "b", "a", "c", "a"],
    ["a"] * 7,
]
one_build = arrays(np.float64, (7, 1, 4), elements=st.integers(-9, 9).map(float))


def slow_apart(x, y, families):
    """The correlation and its upper p-value in plain loops: every permutation within families, every pair of sides."""
    units = (x.mean(axis=2), y.mean(axis=2)) if x.shape[1] > 1 else (x[:, 0], y[:, 0])
    count, places = units[0].shape[1], range(len(x))

    def centred(column):
        ranks = stats.rankdata(np.round(column, 9))
        return [ranks[i] - np.mean([ranks[j] for j in places if families[j] == families[i]]) for i in places]

    def correlation(a, b):
        scale = np.sqrt(sum(v * v for v in a) * sum(v * v for v in b))
        return sum(v * w for v, w in zip(a, b, strict=True)) / scale if scale > 1e-9 else 0.0

    sides = []
    for taken in itertools.product([True, False], repeat=count):
        half, rest = ([unit for unit in range(count) if taken[unit] is side] for side in (True, False))
        if abs(len(half) - len(rest)) <= 1:
            sides.append((centred(units[0][:, half].mean(axis=1)), centred(units[1][:, rest].mean(axis=1))))
    observed = np.mean([correlation(a, b) for a, b in sides])
    reached, orders_seen = 0.0, 0
    for order in itertools.permutations(places):
        if any(families[i] != families[j] for i, j in enumerate(order)):
            continue
        orders_seen += 1
        hits = [correlation(a, [b[i] for i in order]) >= observed - 1e-9 for a, b in sides]
        reached += 1.0 if list(order) == list(places) else np.mean(hits)
    return observed, reached / orders_seen


@pytest.mark.parametrize("families", FAMILIES[:2])
@pytest.mark.parametrize("shape", [(7, 2, 3), (7, 3, 2), (7, 1, 4), (7, 1, 5)])
def test_the_deciding_test_is_that_of_plain_loops(shape, families):
    for seed in range(4):
        x, y = np.random.default_rng(seed).integers(0, 5, (2, *shape)).astype(float)  # with ties
        y += seed * x / 2
        found, (slow, p) = apart(x, y, families), slow_apart(x, y, families)
        assert found.rho == pytest.approx(slow) and found.above == pytest.approx(p)
        assert apart(x, -y, families).below == pytest.approx(p)


@settings(max_examples=20, deadline=None)
@given(one_build, one_build, st.sampled_from(FAMILIES), st.randoms(use_true_random=False))
def test_laws_of_the_deciding_test(x, y, families, random):
    found = apart(x, y, families)
    order = list(range(len(x)))
    random.shuffle(order)
    moved = apart(x[order], y[order], [families[i] for i in order])
    assert moved.rho == pytest.approx(found.rho) and moved.above == pytest.approx(found.above)
    seeds = random.sample(range(x.shape[2]), x.shape[2])
    assert apart(x[:, :, seeds], y[:, :, seeds], families).above == pytest.approx(found.above)
    assert apart(2 * x + 3, y, families).rho == pytest.approx(found.rho)
    assert apart(x, -y, families).below == pytest.approx(found.above)
    assert found.above >= smallest_p(families) - 1e-12


two_builds = arrays(np.float64, (7, 2, 1), elements=st.integers(-9, 9).map(float))


@settings(max_examples=20, deadline=None)
@given(two_builds, two_builds, st.sampled_from(FAMILIES))
def test_of_two_runs_in_two_builds_only_ranks_count(x, y, families):
    assert apart(np.exp(x / 3), y**3, families) == apart(x, y, families)


def test_noise_that_both_measures_of_a_run_share_is_not_found():
    """Settings that do not differ: the noise of a run moves both measures."""
    noise = np.random.default_rng(8).standard_normal((18, 2, 5))
    assert between(noise, noise).rho == pytest.approx(1.0)
    assert apart(noise, noise).above > 0.025 and apart(noise[:, :1], noise[:, :1]).above > 0.025
    x, y = np.random.default_rng(9).standard_normal((2, 18, 2, 5))
    y[:, 1] = x[:, 0]  # the outcome of one build is the measure of the other
    assert apart(x, y).rho > 0.4


def test_a_difference_between_families_is_not_found():
    random = np.random.default_rng(10)
    families = [0] * 6 + [1] * 12
    levels = 9.0 * np.array(families)[:, None, None]
    x, y = levels + random.standard_normal((2, 18, 2, 5))
    assert apart(x, y).above < 0.01 < 0.025 < apart(x, y, families).above
    own = random.standard_normal((18, 1, 1))
    assert apart(x + 3 * own, y + 3 * own, families).above < 0.001


def test_settings_alone_in_their_family_add_nothing():
    x, y = np.random.default_rng(11).standard_normal((2, 9, 2, 2))
    families = [0] * 6 + [1, 2, 3]
    x[6:] = y[6:] = np.array([100.0, 200.0, 300.0])[:, None, None]  # the largest of both
    y_turned = y.copy()
    y_turned[6:] = y[:5:-1]  # in the opposite order
    found, turned = apart(x, y, families), apart(x, y_turned, families)
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(turned), rel=1e-12)
    assert apart(x, y).rho > found.rho
    assert apart(x, y, range(9)).above == 1.0 and smallest_p(range(9)) == 1.0


def test_one_run_or_a_hole_in_one_build_leaves_nothing_to_compare():
    x, y = np.random.default_rng(12).standard_normal((2, 7, 1, 3))
    assert apart(x[:, :, :1], y[:, :, :1]) is None
    x[0, 0, 0] = np.nan
    assert apart(x, y) is None
    with pytest.raises(ValueError, match="too few"):
        apart(y, y, None, np.eye(7)[:, :3])


def test_orders_within_families():
    found = orders_within(["a", "b", "a", "b", "c"])
    assert sorted(map(tuple, found)) == [(0, 1, 2, 3, 4), (0, 3, 2, 1, 4), (2, 1, 0, 3, 4), (2, 3, 0, 1, 4)]
    assert tuple(found[0]) == (0, 1, 2, 3, 4) and smallest_p(["a", "b", "a", "b", "c"]) == 1 / 4
    many = orders_within([0] * 9 + [1] * 8)
    assert len(many) == 20_001 and (many[0] == np.arange(17)).all() and smallest_p([0] * 9 + [1] * 8) == 1 / 20_001
    assert (np.sort(many[:, :9]) == np.arange(9)).all() and (np.sort(many[:, 9:]) == np.arange(9, 17)).all()
    firsts = np.bincount(many[:, 0], minlength=9) / len(many)
    assert abs(firsts - 1 / 9).max() < 0.02


def test_many_seeds_are_split_at_random():
    x, y = np.random.default_rng(13).standard_normal((2, 9, 1, 12)) + np.arange(9.0)[:, None, None]
    halves = correlation._halves(12, 0)
    assert halves.shape == (12, correlation.SPLITS) and np.allclose(halves.sum(axis=0), 1)
    assert (np.count_nonzero(halves, axis=0) == 6).all() and len({tuple(half) for half in halves.T}) > 60
    assert apart(x, y).rho > 0.9 and apart(x, y).above < 0.001
