"""Error rates of a claim that is judged again while seeds are added, until it holds.

`each at its own level`: a reader judges at every number of seeds. `foreseen`: the same with `looks: 5` in the claim.
`fresh`: one judgement on fresh seeds, as many as the first five say are needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from plat_analysis.statistics.significance import seeds_needed
from simulated.claims import calm, verdict

LOOKS = (5, 8, 11, 15, 20)
SIZE = 5.0  # points, the effect of interest
MANY = 60  # no more fresh seeds than this are simulated


def held_at_some_look(random: np.random.Generator, looks: int) -> bool:
    """Return True if a claim without any effect is called shown at one of LOOKS, at the level of `looks` looks."""
    changes = calm(random, 1, LOOKS[-1])
    return any(verdict(changes[:, :seeds], looks) == "shown" for seeds in LOOKS)


def held_on_fresh_seeds(random: np.random.Generator, effect: float = 0.0) -> bool:
    """Return True if a claim is called shown on as many fresh seeds as five earlier ones require."""
    spread = float(calm(random, 1, 5).std(ddof=1))
    seeds = min(seeds_needed([(SIZE, spread)], 0.025), MANY)
    return verdict(calm(random, 1, seeds) + effect) == "shown"


def lines(claims: int) -> Iterator[str]:
    random = np.random.default_rng(5)
    careless, foreseen = (np.mean([held_at_some_look(random, n) for _ in range(claims)]) for n in (1, len(LOOKS)))
    fresh, power = (np.mean([held_on_fresh_seeds(random, effect) for _ in range(claims)]) for effect in (0.0, SIZE))
    at = ", ".join(map(str, LOOKS))
    yield f"looks at {at} seeds, no effect, called shown (promised .025)"
    yield f"each at its own level {careless:.3f} (not promised)   foreseen {foreseen:.3f}   on fresh seeds {fresh:.3f}"
    yield f"on as many fresh seeds as five earlier ones ask for, true effects of {SIZE:g} points: {power:.2f} shown"
