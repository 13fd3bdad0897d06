"""Error rates of claims that an early measure predicts an outcome beyond a known one, or a signal predicts a gain.

`foretells`: 18 settings, 2 builds, 5 seeds. The outcome follows the known measure and a setting's own level. The kinds:

- `unrelated`: the measure is independent of both; settings differ in it;
- `copy`: the measure is the known one with noise, so it correlates with the outcome and adds nothing;
- `builds`: builds differ in measure and outcome, settings do not;
- `collapse`: half of the settings collapse in the outcome, and half of them in the measure;
- `uneven`: also unrelated, but some settings vary five times as much as others in all three (somewhat above .025);
- `planted`: the measure contains part of the setting's own level.

`foretells_gain`: 24 starts of one to three settings each, 10 runs; settings of one start share the signal.

- `no gain`: settings gain at random, and those of one start alike;
- `few runs`: the same with 5 runs in half of the starts;
- `gain`: the gain follows the signal.

`foretells` uses 400 orders here instead of 2,000, for speed: its level is then one of 10 in 400.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics import leads
from plat_analysis.statistics.correlation import between
from plat_analysis.statistics.intervals import Estimate
from plat_ragen2.precheck_estimates import Setting, arrays

SETTINGS, BUILDS, SEEDS, STARTS, RUNS = 18, 2, 5, 24, 10
LEVEL = 0.025
KINDS = ("unrelated", "copy", "builds", "collapse", "uneven", "planted")
GAINS = ("no gain", "few runs", "gain")
FOUND = ("planted", "gain")
Runs = NDArray[np.float64]  # [setting, build, seed]


def draw(random: np.random.Generator, kind: str) -> tuple[Runs, Runs, Runs]:
    """Return the measure, the known measure and the outcome of every run."""
    noise = random.standard_normal((3, SETTINGS, BUILDS, SEEDS))
    levels = random.standard_normal((3, SETTINGS, 1, 1))
    if kind == "uneven":
        wild = np.where(np.arange(SETTINGS) % 3 == 0, 5.0, 1.0)[:, None, None]
        levels, noise = wild * levels, wild * noise
    known = levels[0] + 0.5 * noise[0]
    measure = levels[1] + 0.5 * noise[1]
    outcome = known + levels[2] + noise[2]
    if kind == "copy":
        measure = known + 0.5 * noise[1]
    elif kind == "builds":
        of_builds = 3 * random.standard_normal((2, 1, BUILDS, 1))
        measure, outcome = of_builds[0] + noise[1], of_builds[1] + known + noise[2]
    elif kind == "collapse":
        measure = 10.0 * (levels[1] > 0) + noise[1]
        outcome = known + 10.0 * (levels[2] > 0) + noise[2]
    elif kind == "planted":
        measure = levels[2] + 0.5 * noise[1]
    return measure, known, outcome


def settings(random: np.random.Generator, kind: str) -> dict[str, Setting]:
    """Return settings with their signal and gain for each run; settings of one start have the same signal."""
    found = {}
    for start in range(STARTS):
        runs = RUNS // 2 if kind == "few runs" and start % 2 else RUNS
        signal = random.standard_normal() + 0.3 * random.standard_normal(runs)
        shared = random.standard_normal() + (2 * signal.mean() if kind == "gain" else 0.0)
        for number in range(1 + start % 3):
            gain = shared + 0.5 * random.standard_normal() + random.standard_normal(runs)
            values = np.array([signal, gain])
            found[f"{start} {number}"] = Setting({}, Estimate(), values)
    return found


def p_value(random: np.random.Generator, kind: str) -> float:
    """Return the p-value of the claim that the measure adds to the known one, or that gains follow the signal."""
    if kind in GAINS:
        return between(*arrays(settings(random, kind))[:2]).above
    return leads.foretell(*draw(random, kind)).p


def share(kind: str, claims: int) -> float:
    """Return the share of claims that are shown."""
    random = np.random.default_rng([14, (*KINDS, *GAINS).index(kind)])
    return float(np.mean([p_value(random, kind) <= LEVEL for _ in range(claims)]))


def lines(claims: int) -> Iterator[str]:
    leads.ORDERS = 400
    yield "claims that something is foretold; promised: at most .025 are shown where nothing is planted"
    yield "check            kind         shown"
    for check, kinds in (("foretells", KINDS), ("foretells_gain", GAINS)):
        for kind in kinds:
            yield f"{check:16} {kind:10} {share(kind, claims):8.3f}{'   planted' if kind in FOUND else ''}"
