"""Error rates of claims whose runs violate what the tests assume; the mean change is zero, and the rates are measured.

Student's t and sign flips assume changes that are symmetric about their mean, and runs that are independent.

    symmetric     normal changes: what is promised
    both collapse  one of ten runs of either condition collapses, by 25 points
    gains         the baseline collapses in one of ten runs, and the treatment never: a rare large gain
    losses        the treatment gains 2.5 points, and loses 22.5 in one of ten runs. Not promised: of five runs 59 %
                  show no loss, and of ten 35 %; no test can know of it. Below `significance.OWN_SPREAD` pairs other
                  rows that show one protect a row without; from then on each row is on its own
    lognormal     changes are minus a lognormal number, about its mean. Not promised, for the same reason
    seeds 60 %, seeds 90 %  all builds share this part of the variance of a seed's change. Not promised, except for
                  builds that are `random`: their seeds are crossed with builds

`warned`: the verdict prints the median and the largest loss or gain, or that changes of one seed agree across builds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.claims.decided import RowEvidence, decide_rows
from plat_analysis.claims.engine import Verdict
from plat_analysis.statistics.replicates import Builds, Replicate, over_replicates

Changes = NDArray[np.float64]  # [build, seed], in points


def draw(random: np.random.Generator, kind: str, builds: int, seeds: int) -> Changes:
    """Return the changes of one row."""
    shape = builds, seeds
    noise = random.standard_normal(shape)
    if kind.startswith("seeds"):
        share = float(kind.split()[1]) / 100
        return 3.0 * (share**0.5 * random.standard_normal((1, seeds)) + (1 - share) ** 0.5 * noise)
    if kind == "lognormal":
        return np.asarray(3.0 * (np.exp(0.5) - np.exp(noise)))
    collapses = {"both collapse": (0.1, 0.1), "gains": (0.1, 0.0), "losses": (0.0, 0.1)}.get(kind, (0.0, 0.0))
    of_baseline, of_treatment = (25.0 * (random.random(shape) < share) for share in collapses)
    return np.asarray(noise + of_baseline - of_treatment - 25.0 * (collapses[0] - collapses[1]))


def verdict(random: np.random.Generator, kind: str, rows: int, builds: int, seeds: int, about: Builds) -> Verdict:
    """Return the verdict on a claim about `rows` rows of this kind."""
    evidence = {}
    for row in range(rows):
        changes = draw(random, kind, builds, seeds)
        values = {Replicate(b, s): float(changes[b, s]) for b in range(builds) for s in range(seeds)}
        evidence[str(row)] = RowEvidence(over_replicates(values, builds=about, wanted=len(values)))
    return decide_rows(evidence)


def shares(kind: str, rows: int, builds: int, seeds: int, about: Builds, claims: int) -> tuple[float, float]:
    """Return the share of claims called shown, in all or some rows, and the share of claims that warn."""
    random = np.random.default_rng([12, KINDS.index(kind), rows, builds, seeds])
    verdicts = [verdict(random, kind, rows, builds, seeds, about) for _ in range(claims)]
    wrong = [found.status in ("shown", "shown_in_part") for found in verdicts]
    warned = ["; median " in found.detail or "agree across builds" in found.detail for found in verdicts]
    return float(np.mean(wrong)), float(np.mean(warned))


SYMMETRIC = ("symmetric", "both collapse", "gains")
COMMON = ("seeds 60 %", "seeds 90 %")
KINDS = (*SYMMETRIC, "losses", "lognormal", *COMMON)
SHAPES: list[tuple[int, int, int, Builds]] = [  # rows, builds, seeds
    (1, 1, 5, "fixed"),
    (4, 1, 5, "fixed"),
    (1, 2, 5, "fixed"),
    (4, 2, 5, "fixed"),
    (1, 1, 20, "fixed"),
    (1, 6, 5, "random"),
]


def promised(kind: str, about: Builds) -> bool:
    """Return True if the error is promised to be at most 2.5 %."""
    return kind in SYMMETRIC or (kind in COMMON and about == "random")


def lines(claims: int) -> Iterator[str]:
    yield "claims whose mean change is zero, called shown in some row (promised .025, except in ( )), and warned"
    yield f"{'rows x builds x seeds':18}" + "".join(f"{kind:>16}" for kind in KINDS)
    for rows, builds, seeds, about in SHAPES:
        cells = []
        for kind in KINDS:
            if builds == 1 and kind in COMMON:
                cells.append("")
                continue
            wrong, warned = shares(kind, rows, builds, seeds, about, claims)
            cells.append(f"{wrong:.3f} {warned:.2f}" if promised(kind, about) else f"({wrong:.3f}) {warned:.2f}")
        yield f"{rows} x {builds} x {seeds:2} {about:8}" + "".join(f"{cell:>16}" for cell in cells)
