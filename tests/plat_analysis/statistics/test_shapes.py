"""Unpaired runs and tasks as units: against scipy's tests and the obvious enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics import tasks
from plat_analysis.statistics.replicates import Replicate
from plat_analysis.statistics.significance import shown_above, shown_below
from plat_analysis.statistics.unpaired import least_p, over_runs, permutation_p

sides = st.lists(st.integers(-30, 30).map(float), min_size=5, max_size=7)


@settings(max_examples=60, deadline=None)
@given(sides, sides)
def test_an_unpaired_difference_is_welchs(first, second):
    found = over_runs(first, second, wanted=len(first) + len(second))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return
    welch = stats.ttest_ind(second, first, equal_var=False, alternative="greater")
    both = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    assert found.judged and found.p_above(0.0) == pytest.approx(welch.pvalue, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((both.low, both.high))
    assert found.value == pytest.approx(np.mean(second) - np.mean(first))


@settings(max_examples=20, deadline=None)
@given(sides, sides, st.integers(-3, 3))
def test_permutations_are_those_of_a_loop_and_the_larger_p_decides(first, second, bound):
    shifted = [value - bound for value in second]
    pool, size = [*shifted, *first], len(second)
    sums = [sum(pool[i] for i in chosen) for chosen in combinations(range(len(pool)), size)]
    expected = np.mean([total >= sum(shifted) - 1e-9 for total in sums])
    of_scipy = stats.permutation_test(
        (shifted, first), lambda x, y: np.mean(x) - np.mean(y), alternative="greater", n_resamples=np.inf
    )
    assert permutation_p(first, second, bound) == pytest.approx(expected) == of_scipy.pvalue
    found = over_runs(first, second, wanted=len(pool))
    welch = found.p_above(bound)
    assert shown_above(found, bound) == pytest.approx(welch if welch > 0.5 else max(welch, expected))
    assert shown_below(over_runs(second, first, wanted=len(pool)), -bound) == pytest.approx(shown_above(found, bound))


def test_the_smallest_p_of_permutations():
    assert permutation_p(range(5), range(10, 15)) == pytest.approx(1 / 252) == least_p(5, 5)
    assert permutation_p(range(12), range(20, 32)) == pytest.approx(least_p(12, 12)) == 1 / 20_001


@pytest.mark.parametrize(
    "counts, judged, has_interval", [((5, 5), True, True), ((4, 30), False, True), ((2, 9), False, False)]
)
def test_few_runs_on_one_side_decide_nothing(counts, judged, has_interval):
    first, second = (np.random.default_rng(count).normal(size=count).tolist() for count in counts)
    found = over_runs(first, second, wanted=sum(counts))
    assert found.judged is judged and (found.low is not None) is has_interval
    assert over_runs([], second).value is None


def test_equal_runs_show_nothing_and_rounding_is_the_least_spread():
    equal = over_runs([1.0] * 5, [2.0] * 5, wanted=10)
    assert equal.p_above(0.0) == 1.0
    rounded = over_runs([1.0] * 5, [2.0] * 5, rounding=1.0, wanted=10)
    assert rounded.error == pytest.approx((0.5 / 5 + 0.5 / 5) ** 0.5)


def test_tasks_are_tested_by_students_t_over_their_means():
    changes = np.random.default_rng(2).normal(0.4, 1, 30)
    found = tasks.over_tasks({str(at): change for at, change in enumerate(changes)}, seeds=180, wanted=180)
    student = stats.ttest_1samp(changes, 0, alternative="greater")
    assert found.p_above(0.0) == pytest.approx(student.pvalue) and found.judged and found.over == "tasks"
    low, high = stats.t.interval(0.95, 29, changes.mean(), stats.sem(changes))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert tasks.signed_rank_p(changes, 0.2) == pytest.approx(
        stats.wilcoxon(changes - 0.2, alternative="greater").pvalue
    )
    assert tasks.signed_rank_p([1.0, 1.0], 1.0) == 1.0


@pytest.mark.parametrize("count", [1, 7])
def test_few_tasks_are_not_judged(count):
    found = tasks.over_tasks({str(at): 5.0 + at for at in range(count)}, seeds=6 * count, wanted=6 * count, note="x")
    assert not found.judged and found.low is None
    assert found.note == f"{count} of the 8 tasks that a verdict over tasks needs; x"


def test_the_interval_of_these_tasks_pools_the_runs_within_them():
    random, levels = np.random.default_rng(5), 10.0 * np.arange(6)
    changes = levels[:, None] + random.normal(size=(6, 3))
    found = tasks.within_tasks(
        {
            str(task): {Replicate(None, seed): value for seed, value in enumerate(row)}
            for task, row in enumerate(changes)
        }
    )
    error = np.sqrt(changes.var(axis=1, ddof=1).mean() / 18)
    half = stats.t.ppf(0.975, 12) * error
    assert (found.low, found.high) == pytest.approx((changes.mean() - half, changes.mean() + half))
