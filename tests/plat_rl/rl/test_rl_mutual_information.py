"""Table 1 against plain loops and scipy, and its laws."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from plat.errors import RunError
from plat_rl.rl.config import MIConfig
from plat_rl.rl.mutual_information import (
    is_measured,
    merge_prompts,
    mi_metrics,
    sample_first_turns,
    sample_turns,
)

CONFIG = MIConfig()


def measure(scores, own, tokens, weight=None, *, config=CONFIG, scope="first_turn", ema=None):
    actual = mi_metrics(
        torch.as_tensor(scores),
        np.asarray(own),
        np.asarray(tokens),
        np.ones(np.shape(scores)[1]) if weight is None else np.asarray(weight, dtype=float),
        config=config,
        scope=scope,
        sigmas={} if ema is None else ema,
    )
    prefix = f"mi/{scope}/"
    assert all(name.startswith(prefix) for name in actual)
    return {name.removeprefix(prefix): value for name, value in actual.items()}


def oracle(full, own_column, tokens, eps=1e-3):
    """Table 1 on the matrix with one column per prompt (nothing merged), one item at a time."""
    items, columns = range(len(full)), len(full[0])
    matched_seq = [full[i][own_column[i]] for i in items]
    marginal_seq = [logsumexp(full[i], b=1 / columns) for i in items]
    matched = [matched_seq[i] / tokens[i] for i in items]
    paper = [marginal_seq[i] / tokens[i] for i in items]
    code = [logsumexp([v / tokens[i] for v in full[i]]) - math.log(columns) for i in items]

    def mean(numbers):
        return sum(numbers) / len(full)

    def z(own, marginal, deviation=statistics.stdev):
        sigma = deviation(marginal)
        return mean([(a - b) / (sigma + eps) for a, b in zip(own, marginal, strict=True)])

    return {
        "h_z_given_x": -mean(matched),
        "h_z_given_x_seq": -mean(matched_seq),
        "h_z": -mean(paper),
        "h_z_code": -mean(code),
        "h_z_seq": -mean(marginal_seq),
        "mi_est": mean(matched) - mean(paper),
        "mi_est_code": mean(matched) - mean(code),
        "mi_seq_est": mean(matched_seq) - mean(marginal_seq),
        "mi_zscore": z(matched, paper),
        "mi_zscore_code": z(matched, code, statistics.pstdev),  # the released code's is the population's
        "mi_zscore_seq": z(matched_seq, marginal_seq),
    }


@st.composite
def batches(draw):
    """Scores under M distinct prompts, columns that repeat them, and items with an own column each."""
    m = draw(st.integers(2, 6))
    columns = list(range(m)) + draw(st.lists(st.integers(0, m - 1), max_size=6))
    n = draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tokens = rng.integers(1, 20, n)
    scores = rng.normal(-2.5, draw(st.sampled_from([0.01, 0.3, 2.0])), (n, m)) * tokens[:, None]
    return scores, rng.permutation(columns), rng.integers(0, len(columns), n), tokens


@given(batches())
@settings(max_examples=150)
def test_merging_prompts_changes_nothing(batch):
    scores, prompts, own_column, tokens = batch
    columns = merge_prompts([f"prompt {p}" for p in prompts])
    distinct = [prompts[c] for c in columns.first]
    actual = measure(scores[:, distinct], columns.index[own_column], tokens, columns.weight)
    for name, value in oracle(scores[:, prompts].tolist(), own_column, tokens.tolist()).items():
        assert actual[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert actual["retrieval_chance"] == pytest.approx(1 / scores.shape[1])
    same = [(prompts == prompts[c]).mean() for c in own_column]
    assert actual["retrieval_chance_code"] == pytest.approx(np.mean(same))


@given(batches())
def test_retrieval_is_a_count(batch):
    scores, _, own, tokens = batch
    n, m = scores.shape
    own = own % m
    actual = measure(scores, own, tokens)
    for k, name in ((1, "retrieval_acc"), (2, "recall_at_2"), (4, "recall_at_4"), (8, "recall_at_8")):
        hits = [own[i] in np.argsort(-scores[i], kind="stable")[:k] for i in range(n)]
        assert actual[name] == pytest.approx(np.mean(hits))
    assert actual["retrieval_above_chance"] == pytest.approx(actual["retrieval_acc"] - 1 / m)


@given(batches())
def test_bounds(batch):
    scores, prompts, own_column, tokens = batch
    columns = merge_prompts(prompts.tolist())
    actual = measure(scores[:, [prompts[c] for c in columns.first]], columns.index[own_column], tokens, columns.weight)
    assert 0 <= actual["retrieval_acc"] <= actual["recall_at_2"] <= actual["recall_at_4"] <= actual["recall_at_8"] <= 1
    assert actual["mi_seq_est"] <= actual["upper_bound"] + 1e-9 <= math.log(len(prompts)) + 2e-9
    assert actual["mi_est_code"] <= actual["upper_bound"] + 1e-9
    assert actual["mi_est"] == pytest.approx(actual["h_z"] - actual["h_z_given_x"])  # I = H(Z) - H(Z|X)
    assert actual["mi_seq_est"] == pytest.approx(actual["h_z_seq"] - actual["h_z_given_x_seq"])


@given(batches())
def test_a_policy_that_ignores_its_prompt_has_no_information(batch):
    scores, prompts, own_column, tokens = batch
    columns = merge_prompts(prompts.tolist())
    blind = np.repeat(scores[:, :1], columns.first.size, axis=1)
    actual = measure(blind, columns.index[own_column], tokens, columns.weight)
    for name in ("mi_est", "mi_est_code", "mi_seq_est", "mi_zscore", "mi_zscore_seq", "retrieval_above_chance"):
        assert actual[name] == pytest.approx(0, abs=1e-9), name
    assert actual["recall_at_2"] == pytest.approx(min(1, 2 / columns.first.size))


@given(batches(), st.randoms())
def test_the_order_of_items_and_prompts_does_not_matter(batch, random):
    scores, _, own, tokens = batch
    n, m = scores.shape
    own = own % m
    weight = np.arange(1, m + 1)
    rows, columns = list(range(n)), list(range(m))
    random.shuffle(rows)
    random.shuffle(columns)
    actual = measure(scores, own, tokens, weight)
    place = np.argsort(columns)  # where a prompt went
    moved = measure(scores[rows][:, columns], place[own[rows]], tokens[rows], weight[columns])
    assert moved == pytest.approx(actual, rel=1e-9, abs=1e-12)


def test_full_information_reaches_the_bound():
    scores = np.where(np.eye(8, dtype=bool), -10.0, -500.0)
    actual = measure(scores, np.arange(8), np.full(8, 10))
    assert actual["retrieval_acc"] == 1.0
    assert actual["mi_seq_est"] == pytest.approx(math.log(8))
    assert actual["upper_bound"] == pytest.approx(math.log(8))
    assert actual["mi_est"] == pytest.approx(math.log(8) / 10)  # divided after the log-sum-exp ...
    assert actual["mi_est_code"] == pytest.approx(math.log(8))  # ... and before: not the same number


@given(batches())
def test_a_weight_matrix_restricts_each_item_to_its_candidates(batch):
    """Two independent turns in one matrix give the means of the two measured alone."""
    scores, _, own, tokens = batch
    n, m = scores.shape
    own = own % m
    both = np.full((2 * n, 2 * m), -3.0)  # scores under prompts of the other turn: present, never looked at
    both[:n, :m], both[n:, m:] = scores, scores[:, ::-1]
    weight = np.zeros((2 * n, 2 * m))
    weight[:n, :m] = weight[n:, m:] = 1
    single = measure(scores, own, tokens)
    two = measure(both, np.concatenate([own, 2 * m - 1 - own]), np.tile(tokens, 2), weight)
    for name in single:
        if "zscore" not in name:  # their sigma has another ddof correction over twice the items
            assert two[name] == pytest.approx(single[name], rel=1e-9, abs=1e-9), name


def test_the_moving_average_survives_a_resume():
    rng = np.random.default_rng(0)
    batches_ = [(rng.normal(-20, s, (16, 4)), rng.integers(0, 4, 16), np.full(16, 8)) for s in (1, 2, 3, 4, 5, 6)]

    def history(ema, some):
        return [[measure(*b, scope=s, ema=ema) for s in ("first_turn", "trajectory")] for b in some]

    undisturbed, first = {}, {}
    expected = history(undisturbed, batches_)
    before = history(first, batches_[:3])
    second = json.loads(json.dumps(first))
    assert before + history(second, batches_[3:]) == expected
    assert second == undisturbed
    # Written out: the first sigma starts it, then .9 of the old and .1 of the new
    sigmas = [statistics.stdev(logsumexp(s, axis=1, b=1 / 4) / 8) for s, _, _ in batches_]
    ema = sigmas[0]
    for sigma, (actual, _) in zip(sigmas, expected, strict=True):
        ema = 0.9 * ema + 0.1 * sigma
        assert actual["mi_zscore_ema"] == pytest.approx(actual["mi_est"] / (ema + 1e-3))
        assert actual["mi_zscore"] == pytest.approx(actual["mi_est"] / (sigma + 1e-3))


def test_nothing_to_tell_apart_and_nonsense():
    ema = {}
    assert measure(np.zeros((4, 1)), [0] * 4, [1] * 4, ema=ema) == {}
    assert measure(np.zeros((1, 4)), [0], [1], ema=ema) == {}
    assert ema == {}
    with pytest.raises(RunError) as error:
        measure([[0.0, math.nan], [0.0, 0.0]], [0, 1], [1, 1])
    assert error.value.failure_class == "nan"
    with pytest.raises(ValueError, match="at least one token"):
        measure(np.zeros((2, 2)), [0, 1], [1, 0])
    with pytest.raises(ValueError, match="prompts below 2"):
        measure(np.zeros((2, 2)), [0, 2], [1, 1])
    with pytest.raises(ValueError, match="own prompt"):
        measure(np.zeros((2, 2)), [0, 1], [1, 1], [[1, 1], [1, 0]])


def test_the_released_marginal_can_be_left_out():
    config = dataclasses.replace(CONFIG, released_marginal=False)
    actual = measure(np.eye(3), np.arange(3), np.ones(3, int), config=config)
    assert not [name for name in actual if name.endswith("_code")]


def test_it_measures_the_first_iteration_and_every_fifth():
    assert [step for step in range(12) if is_measured(step, CONFIG)] == [1, 5, 10]
    assert not any(is_measured(step, MIConfig(every=0)) for step in range(12))


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 20), st.integers(0, 1000))
def test_first_turns_are_valid_distinct_and_repeatable(valid, samples, seed):
    valid = np.array(valid, dtype=bool)
    chosen = sample_first_turns(valid, samples, np.random.default_rng(seed))
    assert len(chosen) == min(samples, valid.sum()) == len(set(chosen.tolist()))
    assert valid[chosen].all()
    assert (np.diff(chosen) > 0).all()
    assert chosen.tolist() == sample_first_turns(valid, samples, np.random.default_rng(seed)).tolist()


def test_turns_are_trajectory_uniform():
    """Long and short trajectories weigh the same; turns without reasoning and trajectories without any never come."""
    valid = np.zeros((4, 5), dtype=bool)
    valid[0, :] = True
    valid[1, 3] = True
    valid[3, [1, 4]] = True
    counts = np.zeros((4, 5))
    rng = np.random.default_rng(0)
    for _ in range(1000):
        pairs = sample_turns(valid, 64, rng)
        assert len(pairs) == 8  # no more than there are
        np.add.at(counts, tuple(pairs.T), 1)
    expected = np.zeros((4, 5))
    expected[0, :], expected[1, 3], expected[3, [1, 4]] = 1 / 15, 1 / 3, 1 / 6
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.02)
    assert len(sample_turns(valid, 5, rng)) == 5
    assert sample_turns(np.zeros((3, 2), dtype=bool), 5, rng).shape == (0, 2)
