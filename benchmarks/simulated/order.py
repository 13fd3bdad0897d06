"""Error rates of claims that one signal falls before another, if neither does: by the sign of the lag in 10 runs a row.

Each run has two curves over 30 iterations. Each curve falls by half around a random time. The kinds:

- `same`: both fall at one time, with one shape and noise of one size;
- `apart`: the times are independent, from one distribution;
- `noisier`: the noise of the first is three times that of the second;
- `slower`: the first falls over 12 iterations, the second over 2, around the same middle;
- `onset`: the same, but both begin to fall at the same iteration;
- `planted`: the first falls 4 iterations earlier.

The check promises an error rate for the first two only: a change point marks the middle of a fall, as sharply as the
noise allows, so it cannot distinguish an order from another shape.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_ragen2.signals import fall, sign_test

RUNS, ITERATIONS, NOISE, LEAST = 10, 30, 0.12, 0.2
KINDS = ("same", "apart", "noisier", "slower", "onset", "planted")
REMARKS = {"same": "", "apart": "", "planted": "   found, if the check works"}
HELD = ("shown", "shown_in_part")
Curve = NDArray[np.float64]


def curve(random: np.random.Generator, middle: float, width: float = 2.0, noise: float = NOISE) -> Curve:
    """Return a fall from 1 to .5 in a straight line over `width` iterations around `middle`, with noise."""
    at = np.arange(1, ITERATIONS + 1)
    done = np.clip((at - middle) / width + 0.5, 0, 1)
    return np.asarray(1 - 0.5 * done + noise * random.standard_normal(ITERATIONS))


def run(random: np.random.Generator, kind: str) -> tuple[Curve, Curve]:
    """Return the curves of the signal claimed to fall first, and of the other."""
    middle = random.uniform(9, 22)
    if kind == "apart":
        return curve(random, middle), curve(random, random.uniform(9, 22))
    if kind == "noisier":
        return curve(random, middle, noise=3 * NOISE), curve(random, middle)
    if kind == "slower":
        return curve(random, middle, width=12), curve(random, middle)
    if kind == "onset":
        return curve(random, middle + 5, width=12), curve(random, middle)
    return curve(random, middle - 4 * (kind == "planted")), curve(random, middle)


def lag(first: Curve, then: Curve) -> int | None:
    """Return the iterations from the fall of the first to that of the other, as in `claims.falls_before`."""
    steps = np.arange(1, ITERATIONS + 1)
    falls = [fall(steps, values) for values in (first, then)]
    found = [one for one in falls if one is not None and one.share >= LEAST]
    return found[1].step - found[0].step if len(found) == 2 else None


def verdict(random: np.random.Generator, kind: str, rows: int) -> str:
    """Return the verdict on the claim that the first signal falls first in every row."""
    tests = {}
    for row in range(rows):
        lags = [found for _ in range(RUNS) if (found := lag(*run(random, kind))) is not None]
        before, after = sum(one > 0 for one in lags), sum(one < 0 for one in lags)
        enough = before + after >= MIN_JUDGED
        p = (sign_test(before, after), sign_test(after, before)) if enough else (None, None)
        tests[str(row)] = RowTests(*p, "")
    return decide(tests).status


def share(kind: str, rows: int, claims: int, words: tuple[str, ...] = HELD) -> float:
    """Return the share of claims whose verdict is one of `words`."""
    random = np.random.default_rng([12, KINDS.index(kind), rows])
    return float(np.mean([verdict(random, kind, rows) in words for _ in range(claims)]))


def lines(claims: int) -> Iterator[str]:
    yield f"claims that a signal falls first, over {RUNS} runs a row; promised .025 each way where said"
    yield "kind       rows   shown in all or some rows   against"
    for kind in KINDS:
        for rows in (1, 2):
            said, opposite = share(kind, rows, claims), share(kind, rows, claims, ("contradicted", "not_of_this_size"))
            remark = REMARKS.get(kind, "   not promised")
            yield f"{kind:10} {rows:4}   {said:21.3f}   {opposite:14.3f}{remark}"
