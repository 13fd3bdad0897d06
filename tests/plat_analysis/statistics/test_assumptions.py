"""What tests of a mean assume: skewed values are named, and seeds that builds share are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from plat_analysis.statistics.assumptions import COMMON, common_seeds, one_sided, sign_p
from plat_analysis.statistics.replicates import Replicate


def crossed(table):
    return {Replicate(b, s): float(value) for b, row in enumerate(table) for s, value in enumerate(row)}


def test_a_rare_loss_is_named_with_the_median():
    assert one_sided([2.0, 2.5, 3.0, 2.4, -20.1]) == (2.4, -20.1)
    assert one_sided([-2.0, -2.5, -3.0, -2.4, 20.1]) == (-2.4, 20.1)


@pytest.mark.parametrize(
    "values", [[], [1.0, 2.0, 3.0, -50.0], [1.0] * 6, [-2.0, -1.0, 0.0, 1.0, 2.0], [-2, 1, 2, 1, 2]]
)
def test_few_equal_and_symmetric_values_have_no_end_of_their_own(values):
    assert one_sided(values) is None


@pytest.mark.parametrize("count, normal, found", [(5, 0.03, 0.75), (10, 0.02, 0.85)])
def test_how_often_it_is_said(count, normal, found):
    random = np.random.default_rng(5)
    calm = random.standard_normal((4000, count))
    losses = 2.5 + calm - 25 * (random.random((4000, count)) < 0.1)
    losses = losses[losses.min(axis=1) < -10]
    assert np.mean([one_sided(list(values)) is not None for values in calm]) < normal
    assert np.mean([one_sided(list(values)) is not None for values in losses]) > found


def test_the_sign_test_is_the_binomial_one():
    for values in ([1, 2, 3, -9], [1, 1, 1, 1, 1], [0, 0, 1, -1], [-1, -2]):
        above, told = sum(x > 0 for x in values), sum(x != 0 for x in values)
        assert sign_p(values) == pytest.approx(stats.binomtest(above, told, alternative="greater").pvalue)
    assert sign_p([0.0, 0.0]) == 1.0


def test_common_seeds_are_the_two_way_intraclass_correlation():
    """Against the correlation of two builds with one variance, and an F test written out."""
    table = np.random.default_rng(1).standard_normal((2, 6))
    table[1] = table[1] * table[0].std() / table[1].std() + 7
    found = common_seeds(crossed(table))
    assert found.correlation == pytest.approx(np.corrcoef(table)[0, 1]) and found.seeds == 6
    ratio = (1 + found.correlation) / (1 - found.correlation)
    assert found.p == pytest.approx(stats.f.sf(ratio, 5, 5))


def test_builds_without_all_seeds_have_no_correlation():
    table = crossed(np.ones((2, 5)) + np.arange(5))
    assert common_seeds(table).correlation == pytest.approx(1.0) and common_seeds(table).p == 0.0
    assert common_seeds(dict(list(table.items())[1:])) is None
    assert common_seeds(crossed(np.ones((1, 5)))) is None and common_seeds(crossed(np.ones((3, 4)))) is None


def test_common_seeds_are_rarely_found_where_there_are_none():
    random = np.random.default_rng(2)
    alone = [
        common_seeds(crossed(np.array([[0], [9]]) + random.standard_normal((2, 5)))).p <= COMMON for _ in range(2000)
    ]
    shared = [
        common_seeds(crossed(3 * random.standard_normal((1, 5)) + random.standard_normal((2, 5)))).p <= COMMON
        for _ in range(500)
    ]
    assert np.mean(alone) <= COMMON + 0.013 and np.mean(shared) > 0.75
