"""Optuna's pruners under their names in a file."""

from __future__ import annotations

import optuna

from plat.search.search_settings import read_chosen
from plat.search.trial_source import make_pruner


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
