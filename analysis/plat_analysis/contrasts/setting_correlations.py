"""Correlate two measures between the settings of a row or within them; predict an outcome of settings left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS
from plat_analysis.contrasts.sweep_settings import Array, OverSettings, Pair, Settings, Strength, covariates
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
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
from plat_analysis.statistics.leads import Foretold, foretell

BETWEEN, GIVEN, WITHIN = "between settings", "between, strength taken away", "within a setting"


@dataclass(frozen=True, kw_only=True)
class Correlating(OverSettings):
    """Hold the options of correlating measures with an outcome over settings.

    proxies     name -> the measure of a run (see `plat_analysis.quantities.metric`)
    strength    family -> its settings from the weakest to the strongest. The correlation is then a partial one: without
                what a setting's family, and its place in it, explain of the measure and of the outcome
    """

    proxies: Mapping[str, Any]
    strength: Strength | None = None

    def given(self, settings: Settings) -> Array | None:
        """Return the covariates of strength [setting, covariate]; None without `strength`."""
        return covariates(settings, self.strength) if self.strength else None

    def beforehand(self, results: Results) -> None:
        """Check the options before anything is computed.

        Raises SpecError if no measure is named, if the settings cannot be used (see `settings`), or if `strength` does
        not fit the settings (see `covariates`).
        """
        if not self.proxies:
            raise SpecError(
                "proxies: none is named", fix="write {NAME: MEASURE}, e.g. {retrieval: probe/retrieval_acc}"
            )
        for settings in self.settings(results).values():
            self.given(settings)


@dataclass(frozen=True)
class Shown:
    """Hold the correlation of a measure in a panel, or why there is none.

    apart   the correlation of the measure in one build with the outcome in the other builds, whose runs are others
    pooled  the correlation over all runs as if each were independent, for comparison alone
    p       two-sided, corrected over the whole figure (Holm); None where it may not be judged
    """

    found: Correlation | None
    pair: Pair
    apart: Correlation | None = None
    pooled: float | None = None
    p: float | None = None
    note: str = ""

    @property
    def star(self) -> int:
        """Return the sign of the correlation, +1 or -1, if its corrected `p` is at most ERROR; else 0."""
        if self.found is None or self.p is None or self.p > ERROR:
            return 0
        return 1 if self.found.rho > 0 else -1


def shown_correlation(pair: Pair, settings: Settings, across: str, given: Any) -> Shown:
    """Return the correlation of a pair, with a `p` that is not corrected yet.

    WITHIN leaves out a setting that lacks any run. BETWEEN and GIVEN leave it out only if one of its builds has no run.
    The note names every setting that lacks runs, left out or not.

    `found` is None, and the note says why, if fewer than MIN_SETTINGS settings are left, if they are too few for the
    covariates (GIVEN), or if a build has one seed (WITHIN). `p` is None then, and also if any run is missing or a
    setting has fewer than MIN_JUDGED runs.

    across  BETWEEN, GIVEN or WITHIN
    given   the covariates of `Correlating.given`; used by GIVEN only
    """
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
    # Runs may be missing because of their values.
    judged = found.p if pair.complete and settings.replicates >= MIN_JUDGED else None
    apart = other_builds(x, y) if across == BETWEEN else None
    return Shown(found, pair, apart, over_runs(x, y) if across == BETWEEN else None, judged, pair.note)


@dataclass(frozen=True, kw_only=True)
class Foretelling(OverSettings):
    """Hold the options of predicting an outcome, with a setting left out each time.

    metrics     printed name -> metric
    known       the metric beside which the others predict it
    """

    metrics: Mapping[str, str]
    known: str = SUCCESS

    def settings(self, results: Results) -> dict[str, Settings]:
        """Return the settings of each row. Raises SpecError as `OverSettings` does, or if no metric is named."""
        if not self.metrics:
            raise SpecError("metrics: none is named", fix="write {NAME: METRIC}, e.g. {retrieval: probe/retrieval_acc}")
        return super().settings(results)

    def foretold(self, settings: Settings, metric: str, at: int) -> Foretold | str:
        """Return what a metric adds, or a text why that is unknown. Its value is the last one up to iteration `at`."""
        outcome = quantity(self.outcome)
        pairs = [settings.pair(quantity({"metric": name, "at": at}), outcome) for name in (metric, self.known)]
        for pair in pairs:
            if not pair.complete:
                return pair.note
        return foretell(pairs[0].x, pairs[1].x, pairs[0].y)


def check_steps(name: str, steps: object, least: int = 0) -> None:
    """Raise SpecError unless `steps` is an iteration from `least` on, or a list of some. The message has the `name`."""
    given = steps if isinstance(steps, list | tuple) else [steps]
    if not given or not all(isinstance(step, int) and not isinstance(step, bool) and step >= least for step in given):
        several = isinstance(steps, list | tuple)
        what = "a list of training iterations" if several else "a training iteration"
        raise SpecError(f"{name}: {steps!r} is not {what}", fix=f"write {name}: {'[8, 16, 30]' if several else 8}")
