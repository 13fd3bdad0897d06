"""Does an early measure foretell an outcome beyond what another early measure says? Leave one setting out.

Values are arrays [setting, build, seed]. The outcome is predicted by least squares from the known measure and the
build, with and without the other measure, for the runs of each setting from the runs of all others. So a prediction is
always of a setting that the fit has not seen.

share without = 1 - squared errors with the known measure / squared errors of the mean of each build
share with    the same with the other measure as well

Two tests, of which the larger p-value counts; runs of one setting are alike, so settings are the units of both:

- permutation of what is left of the other measure beside the known one and the build; all runs of a setting change
  places together (Freedman and Lane 1983). It supposes that settings vary alike;
- flips of the signs of each setting's sum of products of what is left of the other measure and of the outcome (Cameron,
  Gelbach and Miller 2008, with the null imposed). Settings may vary differently; fewer than seven never show anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.correlation import MIN_SETTINGS
from plat_analysis.statistics.permutations import orders
from plat_analysis.statistics.sign_flips import sign_flip_p

ROUNDING = 1e-9
ORDERS = 2_000  # of which the test counts; each is as many fits as there are settings
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Foretold:
    """Shares of the outcome's squared deviations from the means of its builds that are predicted, at most 1.

    without, with_it  without and with the measure; below zero where it predicts worse than the mean
    p                 p-value of "the measure adds nothing"
    """

    without: float
    with_it: float
    p: float

    @property
    def added(self) -> float:
        return self.with_it - self.without


def foretell(measure: ArrayLike, known: ArrayLike, outcome: ArrayLike, seed: int = 0) -> Foretold:
    """What a measure adds to a known one in predicting an outcome. No value may be missing.

    ValueError: fewer than six settings, other shapes, or NaN.
    """
    x, given, y = (np.asarray(values, np.float64) for values in (measure, known, outcome))
    if x.ndim != 3 or not x.shape == given.shape == y.shape or len(x) < MIN_SETTINGS:
        raise ValueError(f"it needs [at least {MIN_SETTINGS} settings, builds, seeds], not {x.shape}")
    if np.isnan([x, given, y]).any():
        raise ValueError("a run is missing")
    builds = np.broadcast_to(np.eye(x.shape[1])[None, :, None, :], (*x.shape, x.shape[1]))
    means = float(_errors(builds, y))
    base = np.concatenate([builds, given[..., None]], axis=-1)
    without = float(_errors(base, y))
    rest = _rest(x, base)
    places = orders(len(x), seed)
    places = places if len(places) <= ORDERS else places[: ORDERS + 1]
    drawn = rest[places][..., None]  # [order, setting, build, seed, 1]
    more = np.concatenate([np.broadcast_to(base, (len(places), *base.shape)), drawn], axis=-1)
    added = without - _errors(more, y)
    p = float((added >= added[0] - ROUNDING * means).mean())
    if means == 0:  # nothing is there to be predicted
        return Foretold(0.0, 0.0, 1.0)
    p = max(p, _flips_p((rest * _rest(y, base)).sum(axis=(1, 2))))
    return Foretold(1 - without / means, 1 - (without - float(added[0])) / means, p)


def _flips_p(products: Array) -> float:
    """Two-sided p-value of "the products of a setting, one number each, are symmetric about zero"."""
    return min(1.0, 2 * sign_flip_p((products if products.sum() >= 0 else -products).tolist()))


def _rest(x: Array, base: Array) -> Array:
    """What is left of a measure or of the outcome beside the columns of `base`; nothing where that is rounding."""
    flat = base.reshape(-1, base.shape[-1])
    rest = x.ravel() - flat @ (np.linalg.pinv(flat) @ x.ravel())
    rest[np.abs(rest) < ROUNDING * max(1.0, float(np.abs(x).max()))] = 0.0
    return np.asarray(rest.reshape(x.shape), np.float64)


def _errors(columns: Array, y: Array) -> Array:
    """Sum of squared errors of each setting's outcomes, predicted from the runs of all others.

    columns  [..., setting, build, seed, column]; one number for each of the leading places

    Solved by normal equations: those of all runs without those of the setting.
    """
    products = np.einsum("...sbkc,...sbkd->...scd", columns, columns)
    moments = np.einsum("...sbkc,sbk->...sc", columns, y)
    products = products.sum(axis=-3, keepdims=True) - products
    moments = moments.sum(axis=-2, keepdims=True) - moments
    fits = np.einsum("...scd,...sd->...sc", np.linalg.pinv(products, hermitian=True), moments)
    return np.asarray(((y - np.einsum("...sbkc,...sc->...sbk", columns, fits)) ** 2).sum(axis=(-3, -2, -1)))
