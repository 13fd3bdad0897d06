"""Error rates and power of claims whose rows have unequal spreads: a row that varies much must not hide the others.

`no effect`: share of claims shown in some row. `shown`: how often an effect of two spreads in the first row
is shown, while the others have none. From `significance.OWN_SPREAD` pairs on a row has its own spread; below, at least
the spread of all rows, because few tosses of a coin may agree (`and calm` in `simulated.claims`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from plat_analysis.claims.decided import ABOVE, LEVEL, RowEvidence, decide_rows, row_tests, shown
from simulated.claims import HELD
from simulated.tables import estimate

SPREADS = ((1, 1, 1, 1), (1, 1, 1, 3), (1, 2, 3, 6), (1, 1, 1, 1, 1, 1, 1, 1, 4))


def rows(random: np.random.Generator, spreads: Sequence[float], pairs: int, effect: float) -> dict[str, RowEvidence]:
    """Return rows with these spreads; the first has a mean of `effect` spreads."""
    changes = random.standard_normal((len(spreads), pairs))
    changes[0] += effect
    return {str(at): RowEvidence(estimate(spreads[at] * values)) for at, values in enumerate(changes)}


def held(spreads: Sequence[float], pairs: int, claims: int) -> float:
    """Return the share of claims without any effect that are called shown, in all or some rows."""
    random = np.random.default_rng([13, pairs, *map(int, spreads)])
    return float(np.mean([decide_rows(rows(random, spreads, pairs, 0.0)).status in HELD for _ in range(claims)]))


def power(spreads: Sequence[float], pairs: int, claims: int, effect: float = 2.0) -> float:
    """Return how often the effect in the first row is shown, by Holm's procedure over the rows."""
    random = np.random.default_rng([14, pairs, *map(int, spreads)])
    tests = (row_tests(rows(random, spreads, pairs, effect))[ABOVE] for _ in range(claims))
    return float(np.mean(["0" in shown(test, LEVEL) for test in tests]))


def lines(claims: int) -> Iterator[str]:
    yield "rows with unequal spreads: no effect (promised .025), and an effect of two spreads in the first row"
    yield "spreads              pairs   no effect   shown"
    for spreads in SPREADS:
        for pairs in (5, 8, 10, 20):
            names = " ".join(map(str, spreads))
            yield f"{names:20} {pairs:5}   {held(spreads, pairs, claims):9.3f}   {power(spreads, pairs, claims):5.3f}"
