"""Mutual information as an early warning: which curves are given up; and the pruner asha."""

from __future__ import annotations

import optuna

from plat.search.pruners import CHANCE, ENTROPY, RETRIEVAL, collapse_seen, make_pruner
from plat.search.search_settings import PRUNERS, read_chosen

OPTIONS = PRUNERS["retrieval"]


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


def test_asha_is_optuna_s_asynchronous_halving_with_the_defaults_of_asha():
    pruner = make_pruner(read_chosen("pruner", {"name": "asha", "min_steps": 2}, "here"))
    assert isinstance(pruner, optuna.pruners.SuccessiveHalvingPruner)
    study, ends = optuna.create_study(direction="maximize"), []
    for value in (3, 1, 2, 5):
        trial, end = study.ask(), None
        for step in range(1, 10):
            trial.report(value, step)
            if end is None and pruner.prune(study, study.get_trials(deepcopy=False)[trial.number]):
                end = step
        ends.append(end)
    assert ends == [None, 2, 2, None]  # at the first rung, the best quarter of those before goes on
