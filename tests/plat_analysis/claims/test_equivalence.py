"""A change that is shown to be small, against the intervals of scipy and a simulation of the error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_analysis.claims import decided
from plat_analysis.claims.checks import decide_small, mean_delta_small, row_tests
from plat_analysis.claims.decided import RowEvidence
from plat_analysis.statistics.replicates import Replicate, over_replicates


def evidence(values, smallest=5.0, wanted=None):
    numbers = {Replicate(None, seed): float(value) for seed, value in enumerate(values)}
    return RowEvidence(over_replicates(numbers, wanted=wanted or len(numbers)), smallest=smallest)


@given(
    st.lists(st.integers(-120, 120).map(lambda tenth: tenth / 10), min_size=5, max_size=8).filter(
        lambda v: np.std(v) > 0.1
    )
)
def test_a_single_row_is_small_where_its_interval_lies_within(values):
    """By Student's t, and by the signs of the distances to either bound."""
    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    if min(abs(abs(low) - 5), abs(abs(high) - 5)) < 1e-9:
        return
    within = -5 < low and high < 5 and above(values, -5) and above([-value for value in values], -5)
    beyond = (low > 5 and above(values, 5)) or (high < -5 and above([-value for value in values], 5))
    kind = kind_of(evidence(values))
    assert kind == ("small" if within else "large" if beyond else decided.OPEN)


def kind_of(row):
    """What is found of a single row."""
    return decided.row_kinds(["PPO"], row_tests({"PPO": row}), decided.LEVEL)["PPO"]


def above(values, bound):
    """Whether the signs of value - bound show the values to be above it: all of them, or by the test of scipy."""
    distances = np.array(values) - bound
    if min(distances) >= 0 and (distances > 0).sum() >= 5:
        return True
    test = stats.permutation_test(
        (distances,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative="greater"
    )
    return test.pvalue <= 0.025


SMALL, LARGE, OPEN = [0.1, -0.2, 0.3, 0.0, 0.1], [20, 21, 19, 20, 20.5], [4, 7, 1, 6, 2]


@pytest.mark.parametrize(
    "rows, status",
    [
        ([SMALL, SMALL], "shown"),
        ([SMALL, LARGE], "contradicted"),
        ([LARGE], "contradicted"),
        ([[-value for value in LARGE]], "contradicted"),
        ([SMALL, OPEN], "shown_in_part"),
        ([OPEN], "open"),
        ([SMALL[:4]], "not_enough_data"),
        ([], "not_enough_data"),
    ],
)
def test_the_verdict_on_several_rows(rows, status):
    decision = decide_small({str(number): evidence(values) for number, values in enumerate(rows)})
    named = [line for line in decision.lines if line.split(": ")[-1][0].isdecimal()]
    assert decision.status == status and len(named) == len(rows)


def test_a_missing_run_is_not_enough_data():
    decision = decide_small({"PPO": evidence(SMALL, wanted=6)})
    assert decision.status == "not_enough_data" and "without enough data: PPO" in decision.detail


@pytest.mark.parametrize("true", [5.0, -5.0])
def test_a_change_at_the_bound_is_seldom_called_small_or_large(true):
    rng = np.random.default_rng(0)
    kinds = [kind_of(evidence(rng.normal(true, 1.5, 5))) for _ in range(2000)]
    assert kinds.count("small") / 2000 < 0.035 and kinds.count("large") / 2000 < 0.035  # 2.5 %, and the simulation's


def test_it_reads_the_store(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["frozenlake"], seeds=range(5))
    frames = make_frames(experiment, effect=0.3)
    large = mean_delta_small(frames, experiment)
    assert large.status in ("contradicted", "not_of_this_size") and "beyond ±5 points: PPO" in large.detail
    assert mean_delta_small(frames, experiment, smallest=60.0).status == "shown"
