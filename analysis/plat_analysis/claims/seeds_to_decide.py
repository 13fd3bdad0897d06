"""Say how many seeds or builds would decide the open rows of a claim."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.replicates import SUCH_BUILDS
from plat_analysis.statistics.significance import MOST, OWN_SPREAD, POWER, seeds_needed, spread_range
from plat_analysis.statistics.tasks import MIN_TASKS, TASKS
from plat_analysis.statistics.unpaired import RUNS


def units_needed(rows: Sequence[tuple[Estimate, float]], level: float, digits: int = 1, unit: str = " points") -> str:
    """Return a text on how many seeds or builds would decide these (estimate, supposed effect) rows; "" without rows.

    It follows from the spread between the present ones. Judge once on fresh seeds, or with as many `looks` as planned:
    judging again and again while seeds are added makes false verdicts more frequent (`benchmarks/error_rates.py`).

    level   one-sided, of the test of one row
    digits  shown behind the point of a spread
    unit    written behind sizes
    """
    if not rows:
        return ""
    estimates, sizes = [estimate for estimate, _ in rows], sorted({round(size, digits) for _, size in rows})
    deviations = [deviation for estimate in estimates if (deviation := estimate.deviation) is not None]
    units, least_units = _units_in_words(estimates)
    if not deviations:
        return f"the spread between {units} is unknown with so few: at least {least_units} are needed to decide"
    observed = _mean_square(deviations)
    # Where there is an error, the spread is at least that of rounding.
    own = [e.deviation if e.error is None else e.error * e.units**0.5 for e in estimates if e.deviation is not None]
    spread = _mean_square(own)
    if spread <= 1e-9 * max(abs(estimate.value or 0.0) for estimate in estimates):
        return f"the change is the same in all {units}, which no test can judge: does the metric depend on the seed?"
    strata = [round(estimate.units - estimate.freedom) for estimate in estimates if estimate.error is not None]
    builds = max([1, *strata]) if units == "seeds" else 1
    judged = any(estimate.judged for estimate in estimates)  # the present ones were one look
    fresh, few_yet = ("fresh ", "") if judged else ("", f"a verdict needs at least {least_units} {units}; ")
    each = f" on each of {builds} builds" if builds > 1 else ""
    rounded = units == "seeds" and observed < spread * (1 - 1e-9)  # over builds, the spread of seeds adds to theirs
    least = " (the least that the rounding of a success rate allows)" if rounded else ""
    supposed = f"{sizes[0]:g}" if len(sizes) == 1 else f"{sizes[0]:g} to {sizes[-1]:g}"
    few, many = spread_range(spread, sum(max(estimate.freedom, 1) for estimate in estimates))
    known = all(estimate.units >= OWN_SPREAD for estimate in estimates)
    shares = [one / spread for one in own] if known else [1.0] * len(rows)
    totals = [_needed([size for _, size in rows], at, shares, level) for at in (spread, few, many)]
    count, fewest, most = (  # seeds on each build
        total if total > MOST else -(-max(total, builds + least_units - 1) // builds) for total in totals
    )
    return (
        f"{few_yet}about {_count(count)} {fresh}{units}{each} would decide, if judged once; "
        f"the spread between {units} is {_range(own if known else [spread], digits)}{unit}{least} and is uncertain, so "
        f"from {_count(fewest)} to {_count(most)} may be needed; "
        f"this assumes true effects of {supposed}{unit}, and {100 * POWER:g} % probability to show all of these rows"
    )


def _units_in_words(estimates: Sequence[Estimate]) -> tuple[str, int]:
    """Return the units whose number decides these rows, and the least number for a verdict."""
    over = {estimate.over for estimate in estimates}
    if TASKS in over:
        return "tasks", MIN_TASKS
    if RUNS in over:
        return "runs of both sides together", 2 * MIN_JUDGED
    return "builds" if any(estimate.about == SUCH_BUILDS for estimate in estimates) else "seeds", MIN_JUDGED


def _needed(sizes: Sequence[float], spread: float, shares: Sequence[float], level: float) -> int:
    """Return the least number of units that shows all rows, by the rule of `significance.shared_spread`.

    Args:
        sizes: effect of each row.
        spread: that rows share below `OWN_SPREAD` units.
        shares: own spread of each row over the shared one.
        level: one-sided, of the test of one row.
    """
    shared = seeds_needed([(size, spread) for size in sizes], level)
    if shared < OWN_SPREAD:
        return shared
    own = seeds_needed([(size, share * spread) for size, share in zip(sizes, shares, strict=True)], level)
    return max(own, OWN_SPREAD)


def _range(numbers: Sequence[float], digits: int) -> str:
    least, most = (f"{number:.{digits}f}" for number in (min(numbers), max(numbers)))
    return least if least == most else f"{least} to {most}"


def _mean_square(numbers: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(numbers))))


def _count(count: int) -> str:
    return f"more than {MOST}" if count > MOST else str(count)
