"""The correlation of two measures between the settings of a row, or within them, with what it lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from plat_analysis.contrasts.settings import Pair, Settings
from plat_analysis.statistics.correlation import (
    MIN_SETTINGS,
    Correlation,
    between,
    other_builds,
    over_runs,
    partial,
    within,
)
from plat_analysis.statistics.families import ERROR
from plat_analysis.statistics.intervals import MIN_JUDGED

BETWEEN, GIVEN, WITHIN = "between settings", "between, strength taken away", "within a setting"


@dataclass(frozen=True)
class Shown:
    """A measure in a panel: its correlation, or why there is none.

    apart   the correlation with the outcomes of the other builds, which share no run
    pooled  the correlation over all runs as if each were independent, for comparison alone
    p       two-sided, corrected over all that the figure shows (Holm); None where it may not be judged
    """

    found: Correlation | None
    pair: Pair
    apart: Correlation | None = None
    pooled: float | None = None
    p: float | None = None
    note: str = ""

    @property
    def star(self) -> int:
        """+1 or -1 where it is shown to be above or below zero, over all that the figure shows; else 0."""
        if self.found is None or self.p is None or self.p > ERROR:
            return 0
        return 1 if self.found.rho > 0 else -1


def shown_correlation(pair: Pair, settings: Settings, across: str, given: Any) -> Shown:
    """One correlation. Settings that lack what it needs are left out and named; with fewer than six there is none."""
    missing = np.isnan(pair.x)
    lacking = np.any(missing, axis=(1, 2)) if across == WITHIN else np.any(np.all(missing, axis=2), axis=1)
    kept = np.flatnonzero(~lacking)
    x, y, found = pair.x[kept], pair.y[kept], None
    count, few = len(kept), pair.x.shape[2] < 2 and across == WITHIN
    if count < MIN_SETTINGS or few:
        reason = "one seed" if few else f"{count} of {len(pair.x)} settings"
        return Shown(None, pair, note="; ".join(filter(None, [reason, pair.note])))
    if across == WITHIN:
        found = within(x, y)
    elif across == GIVEN:
        try:
            found = partial(x, y, given[kept])
        except ValueError as error:  # settings were left out
            return Shown(None, pair, note=f"{error}; {pair.note}")
    else:
        found = between(x, y)
    # Runs may be missing because of what they would have shown.
    judged = found.p if pair.complete and settings.replicates >= MIN_JUDGED else None
    apart = other_builds(x, y) if across == BETWEEN else None
    return Shown(found, pair, apart, over_runs(x, y) if across == BETWEEN else None, judged, pair.note)
