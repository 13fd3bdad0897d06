"""Measure how often a correlation over settings is reported, with and without a true one.

18 settings, 2 builds, 5 seeds. Builds and seeds share the effect of a setting on a measure. The kinds:

- `clusters`: settings differ in both measures, independently; runs of one setting hardly differ;
- `even`: settings, builds of a setting, and runs differ alike;
- `collapse`: half of the settings collapse in one measure, and half of them in the other;
- `seeds`: a seed has the same effect on every setting and build, independently in the two measures;
- `noise`: settings do not differ; the noise of a run is nearly the same in both measures;
- `strength`: the strength of a setting, within one of three families, drives both measures;
- `reversal`: settings agree in both measures, and runs of one setting disagree (Simpson).

There is no promise for `between` if the noise of runs makes their means agree (`other_builds` avoids this), nor for
`partial` if strength drives both: ranks are not linear in strength, and the remainder agrees.
`runs` is Spearman's correlation over all runs as if each were independent, for comparison; plat does not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from plat_analysis.statistics import correlation

SETTINGS, BUILDS, SEEDS = 18, 2, 5
LEVEL = 0.025
FAMILIES = np.repeat(np.arange(3), SETTINGS // 3)
STRENGTH = np.tile(np.arange(SETTINGS // 3), 3) / (SETTINGS // 3 - 1)
COVARIATES = np.column_stack([(FAMILIES == f) * part for f in range(3) for part in (np.ones(SETTINGS), STRENGTH)])
Runs = NDArray[np.float64]  # [setting, build, seed]
KINDS = ("clusters", "even", "collapse", "seeds", "noise", "strength", "reversal")


def draw(random: np.random.Generator, kind: str) -> tuple[Runs, Runs]:
    """Return both measures of all runs."""
    both = (2, SETTINGS, BUILDS, SEEDS)
    runs = random.standard_normal(both)
    settings = random.standard_normal((2, SETTINGS, 1, 1))
    if kind == "clusters":
        runs = 3 * settings + 0.3 * runs
    elif kind == "even":
        runs = settings + random.standard_normal((2, SETTINGS, BUILDS, 1)) + runs
    elif kind == "collapse":
        runs = 20.0 * (settings > 0) + runs
    elif kind == "seeds":
        runs = settings + 3 * random.standard_normal((2, 1, 1, SEEDS)) + runs
    elif kind == "noise":
        runs = random.standard_normal(both[1:]) + 0.5 * runs
    elif kind == "strength":
        runs = settings + np.array([1.0, -2.0, 2.0])[FAMILIES][:, None, None] * STRENGTH[:, None, None] + runs
    elif kind == "reversal":
        apart = random.standard_normal(both[1:])
        runs = 3 * settings[:1] + 0.5 * settings + np.stack([apart, -apart]) + 0.5 * runs
    return runs[0], runs[1]


def _over_runs(x: Runs, y: Runs) -> tuple[float, float]:
    found = stats.spearmanr(x.ravel(), y.ravel(), alternative="greater")
    return float(found.pvalue), float(1 - found.pvalue)


def _sides(found: correlation.Correlation) -> tuple[float, float]:
    return found.above, found.below


TESTS: dict[str, Callable[[Runs, Runs], tuple[float, float]]] = {  # p-values of "not above" and of "not below" zero
    "runs": _over_runs,
    "between": lambda x, y: _sides(correlation.between(x, y)),
    "other_builds": lambda x, y: _sides(correlation.other_builds(x, y)),
    "partial": lambda x, y: _sides(correlation.partial(x, y, COVARIATES)),
    "within": lambda x, y: _sides(correlation.within(x, y)),
}


@dataclass(frozen=True)
class Case:
    """A kind of runs and a test, with the promised rate of its positive verdicts: at most `LEVEL`, or none."""

    kind: str
    test: str
    promised: bool = True


CASES = [
    *(Case(kind, test) for kind in ("clusters", "even", "collapse") for test in ("between", "other_builds", "within")),
    Case("clusters", "partial"),
    Case("even", "partial"),
    Case("seeds", "within"),
    Case("seeds", "between"),
    Case("noise", "other_builds"),
    Case("clusters", "runs", promised=False),
    Case("collapse", "runs", promised=False),
    Case("noise", "between", promised=False),
    Case("strength", "between", promised=False),
    Case("strength", "partial", promised=False),
]


def shares(case: Case, draws: int) -> tuple[float, float]:
    """Return how often a correlation is called above zero, and how often below."""
    random = np.random.default_rng([8, KINDS.index(case.kind)])
    p_values = np.array([TESTS[case.test](*draw(random, case.kind)) for _ in range(draws)])
    above, below = (p_values <= LEVEL).mean(axis=0)
    return float(above), float(below)


def missed(settings: int, agreement: float, draws: int) -> float:
    """Return how often the 95 % interval of `between` misses the correlation of very many settings."""
    random = np.random.default_rng([9, settings])
    mixing = np.linalg.cholesky([[1, agreement], [agreement, 1]])

    def runs(count: int) -> Runs:
        levels = np.tensordot(mixing, random.standard_normal((2, count, 1, 1)), axes=1)
        of_builds = 0.5 * random.standard_normal((2, count, BUILDS, 1))
        return np.asarray(levels + of_builds + random.standard_normal((2, count, BUILDS, SEEDS)))

    many = runs(5_000)[:, :, :1].mean(axis=-1)[..., 0]
    ranks = np.argsort(np.argsort(many, axis=1), axis=1)
    true = np.corrcoef(ranks)[0, 1]
    found = [correlation.between(*runs(settings)) for _ in range(draws)]
    return float(np.mean([not one.low <= true <= one.high for one in found]))


def lines(draws: int) -> Iterator[str]:
    yield f"correlations over {SETTINGS} settings x {BUILDS} builds x {SEEDS} seeds, none there; promised: at most .025"
    yield "runs         test            said above   below zero"
    for case in CASES:
        above, below = shares(case, draws)
        remark = "" if case.promised else "   nothing promised"
        yield f"{case.kind:12} {case.test:12}   {above:10.3f}   {below:10.3f}{remark}"
    between, within = (shares(Case("reversal", test), draws) for test in ("between", "within"))
    yield f"reversal: between settings above {between[0]:.3f}, within them below {within[1]:.3f} (promised: found)"
    rates = (f"{missed(n, r, draws):.3f} ({n} settings, agreement {r:g})" for n in (6, 18) for r in (0.0, 0.8))
    yield f"95 % intervals that miss (promised: .05): {', '.join(rates)}"
