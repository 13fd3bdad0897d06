"""From single runs to an estimate over seeds or builds: never an interval from fewer than three."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_two_builds_give_a_mean_and_no_interval():
    values = {Replicate(build, seed): float(seed) for build in range(2) for seed in range(10)}
    estimate = over_replicates(values, wanted=20)
    assert estimate.value == pytest.approx(4.5) and estimate.error is None


def test_a_seed_that_builds_share_is_a_second_source_of_chance():
    values = {Replicate(build, seed): 10.0 * seed for build in range(5) for seed in range(3)}
    estimate = over_replicates(values, wanted=15)  # builds agree exactly; only the seed matters
    assert estimate.error == pytest.approx(np.std([0, 10, 20], ddof=1) / np.sqrt(3)) and estimate.units == 3


def test_a_crossed_design_keeps_its_level():
    rng = np.random.default_rng(1)
    builds, crossed, wrong = 4, 3, 0
    for _ in range(1500):
        of_build, of_seed = rng.normal(size=builds), rng.normal(size=crossed)
        noise = 0.3 * rng.normal(size=(builds, crossed))
        values = {
            Replicate(b, s): of_build[b] + of_seed[s] + noise[b, s] for b in range(builds) for s in range(crossed)
        }
        estimate = over_replicates(values, wanted=builds * crossed)
        wrong += not estimate.low < 0 < estimate.high
    assert wrong / 1500 < 0.05 + 0.015


def test_the_spread_is_at_least_that_of_rounding():
    estimate = over_replicates(seeds([0.4, 0.4, 0.4]), 0.16, wanted=3)
    assert estimate.error == pytest.approx(0.16 / np.sqrt(3))
    without = over_replicates(seeds([0.4, 0.4, 0.4]), wanted=3)
    assert without.p_above(0.0) == 1.0  # no spread was seen: nothing is shown
