"""Decide rows of a claim at planned looks while pairs are added, with one error over all looks and all rows.

A row has one value for each pair of runs, which share build and seed. It is *shown* at the first look where both of
these tests cross their boundary: Student's t, and sign flips of the values (Fisher's randomisation). Each is a
group-sequential test that has spent `level` (n / N)**`SPENDING` of its error after n of at most N pairs (an
error-spending function as in Kim and DeMets 1987). Holm's procedure holds the error over rows: a row is tested at
`level` divided by the number of rows that are not shown yet, and a row that is shown passes its share on at the same
look (Ye et al. 2013). The share of a row that was stopped is not passed on.

A row with a margin stops undecided if an effect of that size is unlikely: the upper bound of the mean, at an error of
`STOP_ERROR`, is below the margin. Errors hold whether or not a row stops.

The errors assume that pairs are independent, and that changes are symmetric about the bound. Each of the three words
*shown*, *contradicted* and *not of this size* has its own error of `level`.

All functions are pure: they read no store and draw no random numbers. A decision is replayed from the values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plat.spec.expansion.decide import APART, LEAST, LOOKS
from plat_analysis.statistics.significance import ERROR

SPENDING = 1.5  # exponent; with 2, eight pairs of 27 can show nothing: .0022 is below 1 / 2**8
STOP_ERROR = 0.10
CELLS, NODES, POINTS = 400, 48, 4001  # of the recursion: cells of the statistic, nodes of B, points of a table
STEPS = 4096  # values are rounded to this many steps of the largest one before their signs are flipped

Array = NDArray[np.float64]
Word = Literal["shown", "contradicted", "not of this size", "open"]


@dataclass(frozen=True)
class Plan:
    """Hold what is fixed before the first run.

    Attributes:
        looks: pairs at each look, rising; the last is the most.
        level: one-sided error over all looks and rows.

    Raises:
        ValueError: looks do not begin at `LEAST` or above, or are less than `APART` apart.
    """

    looks: tuple[int, ...] = LOOKS
    level: float = ERROR / 2

    def __post_init__(self) -> None:
        if not self.looks or self.looks[0] < LEAST or any(b - a < APART for a, b in pairwise(self.looks)):
            raise ValueError(f"looks must rise from {LEAST} or more, by at least {APART}, not {list(self.looks)}")

    def first_look(self, rows: int) -> int | None:
        """Return the pairs of the first look at which a row can be shown while `rows` rows are not; None if never.

        The least p-value of n sign flips is 2**-n.
        """
        spent = spending(self.looks, self.level / rows)
        return next((n for n, most in zip(self.looks, spent, strict=True) if 0.5**n <= most), None)


@dataclass(frozen=True)
class Row:
    """Hold the values of a row and what is claimed of their mean.

    Attributes:
        values: one for each pair, in the order in which pairs were planned.
        margin: the smallest effect of interest, from each bound on; 0 if none, and then the row never stops open.
        sides: (sign, bound): the mean is claimed to be above the bound (sign +1), or below it (-1); all of them.
        is_whole: no further value can come, for example because a run ended without one.
    """

    values: Sequence[float]
    margin: float = 0.0
    sides: tuple[tuple[int, float], ...] = ((1, 0.0),)
    is_whole: bool = False

    def beyond(self, pairs: int) -> list[Array]:
        """Return for each side how far the first `pairs` values are beyond its bound; claimed to be above zero."""
        x = np.asarray(self.values[:pairs], float)
        return [sign * (x - bound) for sign, bound in self.sides]


@dataclass(frozen=True)
class Decision:
    """Hold what is known of a row.

    Attributes:
        word: `shown`, `contradicted` (the opposite is shown), `not of this size` (the margin is excluded) or `open`.
        pairs: how many were used, those of its last look; 0 before the first.
        ended: False while the row needs more pairs.
        is_short: the row ended undecided before its next look, because no further value can come.
        mean: of the used values.
        low, high: repeated confidence interval of the mean (95 % over all looks), which allows for stopping.
    """

    word: Word = "open"
    pairs: int = 0
    ended: bool = False
    is_short: bool = False
    mean: float = float("nan")
    low: float = float("-inf")
    high: float = float("inf")


def decide(rows: Mapping[str, Row], plan: Plan) -> dict[str, Decision]:
    """Return the decision on each row, by replaying all looks for which the rows that go on have enough pairs.

    A row that needs more pairs has `ended` False. One that cannot have them is left out; its share of the error stays.
    """
    found = {name: Decision() for name in rows}
    for count, last in enumerate(plan.looks, 1):
        for name, row in rows.items():
            if not found[name].ended and row.is_whole and len(row.values) < last:
                found[name] = replace(found[name], ended=True, is_short=True)
        going = {name: rows[name] for name, decision in found.items() if not decision.ended}
        if any(len(row.values) < last for row in going.values()):
            break
        test = _Look(plan.looks[:count], plan)
        beyond = {name: row.beyond(last) for name, row in going.items()}
        shown = test.crossing(beyond, _left(found, "shown"), all)
        rest = {name: sides for name, sides in beyond.items() if name not in shown}
        against = {name: [-x for x in sides] for name, sides in rest.items()}
        contradicted = test.crossing(against, _left(found, "contradicted"), any)
        missing = {name: [rows[name].margin - x for x in sides] for name, sides in rest.items() if rows[name].margin}
        small = test.crossing(missing, _left(found, "not of this size"), any)
        for name, row in going.items():
            words: list[tuple[Word, set[str]]] = [("shown", shown), ("contradicted", contradicted)]
            words.append(("not of this size", small))
            word: Word = next((word for word, those in words if name in those), "open")
            bounds = [upper_bound(x, test.looks, test.most, STOP_ERROR) for x in beyond[name]]
            stops = row.margin > 0 and min(bounds) < row.margin
            x = np.asarray(row.values[:last], float)
            mean, high = float(x.mean()), upper_bound(x, test.looks, test.most, plan.level)
            ended = word != "open" or stops or last == test.most
            found[name] = Decision(word, last, ended, mean=mean, low=2 * mean - high, high=high)
    return found


def _left(found: Mapping[str, Decision], word: Word) -> int:
    """Return the number of rows that share the error of a family: those that do not have its word yet."""
    return sum(decision.word != word for decision in found.values())


@dataclass(frozen=True)
class _Look:
    """Hold the looks until now, and the plan."""

    looks: tuple[int, ...]
    plan: Plan

    @property
    def most(self) -> int:
        return self.plan.looks[-1]

    def crossing(
        self, rows: Mapping[str, Sequence[Array]], left: int, needed: Callable[[Iterable[bool]], bool]
    ) -> set[str]:
        """Return the rows that cross; each passes its share of the error on to the others.

        A row crosses if all of its sides do, or any of them (`needed`). With `any`, the sides divide the error.

        Args:
            rows: name -> the values of each side.
            left: how many rows share the error of the family.
        """

        def parts(sides: Sequence[Array]) -> int:
            return 1 if needed is all else len(sides)

        found: set[str] = set()
        while left > len(found):
            level = self.plan.level / (left - len(found))
            new = {
                name
                for name, sides in rows.items()
                if name not in found
                and needed(
                    crossed(x, self.looks, self.most, level / (1 if needed is all else len(sides))) for x in sides
                )
            }
            if not new:
                break
            found |= new
        return found


def crossed(values: Sequence[float] | Array, looks: Sequence[int], most: int, level: float) -> bool:
    """Return True if the values are shown to be above zero at the last of `looks`, by both tests.

    Args:
        values: as many as the last look.
        looks: pairs at the looks until now.
        most: pairs at the last planned look.
        level: one-sided error over all planned looks.
    """
    x = np.asarray(values, float)
    return t_statistic(x) >= t_bounds(tuple(looks), most, level)[-1] and flips_cross(x, looks, most, level)


def upper_bound(values: Array, looks: Sequence[int], most: int, level: float) -> float:
    """Return the repeated upper confidence bound of the mean at the last of `looks`, by Student's t."""
    error = float(values.std(ddof=1)) / len(values) ** 0.5
    return float(values.mean() + t_bounds(tuple(looks), most, level)[-1] * error)


def t_statistic(values: Array) -> float:
    """Return Student's t of the mean; infinite where values are equal and not zero, 0 where all are zero."""
    mean, error = float(values.mean()), float(values.std(ddof=1)) / len(values) ** 0.5
    if error <= 1e-12 * abs(mean):
        return float(np.sign(mean)) * float("inf") if mean else 0.0
    return float(mean / error)


def spending(looks: Sequence[int], level: float, most: int | None = None) -> list[float]:
    """Return the error that may be spent after each look: level (n / N)**SPENDING, N = `most` or the last look."""
    return [level * (n / (most or looks[-1])) ** SPENDING for n in looks]


def expected_pairs(plan: Plan, rows: int, effect: float, draws: int = 400) -> float:
    """Return the mean pairs of a row, for normal values, simulated with a fixed seed.

    Args:
        plan: looks and level.
        rows: rows of the claim; every one has the effect.
        effect: true mean of the values in units of the margin, which is also their standard deviation.
        draws: simulated claims.
    """
    random, pairs = np.random.default_rng(rows), []
    for _ in range(draws // rows + 1):
        values = effect + random.standard_normal((rows, plan.looks[-1]))
        found = decide({str(at): Row(x, margin=1.0) for at, x in enumerate(values)}, plan)
        pairs += [decision.pairs for decision in found.values()]
    return float(np.mean(pairs))


# Boundaries of Student's t, by numerical recursion over looks (Armitage, McPherson and Rowe 1969, for t).
#
# Let S be the sum of n normal values with mean zero and Q their sum of squares. u = S / √Q is t in other words:
# t = √(n-1) tan θ with sin θ = u / √n. With m further values, u' = √B u + √(1-B) v. B ~ Beta(n/2, m/2) is the share
# of Q in the new sum of squares, v is the u of the m new values, and u, B, v are independent: a Markov chain. The
# probability of each cell of θ is carried from look to look, without the part that has crossed.


@lru_cache(maxsize=256)
def t_bounds(looks: tuple[int, ...], most: int, level: float) -> tuple[float, ...]:
    """Return the boundary of t at each look: the probability to have crossed by then is that of `spending`.

    The values are normal with a mean of zero. Exact but for the grid: relative error below 10⁻³.
    """
    from scipy.interpolate import PchipInterpolator
    from scipy.special import stdtr, stdtrit

    spent = spending(looks, level, most)
    edges = np.linspace(-np.pi / 2, np.pi / 2, CELLS + 1)
    first = looks[0]
    bounds = [-float(stdtrit(first - 1, spent[0]))]
    with np.errstate(invalid="ignore"):
        below = stdtr(first - 1, np.tan(edges) * (first - 1) ** 0.5)
    below[0], below[-1] = 0.0, 1.0
    mass = _kept(np.diff(below), edges, bounds[0], first)
    for (before, now), (already, until) in zip(pairwise(looks), pairwise(spent), strict=True):
        above = mass @ _survival(before, now - before)  # above[j]: probability that the new θ is at least edges[j]
        falling = PchipInterpolator(edges, above)
        low, high = 0.0, np.pi / 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if falling(middle) > until - already else (low, middle)
        bounds.append(float(np.tan(high)) * (now - 1) ** 0.5)
        mass = _kept(-np.diff(above), edges, bounds[-1], now)
    return tuple(bounds)


def _kept(mass: Array, edges: Array, bound: float, count: int) -> Array:
    """Return the mass of each cell below the boundary; the cell that contains it keeps its part."""
    at = np.arctan(bound / (count - 1) ** 0.5)
    return np.asarray(mass * np.clip((at - edges[:-1]) / np.diff(edges), 0.0, 1.0), np.float64)


@lru_cache(maxsize=64)
def _survival(count: int, more: int) -> Array:
    """Return [cell of θ after `count` values, edge]: P(θ after `more` further values is at least the edge)."""
    from scipy.special import betainc, roots_jacobi

    nodes, weights = roots_jacobi(NODES, more / 2 - 1, count / 2 - 1)
    share, weights = (nodes + 1) / 2, weights / weights.sum()
    edges = np.linspace(-np.pi / 2, np.pi / 2, CELLS + 1)
    u = count**0.5 * np.sin((edges[:-1] + edges[1:]) / 2)
    bound = (count + more) ** 0.5 * np.sin(edges)
    points = np.linspace(-np.pi / 2, np.pi / 2, POINTS)  # P(v >= √more sin point): half of a beta tail on each side
    half = 0.5 * betainc(0.5, (more - 1) / 2, np.sin(points) ** 2)
    table = 0.5 - np.sign(points) * half
    found = np.zeros((CELLS, CELLS + 1))
    for part, weight in zip(share, weights, strict=True):
        needed = (bound[None, :] - part**0.5 * u[:, None]) / ((1 - part) * more) ** 0.5
        found += weight * np.interp(np.arcsin(np.clip(needed, -1.0, 1.0)), points, table)
    return found


def flips_cross(values: Sequence[float] | Array, looks: Sequence[int], most: int, level: float) -> bool:
    """Return True if the sum of the values crosses the boundary of sign flips at the last of `looks`.

    The boundary at each look is the least sum for which the share of sign vectors that have crossed by then is at most
    that of `spending`; what a look could not spend, since shares are discrete, the next may. The shares are exact for
    the values rounded to `STEPS` steps of the largest so far, and so is the test if values are symmetric about zero and
    do not grow thousandfold between looks.
    """
    x = np.asarray(values, float)
    largest = float(np.abs(x).max(initial=0.0))
    if not largest:
        return False
    steps = np.rint(x / largest * STEPS).astype(int)
    total = int(np.abs(steps).sum())
    share = np.zeros(2 * total + 1)  # share[total + s]: sign vectors with sum s that have not crossed
    share[total] = 1.0
    used, done, at = 0.0, 0, 2 * total + 1
    for look, most_spent in zip(looks, spending(looks, level, most), strict=True):
        for step in np.abs(steps[done:look]):
            share = (np.roll(share, step) + np.roll(share, -step)) / 2
        done = look
        above = np.cumsum(share[::-1])[::-1]
        at = int(np.searchsorted(-above, -(most_spent - used) * (1 + 1e-9)))
        used += float(above[at]) if at < len(above) else 0.0
        share[at:] = 0.0
    return bool(total + int(steps.sum()) >= at)
