"""Claims of a few rows, where one condition collapses in half of its runs and the mean of the changes is zero.

Each change is then one of two values, as the toss of a coin. Five that agree, 1 of 32 samples, look like an effect
without any spread; no test of five can tell. `and calm`: half of the rows are tosses, the others have a spread of 3
points and no effect. `t alone` is what Student's test without the flips of signs would say of one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from plat_analysis.claims.rows import LEVEL, RowEvidence, decide
from plat_analysis.statistics.replicates import Replicate, over_replicates

HELD = ("reproduced", "partial")
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
    """The word for a claim about these rows."""
    evidence = {}
    for row, values in enumerate(changes):
        numbers = {Replicate(None, seed): float(value) for seed, value in enumerate(values)}
        evidence[str(row)] = RowEvidence(over_replicates(numbers, wanted=len(numbers)))
    return decide(evidence, looks).status


def promised(seeds: int) -> float:
    """The error that is promised: 2.5 %, and with five seeds that of five tosses that agree."""
    return max(LEVEL, 0.5**seeds)


def held(kind: str, rows: int, seeds: int, claims: int) -> float:
    """The share of claims without any effect that are called reproduced or partial."""
    random = np.random.default_rng([4, rows, seeds])
    return float(np.mean([verdict(KINDS[kind](random, rows, seeds)) in HELD for _ in range(claims)]))


def held_by_t_alone(seeds: int, claims: int) -> float:
    changes = tosses(np.random.default_rng([4, 1, seeds]), claims, seeds)
    return float(np.mean(stats.ttest_1samp(changes, 0, axis=1, alternative="greater").pvalue <= LEVEL))


KINDS = {"tosses": tosses, "and calm": and_calm, "calm": calm}


def lines(claims: int) -> Iterator[str]:
    yield "claims without any effect, called reproduced or partial"
    yield "seeds  promised   t alone, 1 row   rows: " + "".join(f"{kind + ' ' + str(n):>12}" for kind, n in COLUMNS)
    for seeds in (5, 6, 7, 10):
        rates = "".join(f"{held(kind, rows, seeds, claims):12.3f}" for kind, rows in COLUMNS)
        yield f"{seeds:5}  {promised(seeds):8.3f}   {held_by_t_alone(seeds, 20 * claims):14.3f}         {rates}"


COLUMNS = [("tosses", 1), ("tosses", 2), ("tosses", 4), ("and calm", 2), ("and calm", 4), ("calm", 1), ("calm", 4)]
