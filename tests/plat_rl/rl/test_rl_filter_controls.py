"""Selection at random, and as many prompts as Top-p keeps: the controls of the filter."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from fractions import Fraction
from importlib.resources import files

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from plat.errors import RunError
from plat_rl.rl.config import PAPER_TOP_P, FilterConfig
from plat_rl.rl.filter.selection import select, top_p_count
from plat_rl.rl.statistics import prompt_scores

RANDOM = FilterConfig(rule="random", metric="reward_variance", include_zero=True)
TOP_P = FilterConfig(rule="top_p", metric="reward_variance", value=0.9)
group_returns = st.lists(st.integers(-10, 10).map(lambda tenth: tenth / 10), min_size=4, max_size=4)
returns_matrices = st.lists(group_returns | st.just([0.3] * 4), min_size=1, max_size=10)


def count_by_fractions(returns: list[list[float]]) -> int:
    """The paper's rule in exact arithmetic: the fewest largest variances whose sum reaches .9 of all, minus .01."""
    tenths = [[Fraction(round(value * 10), 10) for value in group] for group in returns]
    means = [sum(group) / len(group) for group in tenths]
    variances = [
        sum((value - mean) ** 2 for value in group) / (len(group) - 1)
        for group, mean in zip(tenths, means, strict=True)
    ]
    target = Fraction(9, 10) * sum(variances) - Fraction(1, 100)
    if target <= 0:
        return 0
    masses = itertools.accumulate(sorted(variances, reverse=True))
    return next(number for number, mass in enumerate(masses, 1) if mass >= target)


@given(returns_matrices)
@settings(max_examples=400)
def test_the_count_of_top_p_is_what_exact_fractions_say(returns):
    assert top_p_count(returns) == count_by_fractions(returns)


def test_the_count_is_that_of_the_shipped_filter():
    shipped = yaml.safe_load(files("plat_rl").joinpath("conf", "filter", "top_p.yaml").read_text())
    about_the_step = {"name": "", "updates": "same_count", "scale": "none"}
    assert dataclasses.replace(FilterConfig(**shipped), **about_the_step) == dataclasses.replace(
        PAPER_TOP_P, **about_the_step
    )


def test_the_variance_of_a_single_rollout_has_no_count():
    with pytest.raises(RunError) as error:
        top_p_count([[1.0], [0.0]])
    assert error.value.failure_class == "nan"
    assert top_p_count([[1.0], [0.0]], ddof=0) == 0


CONTROLS = (
    RANDOM,
    dataclasses.replace(RANDOM, include_zero=False),
    FilterConfig(rule="top_k", metric="reward_variance", keep="smallest"),
    FilterConfig(rule="top_k", metric="reward_variance", keep="largest"),
    FilterConfig(rule="top_k", metric="reward_std", keep="smallest", include_zero=True),
    FilterConfig(rule="top_k", metric="length", include_zero=True),
)


@given(returns_matrices, st.sampled_from(CONTROLS), st.integers(0, 2**32), st.integers(0, 1))
@settings(max_examples=400)
def test_every_control_keeps_exactly_as_many_prompts_as_top_p(returns, config, seed, ddof):
    config = dataclasses.replace(config, kept="as_top_p", ddof=ddof)
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 30, (len(returns), 4)).astype(float)
    scores = prompt_scores(returns, lengths=lengths, config=config)
    selection = select(scores, config, draws=rng.random(len(returns)), count=top_p_count(returns, ddof))
    own = dataclasses.replace(TOP_P, ddof=ddof)
    top_p = select(prompt_scores(returns, config=own), own)
    assert selection.kept.size == top_p.kept.size == len(set(selection.kept.tolist()))
    assert (selection.why_empty is None) == (selection.kept.size > 0)
    if config.metric == "reward_variance" and config.keep == "largest" and config.rule == "top_k":
        assert selection.kept.tolist() == top_p.kept.tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 100), st.integers(0, 2**32), st.booleans())
def test_random_keeps_its_share_of_the_candidates_with_the_largest_draws(scores, percent, seed, include_zero):
    draws = np.random.default_rng(seed).random(len(scores)).tolist()
    config = dataclasses.replace(RANDOM, value=percent / 100, include_zero=include_zero)
    kept = select(scores, config, draws=draws).kept.tolist()
    candidates = [i for i, score in enumerate(scores) if include_zero or score]
    number = min(len(candidates), max(1, percent * len(scores) // 100))
    assert kept == sorted(sorted(candidates, key=lambda i: -draws[i])[:number])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.permutations(range(8)), st.sampled_from([0.2, 0.5, 1.0]))
def test_random_does_not_look_at_the_scores(scores, order, value):
    draws = [order[i] / 8 for i in range(len(scores))]
    config = dataclasses.replace(RANDOM, value=value)
    kept = select(scores, config, draws=draws).kept.tolist()
    assert kept == select(scores[::-1], config, draws=draws).kept.tolist()


def test_every_subset_is_drawn_equally_often():
    rng = np.random.default_rng(5)
    config = dataclasses.replace(RANDOM, value=0.5)
    counts = Counter(tuple(select([9, 1, 0, 0, 4], config, draws=rng.random(5)).kept.tolist()) for _ in range(4000))
    assert len(counts) == 10  # 2 of 5
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_nothing_is_kept_where_top_p_keeps_nothing():
    config = dataclasses.replace(RANDOM, kept="as_top_p")
    selection = select([0.004, 0.006], config, draws=[0.1, 0.2], count=0)
    assert (selection.kept.size == 0, selection.why_empty) == (True, "top_p_keeps_none")
    whole = select([0.004, 0.006], dataclasses.replace(config, on_empty="keep_all"), draws=[0.1, 0.2], count=0)
    assert (whole.kept.tolist(), whole.why_empty) == ([0, 1], "top_p_keeps_none")


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="needs draws"):
        select([1.0, 2.0], RANDOM)
    with pytest.raises(ValueError, match="needs draws"):
        select([1.0, 2.0], RANDOM, draws=[0.5])
    with pytest.raises(ValueError, match="number of prompts"):
        select([1.0, 2.0], dataclasses.replace(RANDOM, kept="as_top_p"), draws=[0.5, 0.1])
    with pytest.raises(ValueError, match="min_p"):
        select([1.0, 2.0], FilterConfig(rule="min_p", kept="as_top_p"), count=1)
