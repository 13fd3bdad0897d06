"""Error rates of claims of a few rows, if half of a condition's runs collapse and the mean change is zero.

Each change then has one of two values, like the toss of a coin. Five that agree, 1 of 32 samples, look like an effect
without spread; no test of five can tell. `and calm`: half of the rows are tosses, the others have a spread of 3
points and no effect. `t alone`: Student's test of one row without sign flips.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from plat_analysis.claims.decided import LEVEL, RowEvidence, decide_rows
from simulated.tables import estimate

HELD = ("shown", "shown_in_part")
Changes = NDArray[np.float64]  # [row, seed], in points


def tosses(random: np.random.Generator, rows: int, seeds: int) -> Changes:
    return 25.0 * random.choice([-1, 1], (rows, seeds)) + 2.8 * random.standard_normal((rows, seeds))


def and_calm(random: np.random.Generator, rows: int, seeds: int) -> Changes:
    changes = tosses(random, rows, seeds)
    changes[rows // 2 :] = calm(random, rows - rows // 2, seeds)
    return changes


def calm(random: np.random.Generator, rows: int, seeds: int) -> Changes:
    return 3.0 * random.standard_normal((rows, seeds))


def verdict(changes: Changes, looks: int = 1) -> str:
    """Return the verdict on a claim about these rows."""
    return decide_rows({str(row): RowEvidence(estimate(values)) for row, values in enumerate(changes)}, looks).status


def promised(seeds: int) -> float:
    """Return the promised error rate: 2.5 %, or with five seeds or fewer that of tosses that all agree, if larger."""
    return max(LEVEL, 0.5**seeds)


def held(kind: str, rows: int, seeds: int, claims: int) -> float:
    """Return the share of claims without any effect that are called shown in all or some rows."""
    random = np.random.default_rng([4, rows, seeds])
    return float(np.mean([verdict(KINDS[kind](random, rows, seeds)) in HELD for _ in range(claims)]))


def held_by_t_alone(seeds: int, claims: int) -> float:
    changes = tosses(np.random.default_rng([4, 1, seeds]), claims, seeds)
    return float(np.mean(stats.ttest_1samp(changes, 0, axis=1, alternative="greater").pvalue <= LEVEL))


KINDS = {"tosses": tosses, "and calm": and_calm, "calm": calm}


def lines(claims: int) -> Iterator[str]:
    yield "claims without any effect, called shown in all or some rows"
    yield "seeds  promised   t alone, 1 row   rows: " + "".join(f"{kind + ' ' + str(n):>12}" for kind, n in COLUMNS)
    for seeds in (5, 6, 7, 10):
        rates = "".join(f"{held(kind, rows, seeds, claims):12.3f}" for kind, rows in COLUMNS)
        yield f"{seeds:5}  {promised(seeds):8.3f}   {held_by_t_alone(seeds, 20 * claims):14.3f}         {rates}"


COLUMNS = [("tosses", 1), ("tosses", 2), ("tosses", 4), ("and calm", 2), ("and calm", 4), ("calm", 1), ("calm", 4)]
