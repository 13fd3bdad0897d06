"""Summaries over many tasks against rliable's numbers, scipy's, and the obvious loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.statistics import aggregate

# [run, task]; the numbers below are those of rliable 1.2.0 (scipy 1.17, 50,000 and 20,000 resamples)
X = np.array(
    [[-0.8, -1.32, -0.25, 0.42, 1.14, 0.11],
     [-0.55, -0.78, 0.75, 1.63, 0.27, -1.23],
     [-0.96, 1.6, 0.2, -1.73, -0.08, -1.16]]
)  # fmt: skip
Y = np.array(
    [[-0.55, -0.19, -0.41, 0.85, 0.24, -0.29],
     [0.71, 1.13, -1.34, 0.04, -0.68, 0.13],
     [-0.99, 0.32, 0.26, -0.0, -0.75, -0.1]]
)  # fmt: skip
OF_X, OF_Y = list(X.T), list(Y.T)
RLIABLE = {
    "mean": (-0.15222222222222223, -0.09000000000000001),
    "median": (-0.03000000000000002, -0.18166666666666667),
    "iqm": (-0.24200000000000005, -0.087),
    "optimality_gap": (1.2283333333333333, 1.0972222222222223),
}
ragged = st.lists(
    st.lists(st.integers(-40, 40).map(lambda whole: whole / 8), min_size=1, max_size=5).map(np.array),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", RLIABLE)
def test_summaries_are_rliables(name):
    assert [float(getattr(aggregate, name)(of)) for of in (OF_X, OF_Y)] == pytest.approx(RLIABLE[name])


def test_improvement_and_profile_are_rliables():
    assert float(aggregate.improvement(OF_X, OF_Y)) == pytest.approx(0.5277777777777778)
    assert float(aggregate.improvement(OF_Y, OF_X)) == pytest.approx(0.47222222222222215)
    expected = [0.7777777777777778, 0.5555555555555556, 0.4444444444444444, 0.2222222222222222, 0.16666666666666666]
    assert aggregate.profile(OF_X, np.linspace(-1, 1, 5)).tolist() == pytest.approx(expected)


def test_intervals_are_rliables():
    """Both are random: a quantile of some thousand resamples varies by about .01."""
    of_iqm, of_mean = (aggregate.these_tasks(of, OF_X) for of in (aggregate.iqm, aggregate.mean))
    assert of_iqm == pytest.approx((-0.641, 0.240), abs=0.03) and of_mean == pytest.approx((-0.541, 0.244), abs=0.03)
    found = aggregate.these_tasks(lambda drawn: aggregate.improvement(drawn[:6], drawn[6:]), [*OF_Y, *OF_X])
    assert found == pytest.approx((0.278, 0.657), abs=0.03)


def test_a_stratified_interval_is_that_of_a_loop():
    random, tasks = np.random.default_rng(3), [X[:, 0], X[:2, 1], Y[:, 2], Y[:, 3]]
    drawn = [[task[random.integers(len(task), size=len(task))] for task in tasks] for _ in range(4000)]
    expected = np.quantile([aggregate.iqm(one) for one in drawn], [0.025, 0.975])
    assert aggregate.these_tasks(aggregate.iqm, tasks) == pytest.approx(expected, abs=0.06)


def test_a_hierarchical_interval_is_wider_than_that_of_these_tasks():
    """Of equal runs within tasks it is the plain bootstrap over tasks."""
    levels = np.random.default_rng(4).normal(size=30)
    plain = stats.bootstrap((levels,), np.mean, method="percentile", rng=np.random.default_rng(1)).confidence_interval
    for counts in ([3] * 30, [2, 3, 4] * 10):
        equal = [np.full(count, level) for level, count in zip(levels, counts, strict=True)]
        low, high = aggregate.tasks_like_these(aggregate.mean, equal)
        assert (low, high) == pytest.approx((plain.low, plain.high), abs=0.03)
    noisy = [level + 0.1 * np.arange(3) for level in levels]
    these = aggregate.these_tasks(aggregate.mean, noisy)
    assert high - low > 3 * (these[1] - these[0])


def test_a_hierarchical_interval_is_that_of_nested_loops():
    random, found = np.random.default_rng(8), []
    for _ in range(3000):
        chosen = random.choice(6, 6)
        drawn = np.concatenate([random.choice(X[:, task], 3) for task in chosen])
        found.append(stats.trim_mean(drawn, 0.25))
    expected = np.quantile(found, [0.025, 0.975])
    assert aggregate.tasks_like_these(aggregate.iqm, OF_X) == pytest.approx(expected, abs=0.06)


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 999))
def test_the_interquartile_mean_is_scipys(runs, tasks, seed):
    scores = np.random.default_rng(seed).normal(size=(runs, tasks))
    assert float(aggregate.iqm(list(scores.T))) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None), abs=1e-9)


@settings(max_examples=60)
@given(ragged, st.floats(-3, 3))
def test_with_unequal_runs_each_task_counts_equally(scores, threshold):
    """As if each run were repeated, until all tasks have the same number."""
    repeated = [np.repeat(task, 60 // len(task)) for task in scores]
    for of in (aggregate.mean, aggregate.median, aggregate.optimality_gap):
        assert float(of(scores)) == pytest.approx(float(of(repeated)))
    assert aggregate.profile(scores, [threshold]) == pytest.approx(aggregate.profile(repeated, [threshold]))
    assert float(aggregate.improvement(scores, scores)) == pytest.approx(0.5)


@settings(max_examples=60)
@given(ragged)
def test_laws(scores):
    shares = aggregate.profile(scores, np.linspace(-6, 6, 9))
    assert shares[0] == 1 and shares[-1] == 0 and (np.diff(shares) <= 0).all()
    pooled = np.concatenate(scores)
    for of in (aggregate.mean, aggregate.median, aggregate.iqm):
        assert pooled.min() - 1e-9 <= float(of(scores)) <= pooled.max() + 1e-9
        assert float(of([task + 2 for task in scores])) == pytest.approx(float(of(scores)) + 2)
    above = [task + 100 for task in scores]
    assert float(aggregate.improvement(above, scores)) == 1 and float(aggregate.improvement(scores, above)) == 0
    assert float(aggregate.optimality_gap(above)) == 0


@settings(max_examples=60)
@given(ragged, st.data())
def test_improvement_is_mann_and_whitneys_u(scores, data):
    others = [np.array(data.draw(st.lists(st.integers(-5, 5), min_size=1, max_size=4)), float) for _ in scores]
    expected = np.mean(
        [stats.mannwhitneyu(x, y).statistic / len(x) / len(y) for x, y in zip(scores, others, strict=True)]
    )
    assert float(aggregate.improvement(scores, others)) == pytest.approx(expected)
