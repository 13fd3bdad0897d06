"""Check that one signal falls before another within the same run: a sign test of the lag over runs (Figure 5).

The time of a fall is a change point (`statistics.change_point`). A run counts where both signals fall by at least
`least` of their level, at different measurements. Limit: a steadier fall or a noisier signal may shift its change
point, which this test cannot tell from an order. Measure both signals often, and at the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChosenRows, of_tests
from plat_analysis.data.results import Results, RunView
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate, clopper_pearson
from plat_ragen2.change_point import fall, sign_test


@dataclass(frozen=True, kw_only=True)
class Options(ChosenRows):
    """Hold the options of the claim.

    metrics  two metrics, the one that is claimed to fall first in front; `success`: the headline metric of the trainer
    least    the least fall, as a share of the level before it
    """

    metrics: Sequence[str]
    least: float = 0.2

    def __post_init__(self) -> None:
        if len(self.metrics) != 2 or self.metrics[0] == self.metrics[1]:
            raise SpecError("metrics: name two different metrics", fix="write metrics: [the first to fall, the second]")


@takes(Options)
def falls_before(results: Results, asked: Options) -> Verdict:
    """The first metric falls before the second in every row: in most of the row's runs in which both fall."""
    facets = asked.facets(results)
    tested = {}
    for row in facets.rows:
        name = row or asked.metrics[0]
        tested[name] = _tested(name, results, list(facets.runs(row).values()), asked)
    ids = (run.id for run in results.runs if not run.missing)
    return of_tests(tested, asked.looks, ids, "about runs of these builds of the base model in which both fall")


def _tested(row: str, results: Results, runs: Sequence[RunView], asked: Options) -> RowTests:
    """Run the sign test over the runs of one row, for the claimed order and for its opposite."""
    if any(run.missing for run in runs):
        return RowTests(None, None, f"{row} ({sum(not run.missing for run in runs)}/{len(runs)} runs)")
    lags = [lag for run in runs if (lag := _lag(results, run, asked)) is not None]
    before, after = sum(lag > 0 for lag in lags), sum(lag < 0 for lag in lags)
    counted = before + after
    words = f"{row}: both fall in {len(lags)} of {len(runs)} runs"
    if counted < MIN_JUDGED:
        return RowTests(None, None, f"{words}, and at different times in {counted} of these")
    low, high = clopper_pearson(before, counted)
    share = Estimate(before / counted, low, high, "runs", counted, wanted=len(runs), units=counted)
    p, opposite = sign_test(before, after), sign_test(after, before)
    line = (
        f"{words}; {asked.metrics[0]} falls first in {before}, {asked.metrics[1]} in {after}, both at the same time in "
        f"{len(lags) - counted}; share in which {asked.metrics[0]} is first {share.value:.2f} [{low:.2f}, {high:.2f}], "
        f"median lag {np.median(lags):g}, p {p_value(p)} (sign test)"
    )
    return RowTests(p, opposite, line, share)


def _lag(results: Results, run: RunView, asked: Options) -> int | None:
    """Return the iterations from the first signal's fall to the second's; None where one of them does not fall."""
    first, then = (fall(*results.curve(run.id, metric)) for metric in asked.metrics)
    if first is None or then is None or min(first.share, then.share) < asked.least:
        return None
    return then.step - first.step
