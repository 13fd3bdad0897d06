"""Early stops: their windows, and that a resumed run stops exactly where an undisturbed one does."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_rl.rl.config import EarlyStopConfig
from plat_rl.rl.early_stop import EarlyStops

SHORT = EarlyStopConfig(variance_window=3, variance_baseline=4, success_window=2, empty_window=2)
variances = st.one_of(st.floats(0, 10), st.sampled_from([0.0, 0.01, 1.0, math.nan]))
histories = st.lists(
    st.one_of(
        st.tuples(st.just("iteration"), variances, st.booleans()),
        st.tuples(st.just("evaluation"), st.sampled_from([0.0, 0.005, 0.01, 0.5])),
    ),
    max_size=40,
)


def feed(stops, event):
    return getattr(stops, event[0])(*event[1:])


def oracle(history, config):
    """The reason after a history, from the whole history at once."""

    def run_length(flags):
        length = 0
        for flag in flags:
            length = length + 1 if flag else 0
        return length

    rv = [e[1] for e in history if e[0] == "iteration" and not math.isnan(e[1])]
    first = rv[: config.variance_baseline]
    low = [v < config.variance_fraction * sum(first) / len(first) for v in rv[config.variance_baseline :]]
    if 0 < config.variance_window <= run_length(low):
        return "reward_variance_collapse"
    if 0 < config.success_window <= run_length(e[1] < config.success_floor for e in history if e[0] == "evaluation"):
        return "low_success"
    if 0 < config.empty_window <= run_length(e[2] for e in history if e[0] == "iteration"):
        return "empty_batches"
    return None


@given(histories, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_the_reason_is_what_the_whole_history_says(history, variance, success, empty):
    config = EarlyStopConfig(variance_window=variance, variance_baseline=4, success_window=success, empty_window=empty)
    stops = EarlyStops(config)
    for n, event in enumerate(history, start=1):
        assert feed(stops, event) == oracle(history[:n], config)


@given(histories, st.integers(0, 40))
def test_a_resume_anywhere_changes_nothing(history, cut):
    undisturbed, first = EarlyStops(SHORT), EarlyStops(SHORT)
    reasons = [feed(undisturbed, event) for event in history]
    before = [feed(first, event) for event in history[:cut]]
    second = EarlyStops(SHORT, json.loads(json.dumps(asdict(first.counts))))
    assert before + [feed(second, event) for event in history[cut:]] == reasons
    assert second.counts == undisturbed.counts


def test_the_papers_windows():
    """Under 10 % of the mean of the first 10 iterations, 5 times in a row (the released code waits for 10)."""
    for window in (5, 10):
        stops = EarlyStops(EarlyStopConfig(variance_window=window))
        reasons = [stops.iteration(v) for v in [1.0] * 10 + [0.09] * 4 + [0.1] + [0.09] * window]
        assert reasons.index("reward_variance_collapse") == 14 + window


def test_five_poor_evaluations_in_a_row():
    stops = EarlyStops(EarlyStopConfig())
    poor = [stops.evaluation(s) for s in [0.0, 0.0, 0.0, 0.0, 0.01, 0.0, 0.009, 0.0, 0.0, 0.0]]
    assert poor == [None] * 9 + ["low_success"]


@pytest.mark.parametrize("window", [0, 1])
def test_a_window_of_zero_is_off(window):
    config = EarlyStopConfig(variance_window=0, success_window=0, empty_window=window)
    stops = EarlyStops(config)
    for _ in range(50):
        stops.evaluation(0.0)
        stops.iteration(0.0, empty=True)
    assert stops.reason == ("empty_batches" if window else None)
