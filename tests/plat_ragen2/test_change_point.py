"""The break of two means against a slow search, and the sign test against sums of a binomial distribution."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_ragen2.signals import fall, sign_test

values = st.lists(st.integers(0, 20), min_size=8, max_size=20).map(np.array)


def test_a_planted_break_is_found():
    curve = [2, 5, 9, 9, 10, 9, 3, 2, 3, 2]
    found = fall(range(0, 100, 10), curve)
    assert found.step == 60 and found.after == 2.5 and found.before == pytest.approx(9.25)
    assert found.share == pytest.approx(1 - 2.5 / 9.25)


def test_what_rises_or_ends_at_its_peak_does_not_fall():
    assert fall(range(10), range(10)) is None
    assert fall(range(4), [4, 3, 2, 1]) is None  # too short for two parts
    assert fall(range(6), [1, 1, 1, 1, 1, 1]) is None


@given(values)
def test_no_other_break_from_the_peak_on_fits_better(curve):
    steps = np.arange(len(curve)) * 3
    found = fall(steps, curve)
    if found is None:
        return
    peak = max(range(len(curve) - 2), key=lambda i: (curve[i : i + 3].sum(), -i))
    rest = curve[peak:].astype(float)

    def error(k):
        return sum(((part - part.mean()) ** 2).sum() for part in (rest[:k], rest[k:]))

    k = int(found.step // 3) - peak
    assert error(k) <= min(error(other) for other in range(2, len(rest) - 1)) + 1e-9
    assert found.before > found.after


@given(values, st.floats(0.1, 9), st.integers(-50, 50))
def test_neither_unit_nor_beginning_matters(curve, factor, shift):
    steps = np.arange(len(curve))
    found, scaled = fall(steps, curve), fall(steps + shift, curve * factor)
    assert (found is None) == (scaled is None)
    if found is not None:
        assert scaled.share == pytest.approx(found.share)


@pytest.mark.parametrize("positive, negative", [(0, 0), (5, 0), (7, 3), (3, 7), (10, 10)])
def test_signs(positive, negative):
    n = positive + negative
    slow = sum(comb(n, k) for k in range(positive, n + 1)) / 2**n
    assert sign_test(positive, negative) == pytest.approx(slow)
