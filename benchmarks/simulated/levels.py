"""Error rates of claims that a measure lies above a bound, if its mean is the bound: by spread, rows and runs.

`even`: runs vary around the bound. `builds`: one of two builds lies below the bound, the other as far above.
`uneven`: one row has ten times the spread of the others. `tosses`: a run is near either of two values.
`skewed`: a quarter of the runs lies far below, so few runs often contain none of them: no test of few runs can know.
`planted`: the mean is two spreads above the bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import shared_spread, shown_above, shown_below

BOUND, BUILDS = 0.5, 2
KINDS = ("even", "builds", "uneven", "tosses", "skewed", "planted")
HELD = ("shown", "shown_in_part")
Runs = NDArray[np.float64]  # [row, build, seed]


def draw(random: np.random.Generator, kind: str, rows: int, seeds: int) -> Runs:
    """Return the measure of every run."""
    noise = random.standard_normal((rows, BUILDS, seeds))
    if kind == "builds":
        return BOUND + np.array([-2.0, 2.0])[None, :, None] + noise
    if kind == "uneven":
        return BOUND + np.where(np.arange(rows) == 0, 10.0, 1.0)[:, None, None] * noise
    if kind == "tosses":
        return BOUND + 8.0 * random.choice([-1, 1], noise.shape) + noise
    if kind == "skewed":
        return BOUND + np.where(random.random(noise.shape) < 0.25, -9.0, 3.0) + noise
    return BOUND + (2.0 if kind == "planted" else 0.0) + noise


def verdict(values: Runs) -> str:
    """Return the verdict on the claim that the measure is above the bound in every row, as `claims.level` does."""
    rows = [{Replicate(*place): float(value) for place, value in np.ndenumerate(of_row)} for of_row in values]
    guarded = shared_spread({str(row): over_replicates(runs, builds="fixed") for row, runs in enumerate(rows)})
    tests = {row: RowTests(shown_above(one, BOUND), shown_below(one, BOUND), "") for row, one in guarded.items()}
    return decide(tests).status


def share(kind: str, rows: int, seeds: int, claims: int, words: tuple[str, ...] = HELD) -> float:
    """Return the share of claims whose verdict is one of `words`."""
    random = np.random.default_rng([13, KINDS.index(kind), rows, seeds])
    return float(np.mean([verdict(draw(random, kind, rows, seeds)) in words for _ in range(claims)]))


def lines(claims: int) -> Iterator[str]:
    yield f"claims that a level is above a bound at which it is, {BUILDS} builds; promised .025 each way (see `skewed`)"
    yield "seeds   rows   kind       shown in all or some rows   against"
    for seeds in (5, 8):
        for rows in (1, 3):
            for kind in KINDS:
                said = share(kind, rows, seeds, claims)
                opposite = share(kind, rows, seeds, claims, ("contradicted", "not_of_this_size"))
                yield f"{seeds:5}   {rows:4}   {kind:10} {said:21.3f}   {opposite:14.3f}"
