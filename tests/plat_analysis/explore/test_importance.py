"""The importance of axes: what is planted is found, and noise has none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from plat_analysis.explore.importance import LEAST_RUNS, Importance, importance
from plat_analysis.explore.runs import Axis

pytest.importorskip("sklearn", reason="the extra `explore` is not installed")


def axes_of(*sizes):
    codes = np.array(list(itertools.product(*map(range, sizes))))
    return [Axis(f"a{n}", f"a{n}", [*map(str, range(size))], codes[:, n].tolist()) for n, size in enumerate(sizes)]


def test_shares_are_those_of_the_analysis_of_variance():
    axes = axes_of(4, 4, 10)
    first, second, _ = (np.array(axis.codes) for axis in axes)
    values = 2.0 * first + 1.0 * second + 0.01 * np.random.default_rng(0).standard_normal(len(first))
    found = importance(axes, values.tolist())
    assert isinstance(found, Importance) and found.explained > 0.97 and found.runs == 160
    assert [name for name, _ in found.shares] == ["a0", "a1", "a2"]
    shares = dict(found.shares)
    assert shares["a0"] == pytest.approx(0.8, abs=0.06) and shares["a1"] == pytest.approx(0.2, abs=0.04)
    assert shares["a2"] == pytest.approx(0, abs=0.01)


def test_equal_runs_give_equal_numbers():
    axes, values = axes_of(3, 5), np.random.default_rng(1).random(15) + np.repeat([0, 1, 2], 5)
    assert importance(axes, values.tolist()) == importance(axes, values.tolist())


def test_noise_has_no_importance():
    found = importance(axes_of(4, 10), np.random.default_rng(2).standard_normal(40).tolist())
    assert isinstance(found, str) and "explain nothing" in found


@pytest.mark.parametrize(
    ("sizes", "values", "why"),
    [
        ((3, 3), [1.0] * 9, str(LEAST_RUNS)),
        ((3, 5), [None, float("nan")] * 7 + [1.0], "there are 1"),
        ((3, 5), [0.3] * 15, "same value"),
        ((1, 1), [0.3], str(LEAST_RUNS)),
    ],
)
def test_what_cannot_be_known_is_said(sizes, values, why):
    found = importance(axes_of(*sizes), values)
    assert isinstance(found, str) and why in found


def test_huge_values_are_no_reason_to_fail():
    axes = axes_of(2, 10)
    found = importance(axes, [1e300 * code for code in axes[0].codes])
    assert isinstance(found, Importance) and found.shares[0][0] == "a0"


def test_of_a_few_runs_an_axis_with_two_values_has_its_whole_share():
    axes = axes_of(2, 6)
    found = importance(
        axes, [0.4 * code + 0.01 * seed for code, seed in zip(axes[0].codes, axes[1].codes, strict=True)]
    )
    assert isinstance(found, Importance)
    shares = dict(found.shares)
    assert shares["a0"] == pytest.approx(1.0, abs=0.08) and shares["a1"] < 0.02
