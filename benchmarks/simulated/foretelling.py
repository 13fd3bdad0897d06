"""Error rates of claims that an early measure predicts an outcome beyond a known one, or a signal predicts a gain.

`foretells`: 18 settings, 2 builds, 5 seeds. The outcome follows the known measure and a setting's own level. The kinds:

- `unrelated`: the measure is independent of both; settings differ in it;
- `copy`: the measure is the known one with noise, so it correlates with the outcome and adds nothing;
- `builds`: builds differ in measure and outcome, settings do not;
- `collapse`: half of the settings collapse in the outcome, and half of them in the measure;
- `uneven`: also unrelated, but some settings vary five times as much as others in all three (somewhat above .025);
- `families`: three families of 6 settings differ in measure and outcome, independently, and are named;
- `planted`: the measure contains part of the setting's own level;
- `two known`, `four known`: outcome and measure both follow two or four known measures, and settings have levels of
  their own in each, in three named families;
- `planted in two`: the same with two, and part of the setting's own level in the measure;
- `hidden`: one known measure, whose level moves outcome and measure, is itself measured with noise. The measure then
  does add to the prediction, so nothing is promised: what is known counts as it is measured.

`foretells_gain`: 24 starts of one to three settings each, 10 runs; settings of one start share the signal.

- `no gain`: settings gain at random, and those of one start alike;
- `few runs`: the same with 5 runs in half of the starts;
- `tasks 1`, `tasks 2`: starts lie in 4 tasks, which differ in signal and gain, independently, by 1 or 2 times the
  spread of starts; starts are permuted within tasks;
- `all alike`: `tasks 2` with all starts permuted, which promises nothing and which plat does not do;
- `gain`: the gain follows the signal;
- `gain in tasks`: the same in 4 tasks that differ by 2, permuted within tasks.

`foretells` uses 400 orders here instead of 2,000, for speed: its level is then one of 10 in 400.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plat_analysis.statistics import leads
from plat_analysis.statistics.correlation import between
from plat_analysis.statistics.intervals import Estimate
from plat_ragen2.precheck_estimates import Setting, starts

SETTINGS, BUILDS, SEEDS, STARTS, RUNS = 18, 2, 5, 24, 10
LEVEL = 0.025
SEVERAL = {"two known": 2, "four known": 4, "planted in two": 2}  # how many measures are known
FIRST = ("unrelated", "copy", "builds", "collapse", "uneven", "planted", "families")
KINDS = (*FIRST, *SEVERAL, "hidden")
GAINS = ("no gain", "few runs", "gain", "tasks 1", "tasks 2", "all alike", "gain in tasks")
TASKS = {"tasks 1": 1.0, "tasks 2": 2.0, "all alike": 2.0, "gain in tasks": 2.0}  # spread of tasks
FOUND = ("planted", "planted in two", "gain", "gain in tasks")
REMARKS = dict.fromkeys(FOUND, "   planted") | dict.fromkeys(("all alike", "hidden"), "   nothing promised")
NAMED = ("families", *SEVERAL)
FAMILIES = np.repeat(np.arange(3), SETTINGS // 3)
Runs = NDArray[np.float64]  # [setting, build, seed]


def draw(random: np.random.Generator, kind: str) -> tuple[Runs, Runs, Runs]:
    """Return the measure, the known measure (or several, in front) and the outcome of every run."""
    if kind in SEVERAL:
        return draw_several(random, SEVERAL[kind], planted=kind in FOUND)
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
    elif kind == "families":
        apart = 2 * random.standard_normal((2, 3))[:, FAMILIES][..., None, None]
        measure, outcome = measure + apart[0], outcome + apart[1]
    elif kind == "planted":
        measure = levels[2] + 0.5 * noise[1]
    elif kind == "hidden":
        known, measure, outcome = (levels[0] + noise[each] for each in range(3))
    return measure, known, outcome


def draw_several(random: np.random.Generator, count: int, planted: bool) -> tuple[Runs, Runs, Runs]:
    """Return the measure, `count` known measures [known, setting, build, seed] and the outcome, which follow these."""
    noise = random.standard_normal((count + 2, SETTINGS, BUILDS, SEEDS))
    levels = random.standard_normal((count + 2, SETTINGS, 1, 1))
    apart = 2 * random.standard_normal((2, 3))[:, FAMILIES][..., None, None]
    known = levels[2:] + 0.5 * noise[2:]
    measure = known.sum(axis=0) + apart[0] + (levels[1] if planted else levels[0]) + 0.5 * noise[0]
    outcome = known.sum(axis=0) + apart[1] + levels[1] + noise[1]
    return measure, known, outcome


def settings(random: np.random.Generator, kind: str) -> dict[str, Setting]:
    """Return settings with their signal and gain for each run; settings of one start have the same signal."""
    found = {}
    of_tasks = TASKS.get(kind, 0.0) * random.standard_normal((2, 4))
    for start in range(STARTS):
        task = start % 4
        runs = RUNS // 2 if kind == "few runs" and start % 2 else RUNS
        own = random.standard_normal() + 0.3 * random.standard_normal(runs)
        signal = own + of_tasks[0, task]
        shared = random.standard_normal() + of_tasks[1, task] + (2 * own.mean() if kind in FOUND else 0.0)
        for number in range(1 + start % 3):
            gain = shared + 0.5 * random.standard_normal() + random.standard_normal(runs)
            values = np.array([signal, gain])
            family = frozenset({str(task) if kind in TASKS else ""})
            found[f"{start} {number}"] = Setting({}, Estimate(), values, family)
    return found


def p_value(random: np.random.Generator, kind: str) -> float:
    """Return the p-value of the claim that the measure adds to the known one, or that gains follow the signal."""
    if kind in GAINS:
        values, families = starts(settings(random, kind))
        return between(*values, families=None if kind == "all alike" else families).above
    return leads.foretell(*draw(random, kind), families=FAMILIES if kind in NAMED else None).p


def share(kind: str, claims: int) -> float:
    """Return the share of claims that are shown."""
    random = np.random.default_rng([14, (*FIRST, *GAINS, *KINDS[len(FIRST) :]).index(kind)])
    return float(np.mean([p_value(random, kind) <= LEVEL for _ in range(claims)]))


def lines(claims: int) -> Iterator[str]:
    leads.ORDERS = 400
    yield "claims that something is foretold; promised: at most .025 are shown where nothing is planted"
    yield "check            kind            shown"
    for check, kinds in (("foretells", KINDS), ("foretells_gain", GAINS)):
        for kind in kinds:
            yield f"{check:16} {kind:13} {share(kind, claims):8.3f}{REMARKS.get(kind, '')}"
