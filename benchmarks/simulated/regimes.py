"""Error rates of the regimes of a run's end, near the limits of their rule: runs with planted levels of retrieval.

A probe has 64 blocks of 8 reasonings. `between blocks` is the standard deviation of the level between blocks, because
some prompts are easier to tell apart than others. Runs keep their moves and success, and speak fluently unless a line
says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

import numpy as np

from plat_ragen2.regimes.probe_tables import Behaviour, Probe
from plat_ragen2.regimes.regime import (
    COLLAPSED,
    COMPRESSED,
    DEFAULTS,
    DIVERSE,
    FELL_LOW,
    TEMPLATE,
    Thresholds,
    regime,
)

BLOCKS, SIZE, VOCABULARY = 64, 8, 37
LANGUAGES = (DIVERSE, COMPRESSED)
ASKED = Thresholds(high=0.7)


@dataclass(frozen=True)
class Planted:
    """The planted levels of a line's runs, and the promised share of runs with one of `words`."""

    name: str
    early: tuple[float, ...]
    final: float
    words: tuple[str, ...]
    promised: str
    between_blocks: float = 0.0
    fluent: float = 0.98
    limits: Thresholds = DEFAULTS


CASES = [
    Planted("ends where it began, 11 early probes", (0.4,) * 11, 0.4, COLLAPSED, "at most .001"),
    Planted("began within its null, at .22", (0.22,), 0.125, COLLAPSED, "at most .001"),
    Planted("11 early probes at the edge of the null", (0.225,) * 11, 0.125, COLLAPSED, "at most .001"),
    Planted("ends at the edge of the null", (0.9,), 0.225, COLLAPSED, "at most .025"),
    Planted("the same, .1 between blocks", (0.9,), 0.225, COLLAPSED, "at most .025", between_blocks=0.1),
    Planted("fell to chance", (0.9,), 0.125, (TEMPLATE,), "power"),
    Planted("fell to chance + .025", (0.9,), 0.15, (TEMPLATE,), "power"),
    Planted("the same, .1 between blocks", (0.9,), 0.15, (TEMPLATE,), "power", between_blocks=0.1),
    Planted("nothing parses, retrieval .82", (0.9,), 0.82, LANGUAGES, "none", fluent=0.0),
    Planted("nothing parses, retrieval .29", (0.9,), 0.29, LANGUAGES, "none", fluent=0.0),
    Planted("fell from .5, .7 asked for", (0.5,), 0.125, COLLAPSED, "at most .001", limits=ASKED),
    Planted("the same, called a fall from a low level", (0.5,), 0.125, (FELL_LOW,), "power", limits=ASKED),
    Planted("fell from .9, .7 asked for", (0.9,), 0.125, (TEMPLATE,), "power", limits=ASKED),
]


def probe(random: np.random.Generator, level: float, between_blocks: float = 0.0, fluent: float = 0.98) -> Probe:
    of_block = np.clip(level + between_blocks * random.standard_normal(BLOCKS), 0, 1)
    found, spoken = random.binomial(SIZE, of_block) / SIZE, random.binomial(SIZE, fluent, BLOCKS) / SIZE
    return Probe(0, SIZE, found, spoken, 1.4 + 0.1 * random.standard_normal(BLOCKS))


def share(case: Planted, runs: int) -> float:
    """Return the share of simulated runs whose regime is one of the case's words."""
    random = np.random.default_rng([7, CASES.index(case)])
    counted = 0
    for _ in range(runs):
        early = [probe(random, level, case.between_blocks) for level in case.early]
        final = probe(random, case.final, case.between_blocks, case.fluent)
        kept = Behaviour(0, (random.random(256) < 0.5).astype(float), random.binomial(5, 0.4, (256, 4)).mean(axis=1))
        counted += regime(early, final, kept, kept, log(VOCABULARY), case.limits).name in case.words
    return counted / runs


def lines(runs: int) -> Iterator[str]:
    yield "how a run ended                             called                 share   promised"
    for case in CASES:
        words = "any collapse" if case.words == COLLAPSED else " or ".join(case.words)
        yield f"{case.name:42}  {words:21}  {share(case, runs):.3f}   {case.promised}"
