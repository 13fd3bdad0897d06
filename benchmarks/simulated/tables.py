"""Tables as Table 4, nine rows and four columns: how often they have a false star, and their claim a false verdict.

Each run's success is drawn around its cell's level, rounded to 1/256. Three kinds of spread are the same in both
conditions: `even` (3 points in every cell), `uneven` (a half to 8 points, by column), and `lottery` (half of the runs
of the first column collapse, by 50 points). In the others only the runs without the filter collapse in the first
column, while the means of both conditions are equal: `half` of them, or one of ten (`rare`). Most samples of a few
seeds show no rare collapse, so there the promises rest on the other cells of the column; a table of a single cell has
none, and there they do not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.rows import RowEvidence, decide
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates

ROWS, COLUMNS, INSTANCES = 9, 4, 256
PUBLISHED = (6.9, 2.9, 3.7, 0.8, 5.5, 4.1, 4.1, 4.1, 5.3)  # the paper's average changes, row by row
ROUNDING = 100 / INSTANCES * np.sqrt(2 / 12)  # of the difference of two success rates
Runs = NDArray[np.float64]  # [row, column, seed], in percent
Draw = Callable[[np.random.Generator, int], Runs]


@dataclass(frozen=True)
class Outcome:
    """What one simulated table and its claim came to."""

    stars: int
    average_stars: int
    verdict: str


def even(random: np.random.Generator, seeds: int) -> Runs:
    return 50 + 3 * random.standard_normal((ROWS, COLUMNS, seeds))


def uneven(random: np.random.Generator, seeds: int) -> Runs:
    spread = np.array([8.0, 3.0, 0.5, 2.0])[:, None]
    return 50 + spread * random.standard_normal((ROWS, COLUMNS, seeds))


def lottery(random: np.random.Generator, seeds: int) -> Runs:
    runs = 60 + 2 * random.standard_normal((ROWS, COLUMNS, seeds))
    runs[:, 0] -= 50 * (random.random((ROWS, seeds)) < 0.5)
    return runs


def collapsing(share: float) -> tuple[Draw, Draw]:
    """That share of the runs of the first column collapses without the filter; with it, all are lower by the mean."""

    def without(random: np.random.Generator, seeds: int) -> Runs:
        runs = 60 + 2 * random.standard_normal((ROWS, COLUMNS, seeds))
        runs[:, 0] -= 50 * (random.random((ROWS, seeds)) < share)
        return runs

    def treated(random: np.random.Generator, seeds: int) -> Runs:
        runs = 60 + 2 * random.standard_normal((ROWS, COLUMNS, seeds))
        runs[:, 0] -= 50 * share
        return runs

    return without, treated


SPREADS: dict[str, tuple[Draw, Draw]] = {  # without the filter, and with it
    "even": (even, even),
    "uneven": (uneven, uneven),
    "lottery": (lottery, lottery),
    "half": collapsing(0.5),
    "rare": collapsing(0.1),
}


def simulate(
    random: np.random.Generator, spread: str, seeds: int, effect: float | NDArray[np.float64] = 0.0
) -> Outcome:
    """One table: runs of both conditions, those of the treatment shifted by `effect` (points; one for all rows, or one
    for each)."""
    baseline, treatment = (draw(random, seeds) for draw in SPREADS[spread])
    treatment = treatment + np.broadcast_to(effect, ROWS)[:, None, None]
    step = 100 / INSTANCES
    changes = np.round(treatment / step) * step - np.round(baseline / step) * step
    columns = [{row: estimate(changes[row, column], ROUNDING) for row in range(ROWS)} for column in range(COLUMNS)]
    averages = {row: estimate(changes[row].mean(axis=0), ROUNDING / COLUMNS**0.5) for row in range(ROWS)}
    stars = [sum(cell.star != 0 for cell in column.values()) for column in starred([*columns, averages])]
    evidence = {str(row): RowEvidence(averages[row], PUBLISHED[row]) for row in range(ROWS)}
    return Outcome(sum(stars), stars[-1], decide(evidence).status)


def one_cell(random: np.random.Generator, seeds: int) -> bool:
    """Whether a table of one cell has a star, where only the baseline collapses, in one run of ten, and the means are
    equal."""
    baseline, treatment = (draw(random, seeds)[0, 0] for draw in SPREADS["rare"])
    return starred([{0: estimate(treatment - baseline, ROUNDING)}])[0][0].star != 0


def estimate(changes: NDArray[np.float64], rounding: float) -> Estimate:
    """One cell: the paired changes of its seeds, as the report makes it."""
    values = {Replicate(None, seed): float(change) for seed, change in enumerate(changes)}
    return over_replicates(values, rounding, wanted=len(values))


def share(outcomes: list[Outcome], test: Callable[[Outcome], float]) -> float:
    """Mean of a test over the outcomes."""
    return float(np.mean([test(outcome) for outcome in outcomes]))


def lines(tables: int) -> Iterator[str]:
    """One line for each spread and number of seeds, from so many simulated tables for each effect."""
    yield "tables of 9 x 4 cells; promised: at most .05 with any star, .025 of claims falsely held or not reproduced"
    yield (
        "spread   seeds   no effect: any star  claim holds   published true: not reproduced   "
        "5 points: cells  averages  claims"
    )
    for spread in SPREADS:
        for seeds in (5, 10):
            random = np.random.default_rng([1, seeds])
            null, true, five = (
                [simulate(random, spread, seeds, effect) for _ in range(tables)]
                for effect in (0.0, np.array(PUBLISHED), 5.0)
            )
            yield (
                f"{spread:8} {seeds:5}   {share(null, lambda o: o.stars > 0):19.3f}"
                f"  {share(null, lambda o: o.verdict in ('reproduced', 'partial')):11.3f}"
                f"   {share(true, lambda o: o.verdict == 'not_reproduced'):30.3f}"
                f"   {share(five, lambda o: (o.stars - o.average_stars) / (ROWS * COLUMNS)):15.3f}"
                f"  {share(five, lambda o: o.average_stars / ROWS):8.3f}"
                f"  {share(five, lambda o: o.verdict == 'reproduced'):6.3f}"
            )
    few = [simulate(np.random.default_rng([2, i]), "even", 3, 30.0) for i in range(tables // 4)]
    yield (
        f"three seeds, 30 points: any star {share(few, lambda o: o.stars > 0):.3f}, verdict other than not enough data "
        f"{share(few, lambda o: o.verdict != 'not_enough_data'):.3f} (promised: none)"
    )
    alone = {
        seeds: np.mean([one_cell(np.random.default_rng([3, seeds, i]), seeds) for i in range(tables)])
        for seeds in (5, 10)
    }
    rates = ", ".join(f"{rate:.3f} ({n} seeds)" for n, rate in alone.items())
    yield f"a single cell, rare, no effect: starred {rates}; no test can hold .05 here"
