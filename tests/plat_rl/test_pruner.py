"""Mutual information as an early warning: which curves are given up."""

from __future__ import annotations

from plat.search.search_settings import read_chosen
from plat_rl.pruner import CHANCE, ENTROPY, RETRIEVAL, collapse_seen

OPTIONS = read_chosen("pruner", "retrieval", "here").options


def curves(retrieval, entropy):
    steps = range(0, 2 * len(retrieval), 2)
    chance = dict.fromkeys(steps, 0.125)
    return {
        RETRIEVAL: dict(zip(steps, retrieval, strict=True)),
        ENTROPY: dict(zip(steps, entropy, strict=True)),
        CHANCE: chance,
    }


FALLING, UP = [0.9, 0.8, 0.5, 0.2, 0.15], [2.0, 2.1, 2.3, 2.4, 2.5]


def test_a_fall_to_chance_with_entropy_up_is_given_up():
    reason = collapse_seen(curves(FALLING, UP), 8, OPTIONS)
    assert "fell from 0.78 to 0.08 above chance at step 8" in reason


def test_it_is_not_given_up_before_it_has_lasted():
    assert not collapse_seen(curves(FALLING, UP), 6, OPTIONS)  # one measurement near chance


def test_falling_entropy_is_another_thing():
    assert not collapse_seen(curves(FALLING, [2.0, 1.5, 1.0, 0.6, 0.3]), 8, OPTIONS)


def test_retrieval_that_was_never_up_has_not_fallen():
    assert not collapse_seen(curves([0.15] * 5, UP), 8, OPTIONS)


def test_retrieval_that_stays_up_is_let_go_on():
    assert not collapse_seen(curves([0.9, 0.8, 0.7, 0.6, 0.5], UP), 8, OPTIONS)


def test_a_run_that_measures_nothing_is_let_go_on():
    assert not collapse_seen({RETRIEVAL: {}, CHANCE: {}, ENTROPY: {}}, 8, OPTIONS)
