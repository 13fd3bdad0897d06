"""Flips of signs against scipy's permutation test, and what they decide beside Student's t."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import (
    EXACT,
    OWN_SPREAD,
    shared_spread,
    shown_above,
    shown_below,
    sign_flip_p,
)


def of(values, builds=1):
    numbers = {Replicate(seed % builds, seed): float(value) for seed, value in enumerate(values)}
    return over_replicates(numbers, builds="fixed", wanted=len(numbers))


@given(st.lists(st.integers(-20, 20), min_size=3, max_size=9))
def test_all_flips_are_those_of_scipy(values):
    test = stats.permutation_test(
        (np.array(values, float),), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="greater"
    )
    assert sign_flip_p(values) == pytest.approx(float(test.pvalue))


def test_drawn_flips_are_near_all_of_them():
    values = np.random.default_rng(3).normal(0.5, 1, EXACT + 3)
    signs = 2.0 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1) - 1
    every = (signs @ values >= values.sum()).mean()
    assert sign_flip_p(values) == pytest.approx(every, abs=0.005) and sign_flip_p(values) == sign_flip_p(values)


def test_five_that_agree_are_judged_by_students_t():
    agreeing = of([9, 10, 11, 12, 13])
    assert shown_above(agreeing, 0.0) == agreeing.p_above(0.0) < 0.001 < sign_flip_p(agreeing.samples[0])
    assert shown_below(agreeing.scaled(-1), 0.0) == pytest.approx(shown_above(agreeing, 0.0))
    assert shown_above(agreeing, 9.5) == sign_flip_p([-0.5, 0.5, 1.5, 2.5, 3.5]), "one contradicts this bound"


def test_four_that_agree_and_one_that_says_nothing_are_not_five():
    assert shown_above(of([9, 10, 11, 12, 0]), 0.0) == 2 / 32
    ten = of([9, 10, 11, 12, 0, 9, 10, 11, 12, 13], builds=2)
    assert shown_above(ten, 0.0) == ten.p_above(0.0), "nine say the same, and none contradicts"


def test_from_eight_on_sign_flips_count_unless_the_shared_spread_shows_more():
    for count in (OWN_SPREAD - 1, OWN_SPREAD):
        wild = of(30 * np.random.default_rng(1).standard_normal(count))
        calm = shared_spread({"calm": of(10 + np.arange(count)), "wild": wild})["calm"]
        by_shared = calm.p_above(0.0, calm.shared_error)
        own = count >= OWN_SPREAD
        assert by_shared > 0.01 and shown_above(calm, 0.0) == pytest.approx(0.5**count if own else by_shared)
        assert (calm.error < calm.shared_error) == own
    peers = shared_spread({row: of(10 + np.arange(OWN_SPREAD)) for row in "ab"})["a"]
    assert shown_above(peers, 0.0) == peers.p_above(0.0) < 0.5**OWN_SPREAD
    assert peers.scaled(-100).shared_error == pytest.approx(100 * peers.shared_error)


@pytest.mark.parametrize("count, most", [(6, 0.025), (7, 0.025), (10, 0.025), (5, 1 / 32)])
def test_tosses_of_a_coin_are_seldom_called_an_effect(count, most):
    """One condition collapses in half of its runs, and the mean of the changes is zero: t alone errs twice as often."""
    rng = np.random.default_rng(7)
    tosses = 25.0 * rng.choice([-1, 1], (3000, count)) + 2 * rng.standard_normal((3000, count))
    p_values = [shown_above(of(values), 0.0) for values in tosses]
    assert np.mean(np.array(p_values) <= 0.025) <= most + 2.6 * (most / 3000) ** 0.5
