"""Leave-one-setting-out prediction against a slow loop of fits; a planted lead is found, a null is not."""

from __future__ import annotations

import numpy as np
import pytest

from plat_analysis.statistics.leads import foretell, jackknife_p

SHAPE = (10, 2, 4)


def slow_errors(columns, y):
    total = 0.0
    for left_out in range(len(y)):
        kept = [s for s in range(len(y)) if s != left_out]
        design = np.concatenate([columns[s].reshape(-1, columns.shape[-1]) for s in kept])
        fit, *_ = np.linalg.lstsq(design, np.concatenate([y[s].ravel() for s in kept]), rcond=None)
        total += ((y[left_out].ravel() - columns[left_out].reshape(-1, columns.shape[-1]) @ fit) ** 2).sum()
    return total


def test_shares_are_those_of_separate_fits():
    random = np.random.default_rng(0)
    x, known, y = random.standard_normal((3, *SHAPE))
    y = y + x + known
    found = foretell(x, known, y)
    builds = np.broadcast_to(np.eye(2)[None, :, None, :], (*SHAPE, 2))
    mean = slow_errors(builds, y)
    base = np.concatenate([builds, known[..., None]], axis=-1)
    assert found.without == pytest.approx(1 - slow_errors(base, y) / mean)
    assert found.with_it == pytest.approx(1 - slow_errors(np.concatenate([base, x[..., None]], -1), y) / mean)


def test_shares_beside_several_known_measures_are_those_of_separate_fits():
    random = np.random.default_rng(2)
    x, one, two, y = random.standard_normal((4, *SHAPE))
    y = y + x + one - two
    found = foretell(x, np.stack([one, two]), y)
    builds = np.broadcast_to(np.eye(2)[None, :, None, :], (*SHAPE, 2))
    mean = slow_errors(builds, y)
    base = np.concatenate([builds, one[..., None], two[..., None]], axis=-1)
    assert found.without == pytest.approx(1 - slow_errors(base, y) / mean)
    assert found.with_it == pytest.approx(1 - slow_errors(np.concatenate([base, x[..., None]], -1), y) / mean)
    assert foretell(x, one[None], y) == foretell(x, one, y)


def test_what_two_known_measures_say_together_adds_nothing():
    random = np.random.default_rng(3)
    levels, noise = random.standard_normal((3, 12, 1, 1)), random.standard_normal((4, 12, 2, 5))
    success, valid = levels[0] + 0.5 * noise[0], levels[1] + 0.5 * noise[1]
    outcome, both = success + valid + levels[2] + noise[2], success + valid + 0.2 * noise[3]
    assert foretell(both, success, outcome).p < 0.025  # beside success alone it speaks of validity
    assert foretell(both, np.stack([success, valid]), outcome).p > 0.05


def test_each_further_known_measure_needs_a_setting():
    random = np.random.default_rng(4)
    x, one, two, y = random.standard_normal((4, 6, 2, 4))
    foretell(x, one, y)
    with pytest.raises(ValueError, match="at least 7 settings"):
        foretell(x, np.stack([one, two]), y)


def test_a_lead_is_found_and_what_is_known_already_is_none():
    random = np.random.default_rng(1)
    strength, noise = random.standard_normal((10, 1, 1)), random.standard_normal((4, *SHAPE))
    known = 0.3 * noise[0]
    lead = foretell(strength + 0.3 * noise[1], known, strength + known + 0.3 * noise[2])
    assert lead.p < 0.05 and lead.added > 0.3
    echo = foretell(known + 0.01 * noise[1], known, known + 0.3 * noise[2])
    assert echo.p > 0.025 and echo.added < 0.1


def test_a_null_errs_as_often_as_it_says():
    hits = 0
    for seed in range(40):
        random = np.random.default_rng([7, seed])
        settings, noise = random.standard_normal((3, 8, 1, 1)), random.standard_normal((3, 8, 2, 3))
        x, known, y = settings + 0.5 * noise  # settings have levels of their own, unrelated to each other
        hits += foretell(x, known, y, seed).p <= 0.1
    assert hits <= 9  # of 40 at .1: more has a chance below 1 in 100


def test_what_cannot_be_told_is_refused():
    values = np.zeros(SHAPE)
    assert foretell(values, values, values).p == 1.0
    with pytest.raises(ValueError, match="at least 6 settings"):
        foretell(values[:5], values[:5], values[:5])
    holed = values.copy()
    holed[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="missing"):
        foretell(holed, values, values)


def test_the_jackknife_is_that_of_separate_regressions():
    """Against a loop of regressions with a setting left out, beside the known, the builds and the families."""
    from scipy.stats import t as student

    random = np.random.default_rng(6)
    families = np.repeat(["a", "b", "c"], [6, 5, 4])
    x, one, two, y = random.standard_normal((4, 15, 2, 3))
    y = y + 0.3 * x + one
    known = np.stack([one, two])

    def weight(kept):
        rows = [
            [x[s, b, r], one[s, b, r], two[s, b, r], b == 0, b == 1, families[s] == "b", families[s] == "c"]
            for s in kept
            for b in range(2)
            for r in range(3)
        ]
        fit, *_ = np.linalg.lstsq(np.array(rows, float), np.concatenate([y[s].ravel() for s in kept]), rcond=None)
        return fit[0]

    whole = weight(range(15))
    apart = np.array([weight([s for s in range(15) if s != left]) for left in range(15)])
    error = np.sqrt(14 / 15 * ((apart - whole) ** 2).sum())
    expected = 2 * student.sf(abs(whole / error), 15 - 2 - 2 - 2)
    assert jackknife_p(x, known, y, list(families)) == pytest.approx(expected, rel=1e-8)
    assert foretell(x, known, y, families=list(families)).p >= expected * (1 - 1e-8)
    assert jackknife_p(one, known, y) == 1.0 and jackknife_p(x, known, np.zeros_like(y)) == 1.0
    assert jackknife_p(x[:6], known[:, :6], y[:6], list("abcabc")) == 1.0  # no degree of freedom
