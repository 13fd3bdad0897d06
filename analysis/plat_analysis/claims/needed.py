"""How many seeds, or builds, would decide a claim that those there are leave open.

The number comes from the spread between the units there are, which a few of them show only roughly: so its range is
said as well. A claim that is judged again and again while seeds are added is falsely held more often than promised
(`benchmarks/error_rates.py`). Hence: once, on fresh seeds, or with as many `looks` as were foreseen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.power import MOST, POWER, seeds_needed, spread_range


def units_needed(rows: Sequence[tuple[Estimate, float]], level: float, digits: int = 1, unit: str = " points") -> str:
    """The sentence about rows that are open, each with the size of effect that is supposed; "" without rows.

    level   one-sided, of the test of one row
    digits  shown behind the point of a spread
    unit    what is written behind sizes
    """
    if not rows:
        return ""
    estimates, sizes = [estimate for estimate, _ in rows], sorted({round(size, digits) for _, size in rows})
    deviations = [deviation for estimate in estimates if (deviation := estimate.deviation) is not None]
    if not deviations:
        return f"the spread between seeds is unknown with one seed: at least {MIN_JUDGED} are needed to decide"
    observed = _mean_square(deviations)
    spread = _mean_square([_spread(estimate) for estimate in estimates if estimate.deviation is not None])
    units = "builds" if any(estimate.about == "such builds" for estimate in estimates) else "seeds"
    builds = 1 if units == "builds" else max(_builds(estimate) for estimate in estimates)
    fresh = "fresh " if any(estimate.judged for estimate in estimates) else ""  # those that decided nothing were a look
    each = f" on each of {builds} builds" if builds > 1 else ""
    least = ", the least that the rounding of a success rate allows" if observed < spread * (1 - 1e-9) else ""
    supposed = f"{sizes[0]:g}" if len(sizes) == 1 else f"{sizes[0]:g} to {sizes[-1]:g}"
    few, many = spread_range(spread, sum(max(estimate.freedom, 1) for estimate in estimates))
    count, fewest, most = (
        _per_build(seeds_needed([(size, at) for _, size in rows], level), builds) for at in (spread, few, many)
    )
    return (
        f"about {_count(count)} {fresh}{units}{each} would decide, judged once ({_count(fewest)} to {_count(most)}: "
        f"the spread between {units}, {spread:.{digits}f}{unit}{least}, is itself uncertain; true effects of {supposed}"
        f"{unit}, {100 * POWER:g} % to show all of these rows)"
    )


def _spread(estimate: Estimate) -> float:
    """Standard deviation between the units, at least that of rounding where there is an error."""
    return estimate.deviation or 0.0 if estimate.error is None else estimate.error * estimate.units**0.5


def _builds(estimate: Estimate) -> int:
    """The number of strata behind an estimate over seeds."""
    return max(1, estimate.units - estimate.freedom) if estimate.error is not None else 1


def _mean_square(numbers: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def _per_build(count: int, builds: int) -> int:
    """So many units in all, as seeds on each build."""
    return count if count > MOST else -(-max(count, builds + MIN_JUDGED - 1) // builds)


def _count(count: int) -> str:
    return f"more than {MOST}" if count > MOST else str(count)
