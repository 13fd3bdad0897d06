"""Error rates of tables like Table 4, nine rows and four columns: false stars, and false verdicts of their claim.

Each run's success is drawn around its cell's level, rounded to 1/256. Three kinds of spread are the same in both
conditions: `even` (3 points in every cell), `uneven` (a half to 8 points, by column), and `lottery` (half of the runs
of the first column collapse, by 50 points). In the others only runs without the filter collapse in the first column,
while the means of both conditions are equal: `half` of them, or one of ten (`rare`). Most samples of a few seeds show
no rare collapse, so there the promises depend on the other cells of the column. A table of a single cell has none, so
the promises do not hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowEvidence, decide_rows
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import starred

ROWS, COLUMNS, INSTANCES = 9, 4, 256
PUBLISHED = (6.9, 2.9, 3.7, 0.8, 5.5, 4.1, 4.1, 4.1, 5.3)  # the paper's average changes, row by row
ROUNDING = 100 / INSTANCES * np.sqrt(2 / 12)  # standard deviation from rounding, of a difference of two success rates
Runs = NDArray[np.float64]  # [row, column, seed], in percent
Draw = Callable[[np.random.Generator, int], Runs]


@dataclass(frozen=True)
class Outcome:
    """The result of one simulated table and its claim."""

    stars: int
    average_stars: int
    verdict: str


def even(random: np.random.Generator, seeds: int) -> Runs:
    return 50 + 3 * random.standard_normal((ROWS, COLUMNS, seeds))


def uneven(random: np.random.Generator, seeds: int) -> Runs:
    spread = np.array([8.0, 3.0, 0.5, 2.0])[:, None]
    return 50 + spread * random.standard_normal((ROWS, COLUMNS, seeds))


def collapsing(share: float, random: np.random.Generator, seeds: int) -> Runs:
    """Let `share` of the first column's runs collapse."""
    runs = 60 + 2 * random.standard_normal((ROWS, COLUMNS, seeds))
    runs[:, 0] -= 50 * (random.random((ROWS, seeds)) < share)
    return runs


def lowered(share: float, random: np.random.Generator, seeds: int) -> Runs:
    """Give all runs of the first column the mean that they have if `share` collapses."""
    runs = 60 + 2 * random.standard_normal((ROWS, COLUMNS, seeds))
    runs[:, 0] -= 50 * share
    return runs


SPREADS: dict[str, tuple[Draw, Draw]] = {  # without the filter, and with it
    "even": (even, even),
    "uneven": (uneven, uneven),
    "lottery": (partial(collapsing, 0.5), partial(collapsing, 0.5)),
    "half": (partial(collapsing, 0.5), partial(lowered, 0.5)),
    "rare": (partial(collapsing, 0.1), partial(lowered, 0.1)),
}


def simulate(
    random: np.random.Generator, spread: str, seeds: int, effect: float | NDArray[np.float64] = 0.0
) -> Outcome:
    """Simulate one table; `effect` shifts the runs of the treatment (points; one for all rows, or one for each)."""
    baseline, treatment = (draw(random, seeds) for draw in SPREADS[spread])
    treatment = treatment + np.broadcast_to(effect, ROWS)[:, None, None]
    step = 100 / INSTANCES
    changes = np.round(treatment / step) * step - np.round(baseline / step) * step
    columns = [{row: estimate(changes[row, column], ROUNDING) for row in range(ROWS)} for column in range(COLUMNS)]
    averages = {row: estimate(changes[row].mean(axis=0), ROUNDING / COLUMNS**0.5) for row in range(ROWS)}
    cells = starred([{(at, row): cell for row, cell in one.items()} for at, one in enumerate([*columns, averages])])
    stars = [key for key, cell in cells.items() if cell.star]
    evidence = {str(row): RowEvidence(averages[row], PUBLISHED[row]) for row in range(ROWS)}
    return Outcome(len(stars), sum(at == COLUMNS for at, _ in stars), decide_rows(evidence).status)


def one_cell(random: np.random.Generator, seeds: int) -> bool:
    """Return True if a table of one cell has a star, with rare collapses of the baseline and equal means."""
    baseline, treatment = (draw(random, seeds)[0, 0] for draw in SPREADS["rare"])
    return starred([{0: estimate(treatment - baseline, ROUNDING)}])[0].star != 0


def estimate(changes: NDArray[np.float64], rounding: float = 0.0) -> Estimate:
    """Return one cell: the paired changes of its seeds, as the report makes it."""
    values = {Replicate(None, seed): float(change) for seed, change in enumerate(changes)}
    return over_replicates(values, rounding, wanted=len(values))


def share(outcomes: list[Outcome], test: Callable[[Outcome], float]) -> float:
    return float(np.mean([test(outcome) for outcome in outcomes]))


def lines(tables: int) -> Iterator[str]:
    """Yield one line for each spread and number of seeds, from `tables` simulated tables for each effect."""
    yield "tables of 9 x 4 cells; promised: at most .05 with any star, .025 of claims falsely held, or against it"
    right = "published true: against it       5 points: cells  averages  claims"
    yield f"spread   seeds   no effect: any star  claim holds   {right}"
    for spread in SPREADS:
        for seeds in (5, 10):
            random = np.random.default_rng([1, seeds])
            null, true, five = (
                [simulate(random, spread, seeds, effect) for _ in range(tables)]
                for effect in (0.0, np.array(PUBLISHED), 5.0)
            )
            yield (
                f"{spread:8} {seeds:5}   {share(null, lambda o: o.stars > 0):19.3f}"
                f"  {share(null, lambda o: o.verdict in ('shown', 'shown_in_part')):11.3f}"
                f"   {share(true, lambda o: o.verdict in ('contradicted', 'not_of_this_size')):30.3f}"
                f"   {share(five, lambda o: (o.stars - o.average_stars) / (ROWS * COLUMNS)):15.3f}"
                f"  {share(five, lambda o: o.average_stars / ROWS):8.3f}"
                f"  {share(five, lambda o: o.verdict == 'shown'):6.3f}"
            )
    few = [simulate(np.random.default_rng([2, i]), "even", 3, 30.0) for i in range(tables // 4)]
    stars, verdicts = share(few, lambda o: o.stars > 0), share(few, lambda o: o.verdict != "not_enough_data")
    said = f"any star {stars:.3f}, verdict other than not enough data {verdicts:.3f} (promised: none)"
    yield f"three seeds, 30 points: {said}"
    alone = {n: [one_cell(np.random.default_rng([3, n, i]), n) for i in range(tables)] for n in (5, 10)}
    rates = ", ".join(f"{np.mean(starred):.3f} ({n} seeds)" for n, starred in alone.items())
    yield f"a single cell, rare, no effect: starred {rates}; no test can hold .05 here"
