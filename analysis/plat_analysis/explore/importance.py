"""How much each axis matters for the last value of a metric: permutation importance in a random forest.

The forest predicts runs that it has not seen (cross-validation). The importance of an axis is half the growth of the
squared error when its value is drawn anew from all runs, divided by the variance of the runs. For independent axes this
is the total effect of the axis in an analysis of variance (Jansen 1999). Seeds are fixed, so equal runs give equal
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat_analysis.data.labels import axis_label
from plat_analysis.explore.runs import Axis

LEAST_RUNS = 10
FOLDS, TREES = 5, 100
MOST_DRAWN = 24  # values of an axis; of more, so many are drawn
MOST_RUNS = 2000  # the first in random order; more would take minutes


@dataclass(frozen=True)
class Importance:
    """Hold what a forest found, ours or for a search that of Optuna (`of_search`).

    explained  share of the variance of unseen runs that the forest explains, 0 to 1; None for a search
    shares     (label of the axis, its share of the variance), the largest first; axes that act together share some
    runs       the number of runs with a value; of a search, of its complete trials
    objective  of the search
    """

    explained: float | None
    shares: list[tuple[str, float]]
    runs: int
    objective: str = ""


def of_search(shares: Mapping[str, float], trials: int, objective: str) -> Importance:
    """Return what Optuna found: `shares` of the parameters in the variance of the objective over complete trials."""
    ordered = sorted(shares.items(), key=lambda one: -one[1])
    return Importance(None, [(axis_label(name), share) for name, share in ordered], trials, objective)


def importance(axes: Sequence[Axis], values: Sequence[float | None]) -> Importance | str:
    """Return the importance of each varying axis for the values, or why there is none, in words.

    axes    codes for each run
    values  one for each run; None for a run without one, which is left out
    """
    known = [position for position, value in enumerate(values) if value is not None and np.isfinite(value)]
    target = np.array([values[position] for position in known], np.float64)
    varied = [axis for axis in axes if len({axis.codes[position] for position in known}) > 1]
    if len(known) < LEAST_RUNS:
        return f"Importance needs {LEAST_RUNS} runs with a last value; there are {len(known)}."
    if not varied:
        return "No axis varies among the runs with a last value."
    codes = np.array([[axis.codes[position] for axis in varied] for position in known], np.float64)
    largest = float(np.abs(target).max())
    target = target / largest if largest else target  # so that squares of huge values stay finite
    if float(np.ptp(target)) < 1e-12:
        return "All runs end at the same value."
    explained, found = _shares(codes, target)
    if explained <= 0:
        return "The axes explain nothing: a forest predicts the last value of unseen runs no better than their mean."
    shares = [(axis.label, max(0.0, float(share))) for axis, share in zip(varied, found, strict=True)]
    return Importance(explained, sorted(shares, key=lambda one: -one[1]), len(known))


def _shares(codes: NDArray[np.float64], target: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the share of variance explained in unseen runs, and the share of each axis in the variance."""
    from sklearn.ensemble import RandomForestRegressor

    chance = np.random.default_rng(0)
    order = chance.permutation(len(target))[:MOST_RUNS]
    codes, target = codes[order], target[order]
    leaf = max(1, len(target) // 100)  # larger leaves predict noise less
    error, shuffled = 0.0, np.zeros(codes.shape[1])
    for fold in range(FOLDS):
        unseen = np.arange(len(target)) % FOLDS == fold
        forest = RandomForestRegressor(n_estimators=TREES, min_samples_leaf=leaf, random_state=fold, n_jobs=1)
        forest.fit(codes[~unseen], target[~unseen])
        tested, truth = codes[unseen], target[unseen]
        error += float(((forest.predict(tested) - truth) ** 2).sum())
        for column in range(codes.shape[1]):
            drawn, weights = _drawn(codes[:, column], chance)
            copies = np.repeat(tested[None], len(drawn), axis=0)
            copies[:, :, column] = drawn[:, None]
            guessed = forest.predict(copies.reshape(-1, codes.shape[1])).reshape(len(drawn), len(truth))
            shuffled[column] += float(weights @ ((guessed - truth) ** 2).sum(axis=1))
    whole = float(((target - target.mean()) ** 2).sum())
    return 1 - error / whole, (shuffled - error) / (2 * whole)


def _drawn(codes: NDArray[np.float64], chance: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of an axis with their shares of the runs; of many values MOST_DRAWN that are drawn."""
    values, counts = np.unique(codes, return_counts=True)
    if len(values) <= MOST_DRAWN:
        return values, counts / len(codes)
    return chance.choice(codes, MOST_DRAWN), np.full(MOST_DRAWN, 1 / MOST_DRAWN)
