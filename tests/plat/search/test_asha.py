"""Ray Tune's ASHA as a pruner: held against the rule written out, and against itself after a restart."""

from __future__ import annotations

import numpy
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.search.asha import TuneAsha
from plat.search.pruners import make_pruner
from plat.search.search_settings import read_chosen

optuna.logging.set_verbosity(optuna.logging.WARNING)
STEPS = 9
CURVES = st.lists(st.lists(st.integers(0, 20), min_size=STEPS, max_size=STEPS), min_size=2, max_size=6)


def stops(curves, pruners, direction="maximize"):
    """At which step each trial is stopped, one after another; None for one that is not. A pruner for each question."""
    study = optuna.create_study(direction=direction)
    ends = []
    for curve in curves:
        trial, end = study.ask(), None
        for step, value in enumerate(curve, start=1):
            trial.report(value, step)
            stored = study.get_trials(deepcopy=False)[trial.number]
            if next(pruners).prune(study, stored):
                end = step
                break
        ends.append(end)
        study.tell(
            trial,
            state=optuna.trial.TrialState.COMPLETE if end is None else optuna.trial.TrialState.PRUNED,
            values=None if end else curve[-1],
        )
    return ends


def asha(curves, reduction):
    """The same by the rule: at the steps 1, r, r^2, ..., below the upper quantile 1 - 1/r of those that came before."""
    rungs = [reduction**power for power in range(10) if reduction**power <= STEPS]
    recorded = {rung: [] for rung in rungs}
    ends = []
    for curve in curves:
        end = None
        for rung in rungs:
            value, before = curve[rung - 1], recorded[rung]
            is_worse = bool(before) and value < numpy.quantile(before, 1 - 1 / reduction)
            before.append(value)
            if is_worse:
                end = rung
                break
        ends.append(end)
    return ends


def lasting(reduction=3):
    pruner = TuneAsha(1, reduction, STEPS)
    while True:
        yield pruner


def always_restarted(reduction=3):
    while True:
        yield TuneAsha(1, reduction, STEPS)


@settings(max_examples=30, deadline=None)
@given(CURVES, st.sampled_from([2, 3]))
def test_it_stops_what_the_rule_stops_also_when_it_is_restarted_at_every_step(curves, reduction):
    expected = asha(curves, reduction)
    assert stops(curves, lasting(reduction)) == expected
    assert stops(curves, always_restarted(reduction)) == expected


def test_minimizing_is_the_mirror_image():
    curves = [[1] * STEPS, [5] * STEPS, [0] * STEPS]
    assert stops(curves, lasting(), "minimize") == [None, 1, None]
    assert stops(curves, lasting(), "maximize") == [None, None, 1]


def test_a_search_file_names_it_with_its_options():
    chosen = read_chosen("pruner", {"name": "asha", "min_steps": 2}, "here")
    pruner = make_pruner(chosen, 20)
    assert isinstance(pruner, TuneAsha) and str(chosen) == "asha (min_steps 2, reduction 4)"
    assert isinstance(make_pruner(read_chosen("pruner", {"name": "asha", "min_steps": 50}, "here"), 20), TuneAsha)


@pytest.mark.parametrize("most", [1, 50])
def test_a_first_rung_beyond_the_end_stops_nothing(most):
    pruner = TuneAsha(50, 4, most)

    def pruners():
        while True:
            yield pruner

    assert stops([[3] * STEPS, [1] * STEPS], pruners()) == [None, None]
