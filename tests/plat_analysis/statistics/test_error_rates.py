"""The promised error rates, by simulated tables through the functions that decide real ones (see `benchmarks`)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from plat_analysis.statistics.families import holm, shared_spread, starred
from plat_analysis.statistics.replicates import Replicate, over_replicates

PATH = Path(__file__).parents[3] / "benchmarks" / "error_rates.py"
TABLES = 200
MOST = 0.05 + 2.6 * (0.05 * 0.95 / TABLES) ** 0.5  # 5 %, and what chance adds to it once in two hundred tests


@pytest.fixture(scope="module")
def rates():
    spec = importlib.util.spec_from_file_location("error_rates", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["error_rates"] = module
    spec.loader.exec_module(module)
    return module


def outcomes(rates, spread, seeds, effect=0.0, tables=TABLES):
    random = np.random.default_rng([11, seeds])
    return [rates.simulate(random, spread, seeds, effect) for _ in range(tables)]


@pytest.mark.parametrize("spread, seeds", [("even", 3), ("uneven", 3), ("lottery", 3), ("lottery", 5)])
def test_nulls_are_rarely_starred_or_claimed(rates, spread, seeds):
    null = outcomes(rates, spread, seeds)
    assert rates.share(null, lambda outcome: outcome.stars > 0) <= MOST
    assert rates.share(null, lambda outcome: outcome.verdict in ("reproduced", "partial")) <= MOST


@pytest.mark.parametrize("spread", ["even", "lottery"])
def test_a_true_published_size_is_rarely_called_not_reproduced(rates, spread):
    true = outcomes(rates, spread, 3, np.array(rates.PUBLISHED))
    assert rates.share(true, lambda outcome: outcome.verdict == "not_reproduced") <= MOST


def test_one_seed_gives_no_star_and_no_verdict(rates):
    single = outcomes(rates, "even", 1, 30.0, tables=50)
    assert not any(outcome.stars for outcome in single)
    assert {outcome.verdict for outcome in single} == {"not_enough_data"}


def test_a_clear_effect_is_shown_with_ten_seeds(rates):
    clear = outcomes(rates, "even", 10, 10.0, tables=40)
    assert rates.share(clear, lambda outcome: outcome.verdict == "reproduced") > 0.9
    assert rates.share(clear, lambda outcome: outcome.stars) > 0.9 * 45


def test_holm_against_its_definition():
    p_values = [0.01, None, 0.04, 0.03, 0.005]
    adjusted = holm(p_values)
    assert adjusted == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06), pytest.approx(0.02)]
    assert holm([]) == [] and holm([None]) == [None] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_a_cell_supposes_at_least_the_spread_of_its_peers():
    def cell(*values):
        return over_replicates({Replicate(None, seed): value for seed, value in enumerate(values)}, wanted=3)

    cells = {"calm": cell(5.0, 5.1, 4.9), "wild": cell(-10.0, 0.0, 10.0), "alone": cell(3.0)}
    guarded = shared_spread(cells)
    common = np.sqrt((0.1**2 + 10.0**2) / 2)
    assert guarded["calm"].error == pytest.approx(common / np.sqrt(3))
    assert guarded["wild"].error == cells["wild"].error and guarded["alone"].error is None
    assert (guarded["calm"].low, guarded["calm"].high) == (cells["calm"].low, cells["calm"].high)


def test_a_cell_that_lacks_runs_has_no_star():
    """A run may be missing because of what it would have shown."""

    def cell(wanted):
        values = {Replicate(None, seed): 20.0 + seed for seed in range(5)}
        return over_replicates(values, 0.1, wanted=wanted)

    assert starred([{"cell": cell(5)}])[0]["cell"].star == 1
    assert starred([{"cell": cell(10)}])[0]["cell"].star == 0
