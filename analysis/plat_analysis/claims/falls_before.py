"""Whether one signal falls before another within the same run: a sign test of the lag over runs (Figure 5).

The time of a fall is a change point (`statistics.change_point`). A run counts where both signals fall by at least
`least` of their level; the others are counted beside it. Where neither comes first, both signals have one shape and
noise of one size, each sign of a lag is a toss of a coin. A steadier fall or a noisier signal may shift its change
point, which this test cannot tell from an order. A run in which both fall at the same measurement does not count.
Measure both signals often, and at the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from plat.errors import SpecError
from plat_analysis.artifact import p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import chosen_rows, judged
from plat_analysis.data.runs import Results, RunView
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.statistics.change_point import fall, sign_test
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.proportions import clopper_pearson

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


@dataclass(frozen=True)
class Metrics:
    """The two signals of a claim."""

    first: str
    then: str


def _beforehand(
    results: Results, *, metrics: Sequence[str], rows: AxisNames = None, only: Sequence[str] = (), **_: object
) -> None:
    """SpecError where no two metrics are named, or a row that does not exist."""
    _pair(metrics)
    chosen_rows(Facets(results, Layout.of(rows=rows)).rows, only)


@checked_by(_beforehand)
def falls_before(
    frames: Frames,
    experiment: Experiment,
    *,
    metrics: Sequence[str],
    rows: AxisNames = None,
    only: Sequence[str] = (),
    least: float = 0.2,
    looks: int = 1,
) -> Verdict:
    """The first metric falls before the second in most runs of every row in which both fall.

    metrics  two of them, the one that is said to fall first in front; `success` is the headline of each run's trainer
    rows     axes that make the rows (default: one row)
    only     the rows that are judged (default: all)
    least    the least fall, as a share of the level before it
    looks    how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    results, pair = Results.of(frames, experiment), _pair(metrics)
    facets = Facets(results, Layout.of(rows=rows))
    tested = {
        row or pair.first: _tested(row or pair.first, results, list(facets.runs(row).values()), pair, least)
        for row in chosen_rows(facets.rows, only)
    }
    decision = decide(tested, looks)
    lines = (*decision.lines, "about runs of these builds of the base model in which both fall")
    ids = tuple(dict.fromkeys(run.id for run in results.runs if not run.missing))
    return judged(replace(decision, lines=lines), {row: item.estimate for row, item in tested.items()}, ids)


FALLS_BEFORE = falls_before


def _pair(metrics: Sequence[str]) -> Metrics:
    if len(metrics) != 2 or metrics[0] == metrics[1]:
        raise SpecError("metrics: names two different metrics", mend="write metrics: [the first to fall, the second]")
    return Metrics(*metrics)


def _tested(row: str, results: Results, runs: Sequence[RunView], pair: Metrics, least: float) -> RowTests:
    """The sign test over the runs of one row, for the order that is claimed and for its opposite."""
    if any(run.missing for run in runs):
        return RowTests(None, None, f"{row} ({sum(not run.missing for run in runs)}/{len(runs)} runs)")
    lags = [lag for run in runs if (lag := _lag(results, run, pair, least)) is not None]
    before, after = sum(lag > 0 for lag in lags), sum(lag < 0 for lag in lags)
    counted = before + after
    words = f"{row}: both fall in {len(lags)} of {len(runs)} runs"
    if counted < MIN_JUDGED:
        return RowTests(None, None, f"{words}, at different times in {counted}")
    low, high = clopper_pearson(before, counted)
    share = Estimate(before / counted, low, high, "runs", counted, wanted=len(runs), units=counted)
    p, opposite = sign_test(before, after), sign_test(after, before)
    line = (
        f"{words}; {pair.first} first in {before}, {pair.then} first in {after}, together in {len(lags) - counted}; "
        f"share {share.value:.2f} [{low:.2f}, {high:.2f}], median lag {np.median(lags):g}, p {p_value(p)} (signs)"
    )
    return RowTests(p, opposite, line, share)


def _lag(results: Results, run: RunView, pair: Metrics, least: float) -> int | None:
    """Iterations from the fall of the first signal to that of the second; None where one of them does not fall."""
    falls = [fall(*results.curve(run.id, metric)) for metric in (pair.first, pair.then)]
    if any(found is None or found.share < least for found in falls):
        return None
    first, then = falls
    assert first is not None and then is not None
    return then.step - first.step
