"""Check what a signal says before the outcome is known: of unseen settings, of a filter's gain, of another signal.

That a metric at an iteration predicts the outcome of unseen settings, beyond a metric known then, is tested by
`statistics.leads`. The opposite, that a metric predicts nothing, is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import LEVEL, RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChosenRows, of_tests, over_settings, without_numbers
from plat_analysis.contrasts.families import Family, sizes
from plat_analysis.contrasts.foretelling import Foretelling, check_steps
from plat_analysis.contrasts.setting_correlations import Settings, can_reach, check_decidable
from plat_analysis.data.results import Results, RunView
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS, between
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate, clopper_pearson
from plat_ragen2.precheck_estimates import Gaining, measured, starts


@dataclass(frozen=True, kw_only=True)
class ForetellsOptions(Foretelling):
    """Hold the options of a prediction at one iteration.

    at          the iteration: metrics count as last measured by then
    looks       how often the claim will be judged while runs are added; the error is divided among these looks
    """

    at: int
    looks: int = 1

    def beforehand(self, results: Results) -> None:
        """Raise SpecError for too few settings, no metric or no iteration, or if no test can show the claim."""
        check_steps("at", self.at)
        for row, settings in self.settings(results).items():
            check_decidable(settings.families, LEVEL / self.looks, row, least_flips(settings))

    def foreseen(self, results: Results) -> list[str]:
        """Return, for each row, its settings and the smallest p-value that they allow."""
        of_rows, level = self.settings(results).items(), LEVEL / self.looks
        return [can_reach(row, own.families, level, least_flips(own)) for row, own in of_rows]


def least_flips(settings: Settings) -> float:
    """Return the smallest p-value of the sign flips of `foretell`: all settings agree."""
    return float(2 ** (1 - len(settings.names)))


@takes(ForetellsOptions)
def foretells(results: Results, asked: ForetellsOptions) -> Verdict:
    """Each metric improves the prediction of a setting's outcome from the other settings.

    The setting is left out, and its outcome predicted twice: from what is known, and from that and the metric.
    """

    def test(name: str, settings: Settings, metric: str) -> RowTests:
        if settings.replicates < MIN_JUDGED:
            return RowTests(None, None, f"{name} ({settings.replicates} runs a setting, {MIN_JUDGED} are needed)")
        found = asked.foretold(settings, metric, asked.at)
        if isinstance(found, str):
            return RowTests(None, None, f"{name} ({found})")
        shares = f"{number(found.without, 2)} to {number(found.with_it, 2)}"
        used = "permutation and sign flips" if len(asked.all_known) == 1 else "permutation, sign flips and jackknife"
        tests = f"p {p_value(found.p)} ({used})"
        line = f"{name} at {asked.at} raises the explained share from {shares}; each setting is left out, {tests}"
        return RowTests(found.p, 1.0, line)

    return over_settings(asked.settings(results), asked.metrics, test, asked.looks)


# Check that a signal before training correlates with the filter's gain, over settings (Table 8).
#
# The test is Spearman's correlation by permutation of starts within tasks (`statistics.correlation`): settings that
# share a base model and a task have the same signal and are one start. All named signals share the error (Holm).


@dataclass(frozen=True, kw_only=True)
class GainOptions(Gaining):
    """Hold the options of the claim.

    signals   name -> the measure of the runs with the baseline, e.g. {metric: rollout/rv_std_over_mean, at: 1}
    sign      positive or negative
    looks     how often the claim will be judged while runs are added; the error is divided among these looks
    """

    signals: Mapping[str, Any]
    sign: Literal["positive", "negative"] = "positive"
    looks: int = 1

    def beforehand(self, results: Results) -> None:
        """Raise SpecError as `Gaining`, where no signal is named, or where no permutation test can show the claim."""
        if not self.signals:
            raise SpecError("signals: none is named", fix="write {NAME: MEASURE}")
        super().beforehand(results)
        check_decidable(self._families(results), LEVEL / self.looks, "")

    def foreseen(self, results: Results) -> list[str]:
        """Return the settings and the smallest p-value that they allow if each is a start of its own."""
        return [can_reach("", self._families(results), LEVEL / self.looks)]

    def _families(self, results: Results) -> list[Family]:
        return list(self.families(self.sides(results)).values())


@takes(GainOptions)
def foretells_gain(results: Results, asked: GainOptions) -> Verdict:
    """Settings that start with more of each signal gain more from the treatment than others of their task."""
    sides, signals = asked.sides(results), asked.signals
    measures = {name: quantity(signal) for name, signal in signals.items()}
    found = measured(sides, measures, quantity(asked.outcome), asked.families(sides))
    kept = starts(found)
    tested = {}
    for index, name in enumerate(signals):
        if kept is None:
            enough = sum(setting.judged for setting in found.values())
            few = (
                f"{enough} of {len(found)} settings have all of their runs; {MIN_SETTINGS} different starts are needed"
            )
            tested[name] = RowTests(None, None, f"{name} ({few})")
            continue
        rank = between(kept.values[index], kept.values[-1], families=kept.families)
        p, opposite = (rank.above, rank.below) if asked.sign == "positive" else (rank.below, rank.above)
        bounds = f"[{number(rank.low, 2, True)}, {number(rank.high, 2, True)}]"
        several = len(set(kept.families)) > 1
        alike = f"; {number(between(kept.values[index], kept.values[-1]).rho, 2, True)} over all starts alike"
        line = (
            f"{name}: {number(rank.rho, 2, True)} {bounds} over {sizes(kept.families, 'starts')}, p {p_value(p)} "
            f"(permutation{' within families' if several else ''}){alike if several else ''}"
        )
        shown = Estimate(rank.rho, rank.low, rank.high, "settings", rank.settings, rank.settings, units=rank.settings)
        tested[name] = RowTests(p, opposite, line, shown)
    ids = (run for setting in found.values() for run in setting.gain.run_ids)
    remark = f"{len(found)} settings; those with one base model and task are one start"
    return without_numbers(tested, asked.looks, ids, remark)


# Find the change point of a falling curve: the best fit of two means from the curve's peak on (Hinkley 1970).

LEAST = 5  # least measurements from the peak on
ROUNDING = 1e-9  # relative; sums closer than this are ties, and the first one counts
PART = 2  # least measurements of a part; the error of a part of one would always be zero


@dataclass(frozen=True)
class Fall:
    """Hold a fall from a mean of `before` to a mean of `after`; `step` is the first measurement at the lower level."""

    step: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """Return the fall as a share of the level before it; 0 where that level is not above zero."""
        return (self.before - self.after) / self.before if self.before > 0 else 0.0


def fall(steps: ArrayLike, values: ArrayLike) -> Fall | None:
    """Return the fall of a curve, or None.

    None with fewer than `LEAST` measurements from the curve's peak on, or if it does not fall. The peak is the first of
    the three consecutive measurements with the largest mean, since a signal may rise before it falls. From the peak on,
    the break has the least squared errors from the means of the two parts. For a steady fall it is the middle.

    steps   shape (n,), integers in rising order
    values  shape (n,)

    Raises ValueError if the shapes differ or are not (n,).
    """
    at, curve = np.asarray(steps, np.int64), np.asarray(values, np.float64)
    if at.shape != curve.shape or at.ndim != 1:
        raise ValueError(f"{at.shape} steps and {curve.shape} values")
    first = _peak(curve)
    at, curve = at[first:], curve[first:]
    if len(curve) < LEAST:
        return None
    breaks = range(PART, len(curve) - PART + 1)
    errors = np.array([curve[:k].var() * k + curve[k:].var() * (len(curve) - k) for k in breaks])
    k = breaks[_first(errors <= errors.min() + ROUNDING * float((curve**2).sum()))]
    before, after = float(curve[:k].mean()), float(curve[k:].mean())
    return Fall(int(at[k]), before, after) if after < before else None


def _peak(curve: NDArray[np.float64]) -> int:
    """Return the first index of the three neighbours with the largest mean."""
    if len(curve) < 3:
        return 0
    sums = np.convolve(curve, np.ones(3), mode="valid")
    return _first(sums >= sums.max() - ROUNDING * float(np.abs(curve).sum()))


def _first(true: NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(true)[0])


def sign_test(positive: int, negative: int) -> float:
    """Return the one-sided p-value of "a lag is as often negative as positive" (binomial); 1 without trials.

    positive, negative  counts of lags; leave out ties
    """
    from scipy.stats import binomtest

    trials = positive + negative
    return float(binomtest(positive, trials, 0.5, alternative="greater").pvalue) if trials else 1.0


# Check that one signal falls before another within the same run: a sign test of the lag over runs (Figure 5).
#
# The time of a fall is a change point (`fall`). A run counts where both signals fall by at least
# `least` of their level, at different measurements. Limit: a steadier fall or a noisier signal may shift its change
# point, which this test cannot tell from an order. Measure both signals often, and at the same steps.


@dataclass(frozen=True, kw_only=True)
class FallsOptions(ChosenRows):
    """Hold the options of the claim.

    metrics  two metrics, the one that is claimed to fall first in front; `success`: the headline metric of the trainer
    least    the least fall, as a share of the level before it
    """

    metrics: Sequence[str]
    least: float = 0.2

    def __post_init__(self) -> None:
        if len(self.metrics) != 2 or self.metrics[0] == self.metrics[1]:
            raise SpecError("metrics: name two different metrics", fix="write metrics: [the first to fall, the second]")


@takes(FallsOptions)
def falls_before(results: Results, asked: FallsOptions) -> Verdict:
    """The first metric falls before the second in every row: in most of the row's runs in which both fall."""
    facets = asked.facets(results)
    tested = {}
    for row in facets.rows:
        name = row or asked.metrics[0]
        tested[name] = _tested(name, results, list(facets.runs(row).values()), asked)
    ids = (run.id for run in results.runs if not run.missing)
    return of_tests(tested, asked.looks, ids, "about runs of these builds of the base model in which both fall")


def _tested(row: str, results: Results, runs: Sequence[RunView], asked: FallsOptions) -> RowTests:
    """Run the sign test over the runs of one row, for the claimed order and for its opposite."""
    if any(run.missing for run in runs):
        return RowTests(None, None, f"{row} ({sum(not run.missing for run in runs)}/{len(runs)} runs)")
    lags = [lag for run in runs if (lag := _lag(results, run, asked)) is not None]
    before, after = sum(lag > 0 for lag in lags), sum(lag < 0 for lag in lags)
    counted = before + after
    words = f"{row}: {' and '.join(asked.metrics)} both fall in {len(lags)} of {len(runs)} runs"
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


def _lag(results: Results, run: RunView, asked: FallsOptions) -> int | None:
    """Return the iterations from the first signal's fall to the second's; None where one of them does not fall."""
    first, then = (fall(*results.curve(run.id, metric)) for metric in asked.metrics)
    if first is None or then is None or min(first.share, then.share) < asked.least:
        return None
    return then.step - first.step
