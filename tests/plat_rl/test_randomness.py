"""Random numbers are functions of their key: no two uses share a stream, no two training prompts an instance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plat_rl.loop.randomness import (
    FIRST_PROBE_SEED,
    generator,
    pair,
    probe_seed,
    training_seeds,
    uniforms,
)

whole = st.integers(0, 200) | st.integers(0, 10**18)
small = st.integers(0, 40)
KEY = ("training", 3, 1, 0)


@given(small, st.integers(1, 50), st.integers(0, 50), st.integers(1, 40))
def test_the_numbers_of_a_trajectory_do_not_depend_on_how_many_there_are(turn, count, more, tokens):
    few, many = (uniforms(KEY, turn, number, tokens) for number in (count, count + more))
    assert few.shape == (count, tokens) and few.dtype == np.float32
    assert np.array_equal(few, many[:count])


def test_they_are_uniform_and_below_one():
    drawn = uniforms(KEY, 0, 2000, 25).ravel()
    assert 0 <= drawn.min() and drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3


@given(st.tuples(whole, whole, small), st.tuples(whole, whole, small))
def test_different_keys_give_different_streams(key, other):
    single, two = (generator("training", *parts).random(4).tolist() for parts in (key, other))
    assert (single == two) == (key == other)
    assert generator("probe", *key).random(4).tolist() != single


@given(st.tuples(whole, whole), st.tuples(whole, whole))
def test_pairs_are_numbered_without_collisions(a, b):
    assert (pair(*a) == pair(*b)) == (a == b)


def test_the_numbering_of_pairs_leaves_nothing_out():
    assert sorted(pair(a, b) for a in range(20) for b in range(20) if a + b < 20) == list(range(210))


@given(st.tuples(whole, whole, small), st.tuples(whole, whole, small), st.integers(1, 300))
def test_no_two_rollouts_share_a_training_instance(place, other, prompts):
    """Any seed, step and refill: also the tenth refill, and more than a hundred prompts."""
    mine, theirs = training_seeds(*place, prompts), training_seeds(*other, prompts)
    assert len(mine) == prompts and mine.start >= 0
    assert bool(set(mine) & set(theirs)) == (place == other)


def test_all_instances_of_a_long_run_with_many_refills_are_different():
    seen = [
        n
        for seed in range(3)
        for step in range(60)
        for refill in range(13)
        for n in training_seeds(seed, step, refill, 8)
    ]
    assert len(seen) == len(set(seen))


@given(st.tuples(small, whole, small), st.tuples(small, whole, small), st.integers(1, 1000))
def test_blocks_of_probes_look_at_seeds_of_their_own(place, other, tries):
    mine, theirs = probe_seed(*place, tries), probe_seed(*other, tries)
    assert min(mine, theirs) >= FIRST_PROBE_SEED
    assert place == other or abs(mine - theirs) >= tries
