"""Error rates of claims over builds of the base model: about these builds, and about all builds.

`shift`: the builds' true changes differ by 3 points, with mean zero over these builds (fixed) or over all builds
(random); runs differ by 3 points more. `tosses`: every run collapses or not, as in `simulated.claims`. `builds toss`:
all runs of a build collapse, or none. Three builds then agree by chance in one case of four, so they are too few for a
verdict about all builds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plat_analysis.claims.decided import RowEvidence, decide_rows
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

KINDS = ("shift", "tosses", "builds toss")


def draw(random: np.random.Generator, kind: str, builds: int, seeds: int, about: Builds) -> Estimate:
    """Return the change of one row without any effect, of builds crossed with seeds."""
    noise = 3.0 * random.standard_normal((builds, seeds))
    if kind == "shift":
        of_builds = 3.0 * random.standard_normal((builds, 1))
        changes = noise + of_builds - (of_builds.mean() if about == "fixed" else 0.0)
    elif kind == "tosses":
        changes = noise + 25.0 * random.choice([-1, 1], (builds, seeds))
    else:
        changes = noise + 25.0 * random.choice([-1, 1], (builds, 1))
    values = {Replicate(b, s): float(changes[b, s]) for b in range(builds) for s in range(seeds)}
    return over_replicates(values, builds=about, wanted=len(values))


def held(kind: str, builds: int, seeds: int, about: Builds, claims: int) -> tuple[float, float]:
    """Return the share of claims called shown, and the share whose 95 % interval misses zero."""
    random = np.random.default_rng([6, builds, seeds, KINDS.index(kind)])
    estimates = [draw(random, kind, builds, seeds, about) for _ in range(claims)]
    reproduced = [decide_rows({"row": RowEvidence(estimate)}).status == "shown" for estimate in estimates]
    missed = [estimate.low is not None and not estimate.low <= 0 <= (estimate.high or 0.0) for estimate in estimates]
    return float(np.mean(reproduced)), float(np.mean(missed))


CASES: list[tuple[str, int, int, Builds]] = [
    ("shift", 2, 5, "fixed"),
    ("tosses", 2, 5, "fixed"),
    ("tosses", 2, 3, "fixed"),
    ("shift", 3, 5, "random"),
    ("shift", 5, 5, "random"),
    ("tosses", 5, 5, "random"),
    ("builds toss", 3, 5, "random"),
    ("builds toss", 5, 5, "random"),
]


def lines(claims: int) -> Iterator[str]:
    yield "claims over builds, no effect: reproduced (promised .025; .031 where five toss), and intervals that miss"
    for kind, builds, seeds, about in CASES:
        reproduced, missed = held(kind, builds, seeds, about, claims)
        yield f"{about:7} {builds} builds x {seeds} seeds, {kind:12} {reproduced:.3f}   {missed:.3f}"
