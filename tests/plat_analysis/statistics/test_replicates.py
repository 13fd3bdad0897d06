"""From single runs to an estimate over seeds or builds: never an interval from fewer than three."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics.intervals import t_interval
from plat_analysis.statistics.replicates import Replicate, over_replicates


def seeds(values):
    return {Replicate(None, seed): value for seed, value in enumerate(values)}


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=12))
def test_one_build_is_students_t_over_seeds(values):
    estimate = over_replicates(seeds(values), wanted=len(values))
    assert [estimate.value, estimate.low, estimate.high] == pytest.approx([float(x) for x in t_interval(values)])
    assert estimate.over == "seeds" and estimate.units == len(values) and estimate.complete


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.7]])
def test_below_three_seeds_there_is_no_interval(values):
    estimate = over_replicates(seeds(values), wanted=3, note="n")
    assert (estimate.low, estimate.error, estimate.over) == (None, None, "") and estimate.seeds == len(values)
    assert estimate.value == (pytest.approx(np.mean(values)) if values else None)


def test_nested_builds_are_averaged_first():
    values = {Replicate(build, 10 * build + i): 5.0 * build + i for build in range(4) for i in range(3)}
    estimate = over_replicates(values, wanted=12)
    means = [5.0 * build + 1 for build in range(4)]
    assert [estimate.value, estimate.low, estimate.high] == pytest.approx([float(x) for x in t_interval(means)])
    assert (estimate.over, estimate.units, estimate.seeds) == ("builds", 4, 12)


def test_these_builds_before_training_leave_nothing_to_chance():
    values = {Replicate(build, seed): float(build) for build in range(3) for seed in range(5)}
    fixed = over_replicates(values, seedless=True, builds="fixed", wanted=15)
    assert (fixed.value, fixed.low, fixed.about) == (1.0, None, "these 3 builds")
    such = over_replicates(values, seedless=True, wanted=15)
    assert (such.over, such.about, such.units) == ("builds", "such builds", 3)


def test_two_builds_give_a_mean_and_no_interval():
    values = {Replicate(build, seed): float(seed) for build in range(2) for seed in range(10)}
    estimate = over_replicates(values, wanted=20)
    assert estimate.value == pytest.approx(4.5) and estimate.error is None


def test_a_seed_that_builds_share_is_a_second_source_of_chance():
    values = {Replicate(build, seed): 10.0 * seed for build in range(5) for seed in range(3)}
    estimate = over_replicates(values, wanted=15)  # builds agree exactly; only the seed matters
    assert estimate.error == pytest.approx(np.std([0, 10, 20], ddof=1) / np.sqrt(3)) and estimate.units == 3


def test_two_fixed_builds_are_strata():
    """The same as a regression on one indicator for each build, whose least squares are scipy's here."""
    rng = np.random.default_rng(2)
    values = {Replicate(build, seed): 20.0 * build + rng.normal() for build in range(2) for seed in range(5)}
    estimate = over_replicates(values, builds="fixed", wanted=10)
    design = np.array([[replicate.build == 0, replicate.build == 1] for replicate in values], float)
    numbers = np.array(list(values.values()))
    coefficients, (squares,), _, _ = np.linalg.lstsq(design, numbers, rcond=None)
    half = stats.t.ppf(0.975, 8) * np.sqrt(squares / 8 * (0.25 * np.linalg.inv(design.T @ design)).sum())
    assert estimate.value == pytest.approx(coefficients.mean())
    assert (estimate.low, estimate.high) == pytest.approx((coefficients.mean() - half, coefficients.mean() + half))
    assert (estimate.freedom, estimate.units, estimate.about, estimate.over) == (8, 10, "these 2 builds", "seeds")


def test_builds_of_unequal_size_have_equal_weight():
    values = {Replicate(0, seed): 1.0 + seed % 2 for seed in range(6)} | {Replicate(1, seed): 5.0 for seed in range(2)}
    estimate = over_replicates(values, builds="fixed", wanted=8)
    assert estimate.value == pytest.approx((1.5 + 5.0) / 2) and estimate.freedom == 6
    assert estimate.error == pytest.approx(np.sqrt(6 * 0.25 / 6 * (1 / 6 + 1 / 2)) / 2)


def test_one_build_is_the_same_either_way():
    values = {Replicate(3, seed): 1.0 * seed**2 for seed in range(5)}
    assert over_replicates(values, builds="fixed", wanted=5) == over_replicates(values, wanted=5)
    assert over_replicates(values, wanted=5).about == "this build"


@pytest.mark.parametrize("builds, seeds, judged", [(1, 4, False), (1, 5, True), (2, 3, True), (2, 2, False)])
def test_five_units_may_be_judged(builds, seeds, judged):
    values = {Replicate(build, seed): float(seed) for build in range(builds) for seed in range(seeds)}
    assert over_replicates(values, builds="fixed", wanted=len(values)).judged == judged
    assert not over_replicates(values, builds="fixed", wanted=len(values) + 1).judged  # a run is missing


@pytest.mark.parametrize("builds, judged", [(2, False), (3, False), (5, True)])
def test_such_builds_are_judged_from_five_builds_on(builds, judged):
    values = {Replicate(build, seed): float(seed + build) for build in range(builds) for seed in range(5)}
    assert over_replicates(values, wanted=len(values)).judged == judged


def crossed(table):
    return {Replicate(b, s): float(value) for b, row in enumerate(table) for s, value in enumerate(row)}


def mean_squares(table):
    """Of builds, seeds and the residual, by loops over the cells of a two-way table."""
    builds, seeds = len(table), len(table[0])
    grand = sum(map(sum, table)) / (builds * seeds)
    rows = [sum(row) / seeds for row in table]
    columns = [sum(row[s] for row in table) / builds for s in range(seeds)]
    of_builds = seeds * sum((mean - grand) ** 2 for mean in rows) / (builds - 1)
    of_seeds = builds * sum((mean - grand) ** 2 for mean in columns) / (seeds - 1)
    rest = sum((table[b][s] - rows[b] - columns[s] + grand) ** 2 for b in range(builds) for s in range(seeds))
    return of_builds, of_seeds, rest / ((builds - 1) * (seeds - 1))


@pytest.mark.parametrize("of_build, of_seed", [(3.0, 3.0), (3.0, 0.0), (0.0, 3.0), (0.0, 0.0)])
def test_crossed_builds_and_seeds_against_an_analysis_of_variance(of_build, of_seed):
    random = np.random.default_rng(4)
    for _ in range(20):
        noise = random.normal(size=(6, 5))
        table = (noise + of_build * random.normal(size=(6, 1)) + of_seed * random.normal(size=(1, 5))).tolist()
        b, s, rest = mean_squares(table)
        estimate = over_replicates(crossed(table), wanted=30)
        variance = max(b + s - rest, b, s)
        freedom = max(variance**2 / (b**2 / 5 + s**2 / 4 + rest**2 / 20), 4)
        assert estimate.error == pytest.approx((variance / 30) ** 0.5) and estimate.freedom == pytest.approx(freedom)
        half = stats.t.ppf(0.975, freedom) * (variance / 30) ** 0.5
        assert estimate.high - estimate.value == pytest.approx(half) and estimate.units == 5


def test_an_incomplete_crossing_counts_the_residual_twice():
    table = np.random.default_rng(4).normal(size=(5, 5))
    values = dict(list(crossed(table).items())[1:])
    estimate = over_replicates(values, wanted=24)
    of_builds = [np.mean(table[b][b == 0 :]) for b in range(5)]
    of_seeds = [np.mean(table[s == 0 :, s]) for s in range(5)]
    assert estimate.error**2 == pytest.approx((np.var(of_builds, ddof=1) + np.var(of_seeds, ddof=1)) / 5)
    assert estimate.freedom == 4


def test_four_builds_of_many_seeds_are_not_judged():
    table = np.random.default_rng(0).normal(size=(4, 30)) + np.arange(30)
    estimate = over_replicates(crossed(table), wanted=120)
    assert estimate.freedom > 4 and not estimate.judged


def test_crossed_values_have_at_least_the_spread_of_rounding():
    estimate = over_replicates(crossed(np.full((5, 5), 0.4)), 0.16, wanted=25)
    assert estimate.error == pytest.approx(0.16 * (2 / 5) ** 0.5)
    assert over_replicates(crossed(np.full((5, 5), 0.4)), wanted=25).p_above(0.0) == 1.0


@pytest.mark.parametrize("of_build, of_seed, noise", [(1, 1, 0.3), (1, 0, 1), (0, 1, 1), (0, 0, 1), (1, 1, 1)])
@pytest.mark.parametrize("builds, seeds", [(4, 3), (6, 5)])
def test_a_crossed_design_keeps_its_level(of_build, of_seed, noise, builds, seeds):
    rng, wrong = np.random.default_rng(1), 0
    for _ in range(1000):
        table = of_build * rng.normal(size=(builds, 1)) + of_seed * rng.normal(size=(1, seeds))
        estimate = over_replicates(crossed(table + noise * rng.normal(size=(builds, seeds))), wanted=builds * seeds)
        wrong += not estimate.low < 0 < estimate.high
    assert wrong / 1000 < 0.05 + 0.018


def test_the_spread_is_at_least_that_of_rounding():
    estimate = over_replicates(seeds([0.4, 0.4, 0.4]), 0.16, wanted=3)
    assert estimate.error == pytest.approx(0.16 / np.sqrt(3))
    without = over_replicates(seeds([0.4, 0.4, 0.4]), wanted=3)
    assert without.p_above(0.0) == 1.0  # no spread was seen: nothing is shown
