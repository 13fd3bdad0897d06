"""Error rates, power and pairs of claims that are judged at planned looks (`statistics.sequential`), and of fixed ones.

Values are changes of pairs, in standard deviations; the margin at which a row stops is one of them. `fixed`: 20 pairs a
row, judged once by Student's t and sign flips with Holm's procedure. `wrong`: share of claims in which some row without
an effect is shown. `excluded`: share in which some row with an effect of the margin is called *not of this size*.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics import sequential
from plat_analysis.statistics.sequential import LOOKS, Plan, Row, decide
from plat_analysis.statistics.significance import holm, sign_flip_p

FIXED = 20  # pairs
LEVEL = 0.025
Array = NDArray[np.float64]
KINDS = ("normal", "tosses", "t(2)", "lottery")
CASES = {  # effect of each row, and its spread
    "1 in 1 of 4": ((1, 0, 0, 0), (1, 1, 1, 1)),
    "1 in 4 of 4": ((1, 1, 1, 1), (1, 1, 1, 1)),
    "2 in 4 of 4": ((2, 2, 2, 2), (1, 1, 1, 1)),
    "2 in 1 of 4, spreads 1 2 3 6": ((2, 0, 0, 0), (1, 2, 3, 6)),
    "1 in 1 of 1": ((1,), (1,)),
    "0.5 in 1 of 1": ((0.5,), (1,)),
}
CHOICES = ((8, 12, 18, 27), (8, 11, 14, 18, 22, 27), (12, 18, 27), (10, 18, 27))


def noise(random: np.random.Generator, kind: str, shape: Sequence[int]) -> Array:
    """Return values that are symmetric about zero, with a standard deviation of one where there is one."""
    if kind == "tosses":
        return random.choice([-1.0, 1.0], shape)
    if kind == "t(2)":
        return np.asarray(random.standard_t(2, shape))
    if kind == "lottery":  # both sides of a pair collapse in half of their runs
        return np.asarray(random.integers(2, size=shape) - random.integers(2, size=shape)) * 2**0.5
    return random.standard_normal(shape)


def fixed_shown(values: Array) -> NDArray[np.bool_]:
    """Return for each row whether it is shown by `FIXED` pairs."""
    p = []
    for x in values[:, :FIXED]:
        by_t = _t_p(x)
        p.append(max(by_t, sign_flip_p(list(x))) if by_t <= LEVEL else by_t)
    return np.array([adjusted is not None and adjusted <= LEVEL for adjusted in holm(p)])


def _t_p(x: Array) -> float:
    from scipy.special import stdtr

    return float(stdtr(len(x) - 1, -sequential.t_statistic(x)))


def measured(random: np.random.Generator, kind: str, case: tuple[Sequence[float], Sequence[float]], draws: int) -> str:
    """Return wrong claims, the share of effects that is shown, and pairs a row, for looks and for the fixed design."""
    effects, spreads = np.array(case[0], float), np.array(case[1], float)
    plan, names = Plan(), [str(row) for row in range(len(effects))]
    wrong, power, pairs, excluded, fixed_wrong, fixed_power = [], [], [], [], [], []
    for _ in range(draws):
        values = effects[:, None] + spreads[:, None] * noise(random, kind, (len(effects), LOOKS[-1]))
        found = decide({name: Row(x, margin=1.0) for name, x in zip(names, values, strict=True)}, plan)
        shown = np.array([found[name].word == "shown" for name in names])
        pairs.append(np.mean([found[name].pairs for name in names]))
        wrong.append(shown[effects == 0].any())
        excluded.append(any(found[n].word == "not of this size" for n, e in zip(names, effects, strict=True) if e >= 1))
        power.append(shown[effects > 0])
        once = fixed_shown(values)
        fixed_wrong.append(once[effects == 0].any())
        fixed_power.append(once[effects > 0])
    said = f"wrong {np.mean(wrong):.3f} (fixed {np.mean(fixed_wrong):.3f})"
    if (effects > 0).any():
        said += f"   excluded {np.mean(excluded):.3f}   shown {np.mean(power):.2f} (fixed {np.mean(fixed_power):.2f})"
    return f"{said}   pairs {np.mean(pairs):.1f} (fixed {FIXED})"


def chosen(random: np.random.Generator, looks: tuple[int, ...], exponent: float, draws: int) -> str:
    """Return power and pairs of one row, for effects of 0, .5, 1 and 2, with these looks and this spending."""
    sequential.SPENDING = exponent
    sequential.t_bounds.cache_clear()
    plan, parts = Plan(looks), []
    for effect in (0.0, 0.5, 1.0, 2.0):
        drawn = effect + random.standard_normal((draws, looks[-1]))
        found = [decide({"": Row(x, margin=1.0)}, plan)[""] for x in drawn]
        shown = np.mean([one.word == "shown" for one in found])
        parts.append(f"{effect:g}: {shown:.2f} {np.mean([one.pairs for one in found]):.1f}")
    first = [plan.first_look(rows) for rows in (1, 4, 9)]
    return f"looks {looks} exponent {exponent:g}   {'   '.join(parts)}   first shown with 1, 4, 9 rows: {first}"


def by_adastop(random: np.random.Generator, kind: str, effect: float, draws: int) -> str:
    """Return how often AdaStop (Mathieu et al. 2024) finds the method with the effect larger, and the runs of each.

    Without an effect, how often it finds any difference, for which it promises .05.

    Five runs of each method at a look, at most four looks, two-sided at .05. It does not use pairs, so the noise of two
    runs of a pair is drawn for it here as of one standard deviation of their change.
    """
    from adastop import MultipleAgentsComparator

    larger, runs = 0, []
    for _ in range(draws):
        values = noise(random, kind, (2, 20)) * 0.5**0.5 + np.array([[effect], [0.0]])
        found = MultipleAgentsComparator(n=5, K=4, B=2000, alpha=2 * LEVEL, seed=int(random.integers(2**31)))
        for look in range(1, found.K + 1):
            found.partial_compare({"a": values[0, : 5 * look], "b": values[1, : 5 * look]}, verbose=False)
            if found.is_finished:
                break
        larger += "larger" in found.decisions.values() or (not effect and "smaller" in found.decisions.values())
        runs.append(5 * look)
    return f"larger {larger / draws:.3f}   runs of each {np.mean(runs):.1f} (at most 20)"


def by_t(effect: float, pairs: float) -> float:
    """Return the power of a paired t-test with so many pairs, rounded up, at `LEVEL`."""
    from scipy.special import nctdtr, stdtrit

    n = int(np.ceil(pairs))
    return 1 - float(nctdtr(n - 1, effect * n**0.5, stdtrit(n - 1, 1 - LEVEL)))


def beside_others(random: np.random.Generator, claims: int) -> Iterator[str]:
    """Yield one row by looks, by a paired t-test with the same expected pairs, and by AdaStop where it is installed."""
    has_adastop = importlib.util.find_spec("adastop") is not None
    for kind, effect in (("normal", 0.0), ("tosses", 0.0), ("normal", 0.5), ("normal", 1.0), ("normal", 2.0)):
        values = effect + noise(random, kind, (claims, LOOKS[-1]))
        found = [decide({"": Row(x, margin=1.0)}, Plan())[""] for x in values]
        pairs = float(np.mean([one.pairs for one in found]))
        shown = np.mean([one.word == "shown" for one in found])
        line = f"{kind}, effect {effect:g}: looks {shown:.3f} ({pairs:.1f} pairs)"
        line += f"   paired t of as many pairs {by_t(effect, pairs):.3f}" if effect else ""
        if has_adastop:
            line += f"   AdaStop {by_adastop(random, kind, effect, max(claims // 10, 1))}"
        yield line
    if not has_adastop:
        yield "AdaStop: not installed (pip install -r requirements-bench.txt)"


def lines(claims: int) -> Iterator[str]:
    random = np.random.default_rng(12)
    yield f"judged at {', '.join(map(str, LOOKS))} pairs, no effect, any row shown (promised .025)"
    for rows in (1, 4, 9):
        for kind in KINDS:
            yield f"{rows} rows, {kind}: {measured(random, kind, ((0,) * rows, (1,) * rows), claims)}"
    yield "effects, in standard deviations of a change (excluded: promised .025)"
    for name, case in CASES.items():
        yield f"{name}: {measured(random, 'normal', case, claims)}"
    yield "one row beside others; promised without an effect .025, by AdaStop .05"
    yield from beside_others(random, claims)
    yield "choice of looks and spending, one row: effect: shown, pairs"
    kept = sequential.SPENDING
    for looks in CHOICES:
        for exponent in (1.0, 1.5, 2.0):
            yield chosen(random, looks, exponent, claims // 2)
    sequential.SPENDING = kept
    sequential.t_bounds.cache_clear()
