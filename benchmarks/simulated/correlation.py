"""Measure how often a correlation over settings is reported, with and without a true one.

18 settings (or fewer), 2 builds, 5 seeds. Builds and seeds share the effect of a setting on a measure. The kinds:

- `spread`: settings differ in both measures, independently; runs of one setting hardly differ;
- `even`: settings, builds of a setting, and runs differ alike;
- `collapse`: half of the settings collapse in one measure, and half of them in the other;
- `seeds`: a seed has the same effect on every setting and build, independently in the two measures;
- `noise .2` to `noise .95`: settings do not differ; the noise of a run moves both measures (correlation .2 to .95);
- `near`: settings differ independently by .25 of the spread of runs, whose noise moves both measures (.4);
- `half`: settings differ independently by half of the spread of runs, whose noise moves both measures (.6);
- `families`: families of 7, 6 and 5 settings differ in both measures, independently, twice as much as their settings;
- `two groups`: the same with groups of 6 and 12 settings, which differ three times as much;
- `curves`: each measure is a smooth curve of a dose in each of three families, independent of each other;
- `strength`: the strength of a setting, within one of three families, drives both measures;
- `reversal`: settings agree in both measures, and runs of one setting disagree (Simpson);
- `agree .6`, `agree .8`: the levels of settings correlate, and the noise of a run moves both measures (.4).

The tests: `apart` decides the claim `correlated`; `apart, named` names the families (groups) of the settings; `apart,
strength` also names the dose; `one build` has the runs of one build alone. There is no promise

- for `between` where the noise of runs makes their means agree;
- for `apart` where families are not named: two groups that differ in both measures agree or disagree as a whole, and no
  test over settings can know that they are two;
- where the dose drives both measures, unless it is named: two smooth curves agree or disagree as a whole, in each
  family. `partial` and `apart, strength` remove what is linear in the dose, and the remainder of curves still agrees.

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
THREE = np.repeat(np.arange(3), SETTINGS // 3)
STRENGTH = np.tile(np.arange(SETTINGS // 3), 3) / (SETTINGS // 3 - 1)
COVARIATES = np.column_stack([(THREE == f) * part for f in range(3) for part in (np.ones(SETTINGS), STRENGTH)])
FAMILIES = {"families": np.repeat([0, 1, 2], [7, 6, 5]), "two groups": np.repeat([0, 1], [6, 12]), "curves": THREE}
Runs = NDArray[np.float64]  # [setting, build, seed]
NOISES = (0.2, 0.4, 0.6, 0.95)
AGREEMENTS = (0.6, 0.8)
KINDS = (
    "spread",
    "even",
    "collapse",
    "seeds",
    "strength",
    "reversal",
    "near",
    "half",
    "families",
    "two groups",
    "curves",
)
KINDS += (*(f"noise {r:g}" for r in NOISES), *(f"agree {r:g}" for r in AGREEMENTS))


def draw(random: np.random.Generator, kind: str, count: int = SETTINGS) -> tuple[Runs, Runs]:
    """Return both measures of all runs of `count` settings; kinds with families have `SETTINGS`."""
    both = (2, count, BUILDS, SEEDS)
    runs = random.standard_normal(both)
    settings = random.standard_normal((2, count, 1, 1))
    name, _, size = kind.rpartition(" ")
    if kind == "spread":
        runs = 3 * settings + 0.3 * runs
    elif kind == "even":
        runs = settings + random.standard_normal((2, count, BUILDS, 1)) + runs
    elif kind == "collapse":
        runs = 20.0 * (settings > 0) + runs
    elif kind == "seeds":
        runs = settings + 3 * random.standard_normal((2, 1, 1, SEEDS)) + runs
    elif name == "noise":
        runs = _correlated(runs, float(size))
    elif kind == "near":
        runs = 0.25 * settings + _correlated(runs, 0.4)
    elif kind == "half":
        runs = 0.5 * settings + _correlated(runs, 0.6)
    elif kind in ("families", "two groups"):
        of = FAMILIES[kind]
        apart = (2.0 if kind == "families" else 3.0) * random.standard_normal((2, of.max() + 1))[:, of]
        runs = apart[..., None, None] + settings + _correlated(runs, 0.4)
    elif kind == "curves":
        parts, dose = random.standard_normal((3, 2, 3))[:, :, THREE], 2 * STRENGTH - 1
        runs = (parts[0] + 2 * dose * parts[1] + dose**2 * parts[2])[..., None, None] + 0.5 * runs
    elif kind == "strength":
        runs = settings + np.array([1.0, -2.0, 2.0])[THREE][:, None, None] * STRENGTH[:, None, None] + runs
    elif kind == "reversal":
        apart = random.standard_normal(both[1:])
        runs = 3 * settings[:1] + 0.5 * settings + np.stack([apart, -apart]) + 0.5 * runs
    elif name == "agree":
        runs = _correlated(settings, float(size)) + _correlated(runs, 0.4)
    return runs[0], runs[1]


def _correlated(values: Runs, r: float) -> Runs:
    """Return two measures [2, ...] of variance 1 with correlation r, of two independent ones."""
    return np.stack([values[0], r * values[0] + np.sqrt(1 - r * r) * values[1]])


def _over_runs(x: Runs, y: Runs, kind: str) -> tuple[float, float]:
    found = stats.spearmanr(x.ravel(), y.ravel(), alternative="greater")
    return float(found.pvalue), float(1 - found.pvalue)


def _sides(found: correlation.Correlation | None) -> tuple[float, float]:
    return (1.0, 1.0) if found is None else (found.above, found.below)


# p-values of "not above" and of "not below" zero
TESTS: dict[str, Callable[[Runs, Runs, str], tuple[float, float]]] = {
    "runs": _over_runs,
    "between": lambda x, y, kind: _sides(correlation.between(x, y)),
    "apart": lambda x, y, kind: _sides(correlation.apart(x, y)),
    "apart, named": lambda x, y, kind: _sides(correlation.apart(x, y, FAMILIES[kind])),
    "apart, strength": lambda x, y, kind: _sides(correlation.apart(x, y, THREE, COVARIATES)),
    "one build": lambda x, y, kind: _sides(correlation.apart(x[:, :1], y[:, :1])),
    "one build, named": lambda x, y, kind: _sides(correlation.apart(x[:, :1], y[:, :1], FAMILIES[kind])),
    "partial": lambda x, y, kind: _sides(correlation.partial(x, y, COVARIATES)),
    "within": lambda x, y, kind: _sides(correlation.within(x, y)),
}


@dataclass(frozen=True)
class Case:
    """A kind of runs and a test, with the promised rate of its positive verdicts: at most `LEVEL`, or none."""

    kind: str
    test: str
    promised: bool = True
    settings: int = SETTINGS


NULLS = [f"noise {r:g}" for r in NOISES] + ["near", "half"]
CASES = [
    *(
        Case(kind, test)
        for kind in ("spread", "even", "collapse")
        for test in ("between", "apart", "one build", "within")
    ),
    Case("spread", "partial"),
    Case("even", "partial"),
    Case("seeds", "within"),
    Case("seeds", "between"),
    *(Case(kind, test) for kind in NULLS for test in ("apart", "one build")),
    *(Case("spread", "apart", settings=count) for count in (6, 8, 10)),
    *(Case("noise 0.6", "apart", settings=count) for count in (6, 8, 10)),
    *(Case(kind, test) for kind in ("families", "two groups") for test in ("apart, named", "one build, named")),
    *(Case(kind, test, promised=False) for kind in ("families", "two groups") for test in ("between", "apart")),
    *(Case("curves", test, promised=False) for test in ("apart", "apart, named", "apart, strength")),
    Case("spread", "runs", promised=False),
    Case("collapse", "runs", promised=False),
    *(Case(kind, "between", promised=False) for kind in NULLS),
    Case("strength", "between", promised=False),
    Case("strength", "partial", promised=False),
    Case("strength", "apart, strength", promised=False),
]
POWER = [
    Case(f"agree {r:g}", test, settings=count)
    for r in AGREEMENTS
    for count in (10, SETTINGS)
    for test in ("between", "apart", "one build")
]


def shares(case: Case, draws: int) -> tuple[float, float]:
    """Return how often a correlation is called above zero, and how often below."""
    random = np.random.default_rng([8, KINDS.index(case.kind)])
    drawn = (draw(random, case.kind, case.settings) for _ in range(draws))
    p_values = np.array([TESTS[case.test](*measures, case.kind) for measures in drawn])
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
    resampled, correlation.RESAMPLED = correlation.RESAMPLED, 10  # of intervals, which these rates do not use
    yield f"correlations over settings x {BUILDS} builds x {SEEDS} seeds, none there; promised: at most .025"
    yield "runs         settings  test                said above   below zero"
    for case in CASES:
        above, below = shares(case, draws)
        remark = "" if case.promised else "   nothing promised"
        yield f"{case.kind:12} {case.settings:8}  {case.test:17}   {above:10.3f}   {below:10.3f}{remark}"
    between, within = (shares(Case("reversal", test), draws) for test in ("between", "within"))
    yield f"reversal: between settings above {between[0]:.3f}, within them below {within[1]:.3f} (promised: found)"
    yield "how often a correlation of the settings' levels is shown"
    for case in POWER:
        yield f"{case.kind:12} {case.settings:8}  {case.test:17}   {shares(case, draws)[0]:10.3f}"
    correlation.RESAMPLED = resampled
    rates = (f"{missed(n, r, draws):.3f} ({n} settings, agreement {r:g})" for n in (6, 18) for r in (0.0, 0.8))
    yield f"95 % intervals that miss (promised: .05): {', '.join(rates)}"
