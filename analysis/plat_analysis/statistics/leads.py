"""Test if an early measure predicts an outcome beyond what other early measures predict, on settings left out.

Values are arrays [setting, build, seed]. The outcome is predicted by least squares from the known measures and the
build, with and without the new measure; each setting is predicted from the runs of all other settings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plat_analysis.statistics.correlation import MIN_SETTINGS
from plat_analysis.statistics.orders import Families, orders, orders_within
from plat_analysis.statistics.significance import sign_flip_p

ROUNDING = 1e-9
ORDERS = 2_000  # most orders counted; each takes as many fits as there are settings
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Foretold:
    """Hold the predicted shares of the outcome's squared deviations from the means of its builds.

    without, with_it  1 - errors / errors of the build means, without and with the measure; at most 1, below zero where
                      the prediction is worse than the mean
    p                 p-value of "the measure adds nothing"
    """

    without: float
    with_it: float
    p: float

    @property
    def added(self) -> float:
        """Return the share that the measure adds."""
        return self.with_it - self.without


def foretell(
    measure: ArrayLike,
    known: ArrayLike,
    outcome: ArrayLike,
    seed: int = 0,
    families: Families | None = None,
) -> Foretold:
    """Return what a measure adds to one or several known ones in predicting an outcome.

    measure, outcome  [setting, build, seed], without NaN
    known             the same, or several as [known, setting, build, seed]
    families          the family of each setting, within which settings are permuted (default: all are of one)
    The p-value is the largest of two, or of three with several known ones, all with settings as units:
    - permutation of the measure's residual beside the known ones and the build, all runs of a setting together
      (Freedman and Lane 1983); it assumes that settings vary alike
    - sign flips of each setting's sum of products of both residuals (Cameron, Gelbach and Miller 2008, null imposed);
      settings may vary differently, but fewer than seven never show anything
    - with several known ones: Student's t of the measure's weight, its error from settings left out (`jackknife_p`).
      The other two alone erred in up to .04 instead of .025 with four known ones, in simulated runs
    Known measures count as they are measured: one that is noisy leaves to others what it misses.
    A constant outcome gives shares of 0 and p 1. Raises ValueError for fewer than `least_settings`, unequal shapes, or
    NaN.
    """
    x, given, y = (np.asarray(values, np.float64) for values in (measure, known, outcome))
    given = given[None] if given.ndim == 3 else given
    least = least_settings(len(given))
    if x.ndim != 3 or not x.shape == given.shape[1:] == y.shape or len(x) < least:
        raise ValueError(f"three arrays [at least {least} settings, builds, seeds] are needed, got {x.shape}")
    if np.isnan([x, *given, y]).any():
        raise ValueError("a run is missing")
    builds = np.broadcast_to(np.eye(x.shape[1])[None, :, None, :], (*x.shape, x.shape[1]))
    means = float(_errors(builds, y))
    base = np.concatenate([builds, np.moveaxis(given, 0, -1)], axis=-1)
    without = float(_errors(base, y))
    rest = _rest(x, base)
    places = orders(len(x), seed) if families is None else orders_within(families, seed)
    if len(places) > ORDERS:  # not the first ones: all orders of few settings are listed from the most alike on
        others = np.random.default_rng([seed, len(places)]).choice(len(places) - 1, size=ORDERS, replace=False)
        places = places[[0, *(1 + others)]]
    drawn = rest[places][..., None]  # [order, setting, build, seed, 1]
    more = np.concatenate([np.broadcast_to(base, (len(places), *base.shape)), drawn], axis=-1)
    added = without - _errors(more, y)
    p = float((added >= added[0] - ROUNDING * means).mean())
    if means == 0:  # the outcome is constant
        return Foretold(0.0, 0.0, 1.0)
    products = (rest * _rest(y, base)).sum(axis=(1, 2))  # a number a setting, symmetric about zero under the null
    flips_p = min(1.0, 2 * sign_flip_p((products if products.sum() >= 0 else -products).tolist()))
    weight_p = jackknife_p(x, given, y, families) if len(given) > 1 else 0.0
    return Foretold(1 - without / means, 1 - (without - float(added[0])) / means, max(p, flips_p, weight_p))


def jackknife_p(x: Array, known: Array, y: Array, families: Families | None = None) -> float:
    """Return the two-sided p-value of "x has no weight in y beside the known ones, the build and the family".

    The weight is that of least squares over all runs. Its error is the jackknife's, with a setting left out each time
    (Efron and Stein 1981), and Student's t has as many degrees of freedom as settings are left by what is known.

    known     [known, setting, build, seed]
    families  the family of each setting (default: all are of one)
    It is 1 where nothing is left of x or y, or no degree of freedom.
    """
    from scipy.special import stdtr

    count, builds = len(x), x.shape[1]
    owners = ["" for _ in x] if families is None else list(families)
    indicators = np.array([[float(own == family) for family in dict.fromkeys(owners)] for own in owners])[:, 1:]
    shape = (count, -1, builds)
    base = [np.broadcast_to(np.eye(builds)[None, :, None, :], (*x.shape, builds)).reshape(shape)]
    base += [np.moveaxis(known, 0, -1).reshape(count, -1, len(known))]
    base += [np.repeat(indicators[:, None], base[0].shape[1], axis=1)]
    beside, outcome = np.concatenate(base, axis=-1), y.reshape(count, -1)
    freedom = count - len(known) - indicators.shape[1] - 2
    if freedom < 1 or not _rest(x.reshape(count, -1), beside).any() or not _rest(outcome, beside).any():
        return 1.0
    columns = np.concatenate([x.reshape(count, -1, 1), beside], axis=-1)
    products = np.einsum("src,srd->scd", columns, columns)
    moments = np.einsum("src,sr->sc", columns, outcome)
    weight = (np.linalg.pinv(products.sum(axis=0), hermitian=True) @ moments.sum(axis=0))[0]
    inverses = np.linalg.pinv(products.sum(axis=0) - products, hermitian=True)
    weights = np.einsum("scd,sd->sc", inverses, moments.sum(axis=0) - moments)[:, 0]
    error = float(np.sqrt((count - 1) / count * ((weights - weight) ** 2).sum()))
    return float(2 * stdtr(freedom, -abs(weight) / error)) if error > 0 else 0.0


def least_settings(known: int) -> int:
    """Return the fewest settings that `foretell` takes: six for one known measure, and one for each further one."""
    return MIN_SETTINGS + known - 1


def _rest(x: Array, base: Array) -> Array:
    """Return the residual of x beside the columns of `base`; zero where it is a rounding error."""
    flat = base.reshape(-1, base.shape[-1])
    rest = x.ravel() - flat @ (np.linalg.pinv(flat) @ x.ravel())
    rest[np.abs(rest) < ROUNDING * max(1.0, float(np.abs(x).max()))] = 0.0
    return np.asarray(rest.reshape(x.shape), np.float64)


def _errors(columns: Array, y: Array) -> Array:
    """Return the sum of squared errors of each setting's outcomes, predicted from the runs of all others.

    columns  [..., setting, build, seed, column]; the result has the leading shape
    Solved by normal equations: those of all runs minus those of the setting.
    """
    products = np.einsum("...sbkc,...sbkd->...scd", columns, columns)
    moments = np.einsum("...sbkc,sbk->...sc", columns, y)
    products = products.sum(axis=-3, keepdims=True) - products
    moments = moments.sum(axis=-2, keepdims=True) - moments
    fits = np.einsum("...scd,...sd->...sc", np.linalg.pinv(products, hermitian=True), moments)
    return np.asarray(((y - np.einsum("...sbkc,...sc->...sbk", columns, fits)) ** 2).sum(axis=(-3, -2, -1)))
