"""Every check, from an experiment file and the frames of its runs to a verdict, on stores with a known truth."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
CHECKS = [
    "mean_delta_positive",
    "mean_delta_positive, runs",
    "mean_delta_positive, tasks",
    "mean_delta_small",
    "delta_larger",
    "increasing",
    "trend",
    "trend_over_measures",
    "level",
    "correlated",
    "correlated, within",
    "foretells",
    "foretells_gain",
    "falls_before",
]
every_check = pytest.mark.parametrize("name", CHECKS)


@pytest.fixture(scope="module")
def stores():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("simulated.stores")
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture
def judged(stores):
    """The verdict on a store with something planted, of which some runs are left out or changed."""

    def judge(name, change=lambda frames: frames, planted=1.0):
        store = stores.STORES[name]
        return store.verdict(change(store.frames(np.random.default_rng(0), planted)))

    return judge


def without(frames, lost):
    """The frames without some runs."""
    return replace(
        frames,
        runs=frames.runs[~frames.runs.run_id.isin(lost)],
        metrics=frames.metrics[~frames.metrics.run_id.isin(lost)],
    )


def test_every_check_has_a_store(stores):
    assert {store.claim["check"] for store in stores.STORES.values()} == {
        point.name
        for point in entry_points(group="plat.claims")
        if point.module.startswith(("plat_analysis.", "plat_ragen2."))
        for point in entry_points(group="plat.claims")
        if point.module.startswith(("plat_analysis.", "plat_ragen2."))
    }
    assert list(stores.STORES) == CHECKS


@every_check
def test_what_is_planted_is_found_and_its_opposite_is_refuted(stores, judged, name):
    assert judged(name).status == "shown"
    if name not in stores.NO_OPPOSITE:
        assert judged(name, planted=-1.0).status in ("contradicted", "not_of_this_size")


@every_check
def test_without_a_seed_there_is_not_enough_data(judged, name):
    """A seed that was never run, of all conditions: what is left might be what suits the claim."""
    lost = judged(name, lambda frames: without(frames, frames.runs[frames.runs["axis.seed"] == 1].run_id))
    assert lost.status == "not_enough_data", lost.detail


@every_check
def test_without_one_run_there_is_not_enough_data(judged, name):
    lost = judged(name, lambda frames: without(frames, frames.runs.run_id.iloc[-1:]))
    assert lost.status == "not_enough_data", lost.detail


@every_check
def test_a_failed_run_that_logged_all_counts_as_lost(judged, name):
    def failed(frames):
        outcomes = frames.runs.outcome.mask(frames.runs.index == 3, "failed:oom")
        return replace(frames, runs=frames.runs.assign(outcome=outcomes))

    assert judged(name, failed).status == "not_enough_data"


@every_check
def test_a_store_without_runs_is_not_enough_data(judged, name):
    assert judged(name, lambda frames: without(frames, frames.runs.run_id)).status == "not_enough_data"


@every_check
def test_nothing_is_seldom_held_and_seldom_refuted(stores, name):
    """At most one in forty each way; `benchmarks/error_rates.py stores` draws more."""
    draws = 60
    nothing = stores.words(name, 0, draws)
    wrongly = stores.words(name, 0.5, draws) if name in stores.SIZED else nothing
    most = 6 / draws  # more has a chance of 1 in 1000 where .025 is kept
    assert stores.share(nothing, stores.HELD) <= most and stores.share(wrongly, stores.REFUTED) <= most
