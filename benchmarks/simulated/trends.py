"""Error rates of claims of a trend along four conditions, if there is none: by block (build and seed) and by row.

`even`: conditions have the same spread. `uneven`: the last one has ten times that of the first. `tosses`: runs of one
condition are near either of two values, half at each. `rare`: one condition collapses in a quarter of its runs and has
the same mean as the others: few blocks often contain no collapse, and no test can know of it. `planted`: values fall by
one spread from each condition to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.statistics.significance import falling, slopes, trend_p
from simulated.tables import estimate

CONDITIONS = 4
Blocks = NDArray[np.float64]  # [row, block, condition]


def even(random: np.random.Generator, rows: int, blocks: int) -> Blocks:
    shared = 5.0 * random.standard_normal((rows, blocks, 1))
    return shared + 3.0 * random.standard_normal((rows, blocks, CONDITIONS))


def uneven(random: np.random.Generator, rows: int, blocks: int) -> Blocks:
    return np.array([1.0, 3.0, 5.0, 10.0]) * random.standard_normal((rows, blocks, CONDITIONS))


def tosses(random: np.random.Generator, rows: int, blocks: int) -> Blocks:
    values = 2.8 * random.standard_normal((rows, blocks, CONDITIONS))
    values[..., 0] += 25.0 * random.choice([-1, 1], (rows, blocks))
    return values


def rare(random: np.random.Generator, rows: int, blocks: int) -> Blocks:
    values = 2.8 * random.standard_normal((rows, blocks, CONDITIONS))
    values[..., 0] += np.where(random.random((rows, blocks)) < 0.25, -30.0, 10.0)
    return values


def planted(random: np.random.Generator, rows: int, blocks: int) -> Blocks:
    return even(random, rows, blocks) - 3.0 * np.arange(CONDITIONS)


KINDS = {"even": even, "uneven": uneven, "tosses": tosses, "rare": rare, "planted": planted}
HELD = ("shown", "shown_in_part")
COLUMNS = [(kind, rows) for kind in KINDS for rows in (1, 2)]


def verdict(values: Blocks) -> str:
    """Return the verdict on the claim that values fall along the conditions, in every row."""
    tests = {}
    for row, blocks in enumerate(values):
        slope = estimate(slopes(blocks))
        tests[str(row)] = RowTests(trend_p(falling(blocks), slope.scaled(-1.0)), trend_p(blocks, slope), "")
    return decide(tests).status


def share(kind: str, rows: int, blocks: int, claims: int, words: tuple[str, ...] = HELD) -> float:
    """Return the share of claims whose verdict is one of `words`."""
    random = np.random.default_rng([6, rows, blocks])
    return float(np.mean([verdict(KINDS[kind](random, rows, blocks)) in words for _ in range(claims)]))


def lines(claims: int) -> Iterator[str]:
    yield "claims of a trend, called shown in all or some rows; promised .025 where nothing is planted (see `rare`)"
    yield "blocks  rows: " + "".join(f"{kind + ' ' + str(rows):>11}" for kind, rows in COLUMNS)
    for blocks in (5, 10):
        yield f"{blocks:6}        " + "".join(f"{share(kind, rows, blocks, claims):11.3f}" for kind, rows in COLUMNS)
