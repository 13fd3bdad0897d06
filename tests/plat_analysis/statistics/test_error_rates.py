"""The promised error rates, by simulated tables through the functions that decide real ones (see `benchmarks`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from plat_analysis.statistics import correlation, leads
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import holm, shared_spread, starred

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
TABLES = 200
PARTS = (
    "tables",
    "claims",
    "spreads",
    "assumptions",
    "looks",
    "builds",
    "regimes",
    "trends",
    "correlation",
    "foretelling",
    "levels",
    "order",
    "shapes",
)


def most(promised, draws):
    """What is promised, and what chance adds to it once in two hundred tests."""
    return promised + 2.6 * (promised * (1 - promised) / draws) ** 0.5


@pytest.fixture(scope="module")
def simulated():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield {name: importlib.import_module(f"simulated.{name}") for name in PARTS}
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def rates(simulated):
    return simulated["tables"]


def outcomes(rates, spread, seeds, effect=0.0, tables=TABLES):
    random = np.random.default_rng([11, seeds])
    return [rates.simulate(random, spread, seeds, effect) for _ in range(tables)]


@pytest.mark.parametrize("spread", ["even", "uneven", "lottery", "half", "rare"])
def test_nulls_are_rarely_starred_or_claimed(rates, spread):
    null = outcomes(rates, spread, 5)
    assert rates.share(null, lambda outcome: outcome.stars > 0) <= most(0.05, TABLES)
    assert rates.share(null, lambda outcome: outcome.verdict in ("shown", "shown_in_part")) <= most(0.025, TABLES)


@pytest.mark.parametrize("spread", ["even", "lottery", "half"])
def test_a_true_published_size_is_rarely_excluded(rates, spread):
    true = outcomes(rates, spread, 5, np.array(rates.PUBLISHED))
    assert rates.share(true, lambda outcome: outcome.verdict in ("contradicted", "not_of_this_size")) <= most(
        0.025, TABLES
    )


@pytest.mark.parametrize("seeds", [1, 3, 4])
def test_below_five_seeds_there_is_no_star_and_no_verdict(rates, seeds):
    few = outcomes(rates, "even", seeds, 30.0, tables=20)
    assert not any(outcome.stars for outcome in few)
    assert {outcome.verdict for outcome in few} == {"not_enough_data"}


@pytest.mark.parametrize("seeds", [5, 6, 7])
@pytest.mark.parametrize("kind, rows", [("tosses", 1), ("tosses", 2), ("and calm", 2), ("and calm", 4), ("calm", 1)])
def test_one_condition_that_collapses_in_half_of_its_runs(simulated, kind, rows, seeds):
    """The promise, and with five seeds what five tosses of a coin that agree add to it."""
    claims = simulated["claims"]
    assert claims.held(kind, rows, seeds, 600) <= most(claims.promised(seeds), 600)


@pytest.mark.parametrize("kind, rows", [("tosses", 1), ("tosses", 4), ("and calm", 4), ("and calm", 9), ("calm", 4)])
@pytest.mark.parametrize("pairs", [8, 10])
def test_rows_with_their_own_spread_keep_the_promise(simulated, kind, rows, pairs):
    assert simulated["claims"].held(kind, rows, pairs, 400) <= most(0.025, 400)


def test_a_row_that_varies_much_hides_no_other_from_eight_pairs_on(simulated):
    spreads = simulated["spreads"]
    assert spreads.power((1, 2, 3, 6), 10, 200) > 0.95 and spreads.power((1, 2, 3, 6), 8, 200) > 0.7
    assert spreads.power((1, 2, 3, 6), 5, 200) < 0.1, "few tosses of a coin may agree"
    for pairs in (8, 10, 20):
        assert spreads.held((1, 2, 3, 6), pairs, 400) <= most(0.025, 400)


def test_what_is_promised_of_one_sided_changes_and_of_common_seeds(simulated):
    assumptions = simulated["assumptions"]
    for kind in assumptions.SYMMETRIC:
        assert assumptions.shares(kind, 1, 2, 5, "fixed", 400)[0] <= most(0.025, 400), kind
    assert assumptions.shares("seeds 90 %", 1, 6, 5, "random", 400)[0] <= most(0.025, 400)
    for kind, warned in (("losses", 0.4), ("seeds 90 %", 0.75)):  # not promised, and often warned
        wrong, said = assumptions.shares(kind, 1, 2, 5, "fixed", 400)
        assert wrong > most(0.025, 400) and said > warned, kind


def test_students_t_alone_would_not_do(simulated):
    assert simulated["claims"].held_by_t_alone(7, 4000) > most(0.025, 4000)


@pytest.mark.long
def test_foreseen_looks_and_fresh_seeds_keep_the_promise(simulated):
    looks, random = simulated["looks"], np.random.default_rng(3)
    careless, foreseen = ([looks.held_at_some_look(random, n) for _ in range(500)] for n in (1, 5))
    assert np.mean(careless) > most(0.025, 500) >= np.mean(foreseen)
    assert np.mean([looks.held_on_fresh_seeds(random) for _ in range(500)]) <= most(0.025, 500)


def test_claims_over_builds_keep_their_promise(simulated):
    builds = simulated["builds"]
    for case in builds.CASES:
        shown, _ = builds.held(*case, 200)
        assert shown <= most(1 / 32 if case[0] != "shift" else 0.025, 400), case
    for seeds, kind in ((5, "shift"), (5, "tosses")):
        assert builds.held(kind, 2, seeds, "fixed", 400)[1] <= most(0.05, 400) + 0.01


def test_the_edges_of_the_rule_of_regimes(simulated):
    regimes = simulated["regimes"]
    for case in regimes.CASES:
        share = regimes.share(case, 150)
        if case.promised == "power":
            assert share > 0.8, case.name
        elif case.promised == "none":
            assert share == 0, case.name
        else:
            assert share <= most(float(case.promised.removeprefix("at most ")), 150), case.name


@pytest.mark.long
def test_correlations_over_settings_that_have_nothing_to_do_with_each_other(simulated, monkeypatch):
    part = simulated["correlation"]
    monkeypatch.setattr(correlation, "RESAMPLED", 10)  # intervals are not asked for
    for case in part.CASES:
        if case.promised:
            assert max(part.shares(case, 200)) <= most(0.025, 200), case
    for kind in ("spread", "collapse"):  # runs are no units
        assert min(part.shares(part.Case(kind, "runs"), 200)) > 0.1
    for kind, test in (
        ("noise 0.6", "between"),
        ("families", "apart"),
        ("two groups", "apart"),
    ):  # what decides, and why
        assert part.shares(part.Case(kind, test), 100)[0] > 0.05, (kind, test)
    assert part.shares(part.Case("agree 0.8", "apart"), 50)[0] > 0.7
    assert part.shares(part.Case("reversal", "between"), 50)[0] == 1.0
    assert part.shares(part.Case("reversal", "within"), 50)[1] == 1.0


def test_intervals_of_correlations(simulated):
    for settings, agreement in ((6, 0.0), (18, 0.8)):
        assert simulated["correlation"].missed(settings, agreement, 200) <= most(0.05, 200)


def test_a_clear_effect_is_shown_with_ten_seeds(rates):
    clear = outcomes(rates, "even", 10, 10.0, tables=40)
    assert rates.share(clear, lambda outcome: outcome.verdict == "shown") > 0.9
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


def test_from_eight_units_on_a_cell_has_its_own_spread():
    def cell(spread, units):
        values = spread * np.linspace(-1, 1, units)
        return over_replicates({Replicate(None, seed): float(x) for seed, x in enumerate(values)}, wanted=units)

    cells = {"seven": cell(1, 7), "eight": cell(1, 8), "wild": cell(30, 8)}
    guarded = shared_spread(cells)
    assert guarded["seven"].error == guarded["seven"].shared_error > 5 * cells["seven"].error
    assert guarded["eight"].error == cells["eight"].error < guarded["eight"].shared_error / 5
    assert guarded["wild"].shared_error == guarded["wild"].error


def test_a_cell_that_lacks_runs_has_no_star():
    """A run may be missing because of what it would have shown."""

    def cell(wanted):
        values = {Replicate(None, seed): 20.0 + seed for seed in range(5)}
        return over_replicates(values, 0.1, wanted=wanted)

    assert starred([{"cell": cell(5)}])["cell"].star == 1
    assert starred([{"cell": cell(10)}])["cell"].star == 0


@pytest.mark.parametrize("kind", ["even", "uneven", "tosses"])
def test_trends_are_rarely_found_where_there_is_none(simulated, kind):
    promised = 0.5**5 if kind == "tosses" else 0.025  # five tosses that agree, as for every claim of five units
    assert simulated["trends"].share(kind, 2, 5, 500) <= most(promised, 500)


def test_a_planted_trend_is_found_and_never_its_opposite(simulated):
    assert simulated["trends"].share("planted", 2, 10, 100) > 0.95
    assert simulated["trends"].share("planted", 2, 10, 100, ("contradicted", "not_of_this_size")) == 0.0


@pytest.mark.parametrize("kind", ["even", "builds", "uneven", "tosses"])
def test_a_level_that_is_the_bound_is_rarely_said_to_lie_beside_it(simulated, kind):
    promised = 0.5**5 if kind == "tosses" else 0.025
    assert simulated["levels"].share(kind, 1, 5, 300) <= most(promised, 300)
    assert simulated["levels"].share("planted", 1, 5, 50) > 0.9


@pytest.mark.parametrize("kind", ["same", "apart"])
def test_signals_that_fall_together_have_no_order(simulated, kind):
    order = simulated["order"]
    assert order.share(kind, 1, 150) <= most(0.025, 150)
    assert order.share("planted", 1, 10) > 0.9
    assert (
        order.share("onset", 1, 10, ("contradicted", "not_of_this_size")) > 0.9
    )  # another shape looks like an order, as its check says


def test_nothing_is_foretold_where_nothing_is_planted(simulated, monkeypatch):
    part = simulated["foretelling"]
    monkeypatch.setattr(leads, "ORDERS", 200)
    monkeypatch.setattr(correlation, "RESAMPLED", 10)  # intervals are not asked for
    for kind in ("unrelated", "copy", "builds", "collapse", "families", "two known", "four known"):
        assert part.share(kind, 100) <= most(0.025, 100), kind
    assert part.share("planted in two", 40) > 0.2 and part.share("hidden", 20) > 0.5  # noise in what is known
    assert part.share("uneven", 100) <= most(0.05, 100)  # by permutation alone it is .14
    assert part.share("planted", 20) > 0.8
    for kind in ("no gain", "few runs", "tasks 1", "tasks 2"):
        assert part.share(kind, 100) <= most(0.025, 100), kind
    assert part.share("all alike", 100) > 0.1  # tasks are no starts
    assert part.share("gain", 20) > 0.9 and part.share("gain in tasks", 20) > 0.8


@pytest.mark.parametrize("kind", ["normal", "lottery", "heavy", "signs", "scales"])
def test_three_seeds_on_many_tasks_without_a_change(simulated, kind):
    for tasks in (8, 104):
        assert max(simulated["shapes"].of_tasks(kind, tasks, 200)) <= most(0.025, 200)


def test_three_seeds_on_104_tasks_find_a_change(simulated):
    held, refuted = simulated["shapes"].of_tasks("planted", 104, 100)
    assert held > 0.9 and refuted == 0


def test_unpaired_runs_of_unequal_number_and_spread(simulated):
    shapes = simulated["shapes"]
    for case in shapes.UNPAIRED:
        held, refuted = shapes.of_runs(case, 150)
        if case[0] == "planted":
            assert refuted == 0 and (held > 0.6 or case[2] == 3.0)
        else:
            assert max(held, refuted) <= most(0.025, 150), case


def test_bootstrap_intervals_over_many_tasks(simulated):
    """Three seeds show two thirds of their variance, as `statistics.aggregate` says; ten suffice."""
    shapes = simulated["shapes"]
    assert 0.75 < shapes.covered(3, False, 150) < 0.95
    assert shapes.covered(10, False, 150) >= 1 - most(0.05, 150) - 0.02
