"""The tables of a search: the order of trials, and a winner's optimism against scipy's own interval."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_ind

from plat.store.coordination.live_sweeps import Trial, Winner
from plat_analysis.figures.trials import optimism, trials_table, winners_table

SEARCHED, FRESH = (0.62, 0.7, 0.66), (0.51, 0.6, 0.58, 0.4)


@pytest.mark.parametrize("maximize", [True, False])
def test_optimism_and_its_interval_are_welchs(maximize):
    test = ttest_ind(SEARCHED, FRESH, equal_var=False).confidence_interval(0.95)
    mean = sum(SEARCHED) / 3 - sum(FRESH) / 4
    value, low, high = optimism(Winner(0, "success", maximize, SEARCHED, FRESH, ()))
    expected = (mean, test.low, test.high) if maximize else (-mean, -test.high, -test.low)
    assert (value, low, high) == pytest.approx(expected)


def test_an_optimism_of_nothing_has_no_sign():
    winner = Winner(0, "success", False, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), ())
    (row,) = winners_table([winner], (3, 3)).rows
    assert "-0" not in row.cells[-1].text and "+" not in row.cells[-1].text
    better = Winner(0, "success", True, (0.75,), (0.5,), ())
    assert winners_table([better], (1, 1)).rows[0].cells[-1].text == "+0.25"


def test_two_runs_have_no_interval_and_none_has_no_optimism():
    assert optimism(Winner(0, "success", True, SEARCHED, FRESH[:2], ()))[1:] == (None, None)
    assert optimism(Winner(0, "success", True, SEARCHED, (), ())) is None


def test_trials_come_best_first_and_those_given_up_last():
    rows = [
        Trial(0, "complete", {"lr": 0.1}, (0.2,), 5, "", ()),
        Trial(1, "pruned", {"lr": 0.2}, (0.9,), 2, "median", ()),
        Trial(2, "complete", {"lr": 0.3}, (0.7,), 5, "", ()),
        Trial(3, "failed", {"lr": 0.3}, (), 0, "it broke", ()),
    ]
    assert [row.cells[0].text for row in trials_table(rows, [("success", True)]).rows] == ["2", "0", "1", "3"]
    assert [row.cells[0].text for row in trials_table(rows, [("time", False)]).rows] == ["0", "2", "1", "3"]


def test_a_winner_that_lacks_runs_says_so():
    table = winners_table([Winner(2, "success", True, SEARCHED, FRESH[:2], ())], (3, 5))
    assert "(2/5 runs)" in table.rows[0].cells[3].text
