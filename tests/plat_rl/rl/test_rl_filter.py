"""The filter family against slow loops, the paper's worked example, and laws."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plat.errors import RunError
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter import selection as selection_module
from plat_rl.rl.filter.rule import Part, rule
from plat_rl.rl.filter.selection import select, select_within_group, step_plan
from plat_rl.rl.statistics import prompt_scores

# Whole tenths: equal scores and zeros happen often, sums are far from any rounding question.
scores_lists = st.lists(st.integers(0, 60).map(lambda tenth: tenth / 10), min_size=1, max_size=12)
signed_lists = st.lists(st.integers(-60, 60).map(lambda tenth: tenth / 10), min_size=1, max_size=12)
shares = st.sampled_from([0.0, 0.05, 0.2, 0.25, 0.4, 0.5, 0.6, 0.8, 0.9, 0.95, 0.98, 1.0])
RULES = ("top_p", "top_p_softmax", "top_k", "top_k_abs", "min_p", "percentile")


def within(rewards, value, rounding="floor", draws=None):
    """The trajectories that a rule within groups keeps."""
    rule = "within_group" if draws is None else "random_within_group"
    return select_within_group(rewards, FilterConfig(rule=rule, value=value, within_group_rounding=rounding), draws)


@st.composite
def filters(draw):
    low, high = sorted(draw(st.tuples(shares, shares)))
    rule = draw(st.sampled_from(RULES))
    return FilterConfig(
        rule=rule,
        value=draw(st.integers(0, 14)) if rule == "top_k_abs" else draw(shares),
        low=low,
        high=high,
        keep=draw(st.sampled_from(["largest", "smallest"])),
        include_zero=draw(st.booleans()),
        at_least_one=draw(st.booleans()),
        eps=draw(st.sampled_from([0.0, 0.01, 0.5])),
    )


def oracle(scores: list[float], config: FilterConfig) -> list[int]:
    """Section 4 and the released code again, one prompt at a time."""
    candidates = [(s, i) for i, s in enumerate(scores) if config.include_zero or abs(s) > 1e-10]
    if not candidates:
        return []
    down = config.keep == "largest"
    ranking = sorted(candidates, key=lambda pair: -pair[0] if down else pair[0])  # Python's sort is stable
    value, kept = config.value, []
    if config.rule == "top_p":
        if value >= 1:
            return sorted(i for _, i in candidates)
        target, mass = value * math.fsum(s for s, _ in candidates) - config.eps, 0.0
        for score, index in ranking:
            if mass >= target - 1e-12 or score <= 0:
                break
            mass += score
            kept.append(index)
        return sorted(kept) if mass >= target - 1e-12 and target > 0 else []
    if config.rule == "top_p_softmax":
        if value >= 1:
            return sorted(i for _, i in candidates)
        total = math.fsum(math.exp(s if down else -s) for s, _ in candidates)
        mass = 0.0
        for score, index in ranking:
            mass += math.exp(score if down else -score) / total
            kept.append(index)
            if mass >= value - 1e-12:
                break
        return sorted(kept)
    if config.rule in ("top_k", "top_k_abs"):
        k = int(value) if config.rule == "top_k_abs" else round(value * 100) * len(scores) // 100
        if k == 0 and (config.rule == "top_k_abs" or config.at_least_one):
            k = 1
        return sorted(i for _, i in ranking[:k])
    if config.rule == "min_p":
        best = ranking[0][0]
        return sorted(i for s, i in candidates if (s >= value * best - 1e-9 if down else s * value <= best + 1e-9))
    n = len(ranking)
    band = ranking[round(config.low * n) : round(config.high * n)]
    return sorted(i for _, i in band) or [ranking[min(round(config.low * n), n - 1)][1]]


@given(scores_lists, filters())
@settings(max_examples=600)
def test_every_rule_is_what_the_loops_say(scores, config):
    selection = select(scores, config)
    assert selection.kept.tolist() == oracle(scores, config)
    assert (selection.why_empty is None) == (selection.kept.size > 0)
    assert selection.share == len(selection.kept) / len(scores)
    assert 0 <= selection.mass <= 1


@given(signed_lists, filters())
@settings(max_examples=300)
def test_negative_scores_too(scores, config):
    assert select(scores, config).kept.tolist() == oracle(scores, config)


def test_the_papers_worked_example():
    """Reward variances 9, 5, 1 and mass 0.9: the target is 13.5, the first two prompts reach it."""
    for order in itertools.permutations([9.0, 5.0, 1.0]):
        selection = select(order, FilterConfig(rule="top_p", metric="reward_variance", value=0.9))
        assert sorted(np.array(order)[selection.kept]) == [5, 9]
        assert selection.mass == pytest.approx(14 / 15)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 99), st.sampled_from([1, 10, 30, 1000]))
@settings(max_examples=600)
def test_top_p_without_slack_is_what_exact_fractions_say(whole, percent, unit):
    """Scores and the share as decimals mean them: a prefix whose mass equals the target is enough."""
    scores, share = [Fraction(number, unit) for number in whole], Fraction(percent, 100)
    ranking = sorted(range(len(scores)), key=lambda i: -scores[i])
    masses = list(itertools.accumulate(scores[i] for i in ranking))
    enough = next(n for n, mass in enumerate(masses, 1) if mass >= share * sum(scores))
    config = FilterConfig(rule="top_p", value=percent / 100, eps=0.0)
    assert select([float(score) for score in scores], config).kept.tolist() == sorted(ranking[:enough])


@pytest.mark.parametrize(
    ("scores", "config", "kept"),
    [
        ([0.1] * 10, FilterConfig(rule="top_p", value=0.3, eps=0.0), 3),  # .1 + .1 + .1 > .3, but not in floats
        ([0.1] * 10, FilterConfig(rule="top_p", value=0.8, eps=0.0), 8),
        ([0.7, 0.1, 0.2], FilterConfig(rule="top_p", value=0.9, eps=0.0), 2),
        ([0.1, 0.1], FilterConfig(rule="top_p", value=0.3, eps=0.06), 0),  # the target is zero but for rounding
        ([1.0] * 10, FilterConfig(rule="top_p_softmax", value=0.8), 8),
    ],
)
def test_an_exact_tie_is_no_question_of_rounding(scores, config, kept):
    assert len(select(scores, config).kept) == kept


@given(scores_lists, shares.filter(lambda v: 0 < v < 1), st.booleans())
def test_top_p_is_the_smallest_prefix_that_reaches_its_mass(scores, value, include_zero):
    config = FilterConfig(rule="top_p", value=value, include_zero=include_zero)
    selection = select(scores, config)
    target = value * sum(scores) - config.eps
    if selection.why_empty:
        assert target <= 1e-12
        return
    kept = [scores[i] for i in selection.kept]
    assert sum(kept) >= target - 1e-9
    assert sum(kept) - min(kept) < target + 1e-9


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=10, unique=True), filters(), st.randoms())
def test_the_order_of_prompts_does_not_matter(scores, config, random):
    permutation = list(range(len(scores)))
    random.shuffle(permutation)
    kept = select(scores, config).kept
    moved = select([scores[i] for i in permutation], config).kept
    assert {scores[i] for i in kept} == {scores[permutation[i]] for i in moved}


@given(scores_lists, filters(), shares)
def test_a_larger_value_keeps_more_and_a_larger_min_p_less(scores, config, other):
    assume(config.rule in ("top_p", "top_p_softmax", "top_k", "min_p"))
    low, high = sorted([config.value, other])
    fewer = set(select(scores, dataclasses.replace(config, value=low)).kept.tolist())
    more = set(select(scores, dataclasses.replace(config, value=high)).kept.tolist())
    assert (more <= fewer) if config.rule == "min_p" else (fewer <= more)


@given(scores_lists, shares, st.sampled_from([0.5, 4.0, 1024.0]))
def test_linear_top_p_does_not_know_the_unit_of_the_scores(scores, value, factor):
    config = FilterConfig(rule="top_p", value=value, eps=0.0)
    assert select(scores, config).kept.tolist() == select([s * factor for s in scores], config).kept.tolist()


@pytest.mark.parametrize(
    ("scores", "config", "why"),
    [
        ([0, 1e-11, 0], FilterConfig(rule="top_k", value=0.5), "all_scores_zero"),
        ([0, 0], FilterConfig(rule="top_p", value=0.9, include_zero=True), "target_not_positive"),
        ([0.004, 0.006], FilterConfig(rule="top_p", value=0.9), "target_not_positive"),  # eps is larger
        ([-3, 1], FilterConfig(rule="top_p", value=0.9), "target_not_positive"),
        ([0, 1, 2], FilterConfig(rule="top_p", value=0.9, keep="smallest", include_zero=True), "target_unreachable"),
        ([-1, 5], FilterConfig(rule="top_p", value=0.9, keep="smallest"), "target_unreachable"),
        ([-1, -5], FilterConfig(rule="min_p", value=0.5), "target_unreachable"),
        ([1, 2], FilterConfig(rule="top_k", value=0.4, at_least_one=False), "count_is_zero"),
    ],
)
def test_an_empty_batch_says_why(scores, config, why):
    selection = select(scores, config)
    assert (selection.kept.size == 0, selection.share, selection.mass, selection.why_empty) == (True, 0.0, 0.0, why)
    assert selection.metrics()["filter/empty"] == 1.0
    whole = select(scores, dataclasses.replace(config, on_empty="keep_all"))
    assert (whole.kept.tolist(), whole.why_empty) == (list(range(len(scores))), why)


def test_a_rule_that_keeps_nothing_and_gives_no_reason_is_an_empty_batch_too(monkeypatch):
    def above_mean(ranking):
        return Part(0, int((ranking.scores > ranking.scores.mean()).sum()))

    monkeypatch.setattr(selection_module, "find_rule", lambda name: rule()(above_mean))
    selection = select([2.0, 2.0], FilterConfig(rule="above_mean"))
    assert (selection.why_empty, selection.metrics()["filter/empty"]) == ("rule_keeps_none", 1.0)
    assert select([1.0, 2.0], FilterConfig(rule="above_mean")).why_empty is None


def test_the_reason_of_a_rule_that_keeps_something_is_ignored(monkeypatch):
    monkeypatch.setattr(selection_module, "find_rule", lambda name: rule()(lambda ranking: Part(0, 1, "none_is_good")))
    selection = select([1.0, 2.0], FilterConfig(rule="first"))
    assert (selection.kept.tolist(), selection.why_empty, selection.metrics()["filter/empty"]) == ([1], None, 0.0)


@pytest.mark.parametrize("rule", ["none", "within_group", "random_within_group"])
def test_rules_that_keep_every_prompt_need_no_finite_scores(rule):
    selection = select([math.nan, 0.0], FilterConfig(rule=rule))
    assert (selection.kept.tolist(), selection.mass, selection.why_empty) == ([0, 1], 1.0, None)


def test_a_broken_score_ends_the_run_as_nan():
    scores = prompt_scores([[1.0], [0.0]], config=FilterConfig())
    with pytest.raises(RunError) as error:
        select(scores, FilterConfig(rule="top_p", value=0.9))
    assert error.value.failure_class == "nan"
    assert "group size" in error.value.fix


def test_wrong_names_are_refused():
    for config in (FilterConfig(rule="top_q"), FilterConfig(rule="top_k", keep="middle")):
        with pytest.raises(ValueError, match="unknown"):
            select([1.0, 2.0], config)
    with pytest.raises(ValueError, match="shape"):
        select([[1.0]], FilterConfig(rule="top_k"))


def test_released_table_4_rule_hardly_filters():
    """Returns in [0, 1] have a std below about .5, so softmax weights are nearly even: 7 or 8 of 8 prompts stay."""
    scores = np.random.default_rng(0).uniform(0, 0.5, 8)
    softmax = select(scores, FilterConfig(rule="top_p_softmax", value=0.9, include_zero=True))
    linear = select(scores, FilterConfig(rule="top_p", value=0.9))
    assert softmax.kept.size >= 7 > linear.kept.size


def test_percentile_quarters_share_out_all_prompts():
    scores = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0]
    bands = [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    kept = [select(scores, FilterConfig(rule="percentile", low=low, high=high)).kept.tolist() for low, high in bands]
    assert kept == [[4, 6], [2, 7], [0, 5], [1, 3]]


@given(
    st.lists(st.lists(st.integers(-20, 20), min_size=6, max_size=6), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.34, 0.5, 0.7, 1.0]),
)
@settings(max_examples=60)
def test_within_group_finds_the_most_varied_subset(rewards, value):
    chosen = within(rewards, value)
    n = max(1, int(value * 6))
    assert chosen.shape == (len(rewards), n)
    for row, kept in zip(rewards, chosen.tolist(), strict=True):
        assert kept == sorted(set(kept))
        best = max(statistics.pvariance(subset) for subset in itertools.combinations(row, n))
        assert statistics.pvariance([row[i] for i in kept]) == pytest.approx(best)


def test_within_group_half_of_sixteen_is_eight():
    rewards = [[0.0] * 12 + [1.0] * 4, [0.3] * 16]
    kept = within(rewards, 0.5)
    assert kept.shape == (2, 8)  # Table 7: 64 trajectories an update from 8 prompts
    assert sum(rewards[0][i] for i in kept[0]) == 4


def test_a_random_part_of_a_group_is_that_of_the_smallest_draws_whatever_the_rewards():
    draws = np.random.default_rng(0).random((50, 6))
    kept = within(np.zeros((50, 6)), 0.5, draws=draws)
    assert kept.tolist() == [sorted(sorted(range(6), key=row.__getitem__)[:3]) for row in draws.tolist()]
    assert (kept == within(np.arange(300.0).reshape(50, 6), 0.5, draws=draws)).all()
    assert within(np.zeros((50, 6)), 0.3, "round", draws).shape == (50, 2)


@pytest.mark.parametrize(
    ("group", "value", "floor", "nearest"),
    [
        (16, 0.5, 8, 8),
        (16, 0.3, 4, 5),
        (16, 0.28, 4, 4),
        (5, 0.5, 2, 2),
        (7, 0.5, 3, 4),
        (3, 0.1, 1, 1),
        (100, 0.29, 29, 29),
    ],
)
def test_a_share_of_the_group_is_rounded_as_named(group, value, floor, nearest):
    rewards = [list(range(group))]
    assert within(rewards, value).shape == (1, floor)
    assert within(rewards, value, "floor").shape == (1, floor)
    assert within(rewards, value, "round").shape == (1, nearest)
    with pytest.raises(ValueError, match="ceil"):
        within(rewards, value, "ceil")


@given(
    st.integers(0, 16),
    st.integers(1, 8),
    st.sampled_from(["same_count", "fixed_size"]),
    st.sampled_from(["none", "loss", "advantage", "learning_rate"]),
    st.sampled_from(["linear", "sqrt"]),
)
def test_the_step_after_filtering(kept, mini_batches, updates, scale, power):
    plan = step_plan(kept, 16, FilterConfig(updates=updates, scale=scale, scale_power=power), mini_batches)
    share = kept / 16
    expected = 0 if not kept else mini_batches if updates == "same_count" else math.ceil(share * mini_batches)
    assert plan.updates == expected
    factor = share if power == "linear" else share**0.5
    scales = {"loss": plan.loss_scale, "advantage": plan.advantage_scale, "learning_rate": plan.lr_scale}
    assert scales == {name: pytest.approx(factor) if name == scale else 1.0 for name in scales}


def test_an_unfiltered_step_is_unchanged_and_nonsense_is_refused():
    plan = step_plan(8, 8, FilterConfig(scale="loss", updates="fixed_size"), 4)
    assert (plan.updates, plan.loss_scale, plan.advantage_scale, plan.lr_scale) == (4, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="9 of 8"):
        step_plan(9, 8, FilterConfig(), 4)
