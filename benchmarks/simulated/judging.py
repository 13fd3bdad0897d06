"""`plat judge` on planted differences: false and true *better*, pairs, and a study of many judgements.

A pair is the difference of two runs, in its standard deviation. `normal`; `t(2)`, with heavy tails; `bimodal`: both
sides collapse in half of their runs. `fixed`: 20 pairs, paired Student's t. `keep if better`: one pair, whose sign
decides, as loops do that keep what scored better once.

A study has `STREAM` judgements. In `REAL` of them, chosen at random, the new version is better by `SIZE`. `false`: of
the versions that were kept, the share that is no better, 0 where none was kept; its mean is the false discovery rate.
`kept`: of the better versions, the share that was kept. Its levels are those of `plat_analysis.statistics.online`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from plat.app.judging.judgement_file import MOST, NO_MARGIN
from plat.spec.expansion.decide import looks_of
from plat_analysis.statistics.online import RATE, next_level
from plat_analysis.statistics.sequential import Decision, Plan, Row, decide
from simulated.sequential import LEVEL, by_t, noise

Array = NDArray[np.float64]
KINDS = {"normal": "normal", "t(2)": "t(2)", "bimodal": "lottery"}
STREAM, REAL, SIZE = 100, 10, 2.0
STREAMS = 20  # one study for so many loops of `--draws`


def judged(values: Array, level: float = LEVEL, margin: float = NO_MARGIN) -> Decision:
    """Return the decision on the pairs of a judgement, as `plat judge` comes to it."""
    return decide({"": Row(values, margin=margin)}, Plan(looks_of(MOST), level))[""]


def planted(random: np.random.Generator, kind: str, effect: float, margin: float, loops: int) -> str:
    """Return how often a difference is called better, and the pairs that this takes."""
    values = effect + noise(random, KINDS[kind], (loops, MOST))
    found = [judged(x, margin=margin) for x in values]
    better = np.mean([one.word == "shown" for one in found])
    pairs = np.mean([one.pairs for one in found])
    said = f"better {better:.3f}   pairs {pairs:.1f} (fixed {MOST})   keep if better {np.mean(values[:, 0] > 0):.3f}"
    return said + (f"   fixed t of {MOST} pairs {by_t(effect, MOST):.3f}" if effect and kind == "normal" else "")


def study(random: np.random.Generator, kind: str, keep: Callable[[Array, list[bool]], bool]) -> tuple[float, float]:
    """Return the share of false ones among those kept, and the share of real ones that is kept."""
    is_real = np.zeros(STREAM, bool)
    is_real[random.choice(STREAM, REAL, replace=False)] = True
    kept: list[bool] = []
    for real in is_real:
        kept.append(keep(SIZE * real + noise(random, KINDS[kind], (MOST,)), kept))
    chosen = np.array(kept)
    return float((chosen & ~is_real).sum() / max(chosen.sum(), 1)), float((chosen & is_real).sum() / REAL)


def lines(loops: int) -> Iterator[str]:
    random = np.random.default_rng(17)
    yield f"one judgement, at {', '.join(map(str, looks_of(MOST)))} pairs (promised: false better {LEVEL})"
    for kind in KINDS:
        for effect in (0.0, 0.5, 1.0, 2.0):
            for margin in (NO_MARGIN, 1.0):
                of = "no margin" if margin == NO_MARGIN else f"margin {margin:g}"
                yield f"{kind}, effect {effect:g}, {of}: {planted(random, kind, effect, margin, loops)}"
    streams = max(loops // STREAMS, 1)
    yield f"{streams} studies of {STREAM}, {REAL} better by {SIZE:g} (promised: false {RATE:g} of those kept)"
    ways: dict[str, Callable[[Array, list[bool]], bool]] = {
        "plat judge --study": lambda x, kept: judged(x, next_level(kept)).word == "shown",
        "plat judge, each alone": lambda x, _: judged(x).word == "shown",
        "keep if better": lambda x, _: bool(x[0] > 0),
    }
    for kind in KINDS:
        for name, keep in ways.items():
            found = np.array([study(random, kind, keep) for _ in range(streams)])
            yield f"{kind}, {name}: false {found[:, 0].mean():.3f}   kept {found[:, 1].mean():.2f}"
