"""Boundaries against slow oracles, and the laws of decisions at looks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat_analysis.statistics.sequential import (
    LOOKS,
    SPENDING,
    Plan,
    Row,
    crossed,
    decide,
    expected_pairs,
    flips_cross,
    spending,
    t_bounds,
    t_statistic,
    upper_bound,
)

LEVEL = 0.025


def paths(draws: int, looks: tuple[int, ...], seed: int) -> np.ndarray:
    """Return Student's t at each look of normal values with a mean of zero, [draw, look]."""
    x = np.random.default_rng(seed).standard_normal((draws, looks[-1]))
    found = []
    for n in looks:
        part = x[:, :n]
        found.append(part.mean(axis=1) / part.std(axis=1, ddof=1) * n**0.5)
    return np.stack(found, axis=1)


@pytest.mark.parametrize("looks", [LOOKS, (8, 10, 13, 30), (9, 40), (12,)])
def test_bounds_of_t_spend_what_they_may_by_simulation(looks):
    spent = spending(looks, LEVEL)
    bounds = np.array(t_bounds(looks, looks[-1], LEVEL))
    draws = 300_000
    crossed_by = (paths(draws, looks, seed=1) >= bounds).cumsum(axis=1).astype(bool).mean(axis=0)
    error = np.sqrt(np.array(spent) / draws)
    assert np.all(np.abs(crossed_by - spent) < 4 * error)
    assert spent[-1] == pytest.approx(LEVEL)


def test_the_first_bound_is_the_quantile_of_t():
    from scipy.stats import t

    assert t_bounds((8,), 27, LEVEL)[0] == pytest.approx(t.isf(LEVEL * (8 / 27) ** SPENDING, 7), rel=1e-9)


def test_bounds_do_not_depend_on_later_looks():
    assert t_bounds(LOOKS[:2], LOOKS[-1], LEVEL) == t_bounds(LOOKS, LOOKS[-1], LEVEL)[:2]


def flips_slowly(values: np.ndarray, looks: tuple[int, ...], most: int, level: float) -> bool:
    """Enumerate all sign vectors: the boundary of each look, and whether the observed sums cross the last one."""
    signs = np.array(list(itertools.product([-1, 1], repeat=len(values))))
    steps = np.rint(values / np.abs(values).max() * 4096)
    gone, used = np.zeros(len(signs), bool), 0.0
    crosses = False
    for look, spent in zip(looks, spending(looks, level, most), strict=True):
        sums = signs[:, :look] @ np.abs(steps[:look])
        observed = steps[:look].sum()
        bound = np.inf
        for candidate in np.unique(sums[~gone])[::-1]:
            if (sums[~gone] >= candidate).sum() / len(signs) > (spent - used) * (1 + 1e-9):
                break
            bound = candidate
        crosses = bool(observed >= bound)
        used += (sums[~gone] >= bound).sum() / len(signs)
        gone |= sums >= bound
    return crosses


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-5, 9), min_size=12, max_size=12), st.sampled_from([0.025, 0.1, 0.3]))
def test_flips_equal_the_enumeration(values, level):
    x = np.array(values, float)
    if not x.any():
        assert not flips_cross(x, (8, 12), 14, level)
        return
    for looks in ((8,), (8, 12)):
        part = x[: looks[-1]]
        if part.any():
            assert flips_cross(part, looks, 14, level) == flips_slowly(part, looks, 14, level)


def test_eight_values_of_one_sign_are_the_least_that_flips_can_show():
    ones = np.arange(1.0, 9.0)
    assert flips_cross(ones, (8,), 27, LEVEL) and spending((8, 27), LEVEL)[0] >= 2**-8
    ones[0] = -1.0
    assert not flips_cross(ones, (8,), 27, LEVEL)
    assert Plan().first_look(1) == 8 and Plan().first_look(4) == 12 and Plan().first_look(9) == 12


values_of_rows = st.lists(
    st.lists(st.floats(-3, 6, allow_nan=False).map(lambda x: round(x, 3)), min_size=27, max_size=27),
    min_size=1,
    max_size=3,
)


def rows_of(values: list[list[float]]) -> dict[str, Row]:
    return {str(index): Row(x, margin=1.0) for index, x in enumerate(values)}


@settings(max_examples=40, deadline=None)
@given(values_of_rows)
def test_decisions_are_replayed_from_the_values_alone(values):
    """Whatever later values are, earlier decisions stay: a decision uses the pairs of its look only."""
    whole = decide(rows_of(values), Plan())
    for name, decision in whole.items():
        assert decision.ended and decision.pairs in LOOKS
        cut = [x[: max(d.pairs for d in whole.values())] for x in values]
        assert decide(rows_of(cut), Plan())[name] == decision
    before = decide(rows_of([x[:7] for x in values]), Plan())
    assert all(not one.ended and one.pairs == 0 for one in before.values())


@settings(max_examples=40, deadline=None)
@given(values_of_rows, st.sampled_from([0.5, 2.0, 8.0]))
def test_decisions_do_not_depend_on_the_unit(values, factor):
    there = {name: Row([factor * x for x in row.values], row.margin * factor) for name, row in rows_of(values).items()}
    here = decide(rows_of(values), Plan())
    assert {name: (one.word, one.pairs) for name, one in decide(there, Plan()).items()} == {
        name: (one.word, one.pairs) for name, one in here.items()
    }


def test_a_row_that_is_shown_passes_its_error_on_and_a_stopped_one_does_not():
    strong = np.full(27, 5.0) + np.tile([0.1, -0.1, 0.05], 9)
    weak = np.random.default_rng(3).standard_normal(27) * 0.8 + 0.95
    futile = -strong
    alone = decide({"weak": Row(weak, 1.0)}, Plan())["weak"]
    with_shown = decide({"weak": Row(weak, 1.0), "strong": Row(strong, 1.0)}, Plan())["weak"]
    with_futile = decide({"weak": Row(weak, 1.0), "futile": Row(futile, 1.0)}, Plan())["weak"]
    assert alone.word == with_shown.word == "shown"
    assert alone.pairs <= with_shown.pairs <= with_futile.pairs
    both = decide({"strong": Row(strong, 1.0), "strong too": Row(strong[::-1], 1.0)}, Plan())
    assert {one.pairs for one in both.values()} == {12}  # at eight pairs two open rows cannot be shown


def test_words_for_known_rows():
    wave = np.tile([0.3, -0.3, 0.1, -0.1], 7)[:27]
    rows = {
        "up": Row(2 + wave, 1.0),
        "down": Row(-2 + wave, 1.0),
        "nothing": Row(wave, 1.0),
        "wide": Row(20 * wave, 1.0),
    }
    alone = {name: decide({name: row}, Plan())[name] for name, row in rows.items()}
    assert {name: one.word for name, one in alone.items()} == {
        "up": "shown",
        "down": "contradicted",
        "nothing": "not of this size",
        "wide": "open",
    }
    assert all(one.low < one.mean < one.high for one in alone.values())
    together = decide(rows, Plan())  # eight pairs cannot exclude anything in four rows, and two of them stop there
    assert {name: (one.word, one.pairs) for name, one in together.items() if one.pairs == 8} == {
        "down": ("open", 8),
        "nothing": ("open", 8),
    }
    within = Row(wave, 0.0, ((1, -1.0), (-1, 1.0)))
    beyond = Row(3 + wave, 0.0, ((1, -1.0), (-1, 1.0)))
    assert decide({"within": within}, Plan())["within"].word == "shown"
    assert decide({"beyond": beyond}, Plan())["beyond"].word == "contradicted"
    below = decide({"below": Row(wave - 2, 0.0, ((-1, -1.0),))}, Plan())
    assert below["below"].word == "shown"


def test_equal_values_and_zeros():
    assert t_statistic(np.zeros(8)) == 0.0 and t_statistic(np.full(8, 0.3)) == np.inf
    assert decide({"zero": Row([0.0] * 27, 1.0)}, Plan())["zero"].word == "not of this size"
    assert decide({"one": Row([1.0] * 27, 1.0)}, Plan())["one"].word == "shown"


def test_the_repeated_interval_covers_at_every_look_together():
    random, missed = np.random.default_rng(8), 0
    for _ in range(2000):
        x = random.standard_normal(27)
        highs = [upper_bound(x[:n], LOOKS[:k], 27, LEVEL) for k, n in enumerate(LOOKS, 1)]
        missed += min(highs) < 0
    assert missed / 2000 < LEVEL + 3 * (LEVEL / 2000) ** 0.5


def test_false_rows_and_pairs_by_simulation():
    """Four rows of tosses or of normal values without an effect; `benchmarks/error_rates.py sequential` draws more."""
    random = np.random.default_rng(4)
    for draw in (lambda: random.choice([-1.0, 1.0], (4, 27)), lambda: random.standard_normal((4, 27))):
        wrong, pairs = 0, []
        for _ in range(300):
            found = decide(rows_of([list(x) for x in draw()]), Plan())
            wrong += any(one.word == "shown" for one in found.values())
            pairs += [one.pairs for one in found.values()]
        assert wrong / 300 <= 0.05 and np.mean(pairs) < 0.64 * 20
    assert 8 <= expected_pairs(Plan(), 4, 0.0) < expected_pairs(Plan(), 4, 1.0) < 20


def test_both_tests_are_needed():
    collapsed = np.array([1.0] * 7 + [-1.0] + [1.0] * 4)  # tosses: t alone is fooled sooner
    assert not crossed(collapsed[:8], (8,), 27, LEVEL)
    assert crossed(np.linspace(1, 2, 12), (8, 12), 27, LEVEL)


@pytest.mark.parametrize("looks", [(), (5, 8), (8, 9), (8, 8), (12, 8)])
def test_impossible_looks(looks):
    with pytest.raises(ValueError, match="looks must rise"):
        Plan(looks)
