"""Mutual information as an early warning: which curves are given up."""

from __future__ import annotations

import numpy as np

from plat.search.search_settings import read_chosen
from plat_rl.pruner import CHANCE, ENTROPY, RETRIEVAL, VALID, collapse_seen

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
    assert "fell from 0.90 (chance 0.12) to 0.20 (chance 0.12) at step 8" in reason and "valid" not in reason


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


def with_valid(*counts):
    return curves(FALLING, UP) | {VALID: dict(zip(range(0, 10, 2), counts, strict=True))}


def test_the_number_of_reasonings_is_said_where_it_is_logged():
    reason = collapse_seen(with_valid(64, 64, 60, 33, 32), 8, OPTIONS)
    assert "from 0.90 (chance 0.12, 64 valid reasonings) to 0.20 (chance 0.12, 33 valid reasonings)" in reason


def test_a_fall_on_the_few_reasonings_that_are_left_is_no_reason_to_stop():
    assert not collapse_seen(with_valid(64, 64, 60, 31, 64), 8, OPTIONS)
    assert not collapse_seen(with_valid(64, 64, 60, 64, 31), 8, OPTIONS)
    assert collapse_seen(with_valid(10, 9, 8, 5, 5), 8, OPTIONS), "few from the start are no fewer at the end"


def test_without_the_count_the_rule_is_as_before():
    """The rule in its words: compared with a loop on random curves, with the chance of each measurement."""
    random = np.random.default_rng(0)
    stopped = 0
    for _ in range(500):
        steps = range(6)
        acc, chance = random.uniform(0, 0.5, 6), random.uniform(0.05, 0.2, 6)
        acc[:3] += 0.3
        entropy = random.uniform(0.6, 1.4, 6)
        drawn = {RETRIEVAL: dict(enumerate(acc)), CHANCE: dict(enumerate(chance)), ENTROPY: dict(enumerate(entropy))}
        above = [acc[at] - chance[at] for at in steps]
        expected = (
            all(each <= 0.1 for each in above[4:])
            and max(above[:4]) - max(above[4:]) > 0.1
            and min(entropy[4:]) >= 0.5 * entropy[0]
        )
        assert bool(collapse_seen(drawn, 5, OPTIONS)) == expected
        assert bool(collapse_seen(drawn | {VALID: {}}, 5, OPTIONS)) == expected
        stopped += expected
    assert stopped > 20
