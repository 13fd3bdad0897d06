"""DAPO's dynamic sampling with a bounded number of refills.

A prompt whose G returns are all equal teaches nothing and is replaced by a fresh one, until P informative prompts are
there or `max_refills` extra rollouts are spent (verl's own loop has no bound: a collapsed policy spins for ever).
What is still missing then stays missing: the batch is smaller, and empty when nothing was informative.

    plan = Refills(prompts=8, max_refills=3)
    wanted = plan.offer(rewards)            # rewards [8, G] of the first rollout
    while wanted:                           # roll out `wanted` new prompts
        wanted = plan.offer(new_rewards)
    for rollout, prompt in plan.chosen: ...
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray


def uninformative(rewards: ArrayLike, tolerance: float = 1e-10) -> NDArray[np.bool_]:
    """DAPO's acceptance rule: returns [P, G] -> bool [P], True where all of a prompt's are equal within `tolerance`."""
    array = np.asarray(rewards, dtype=np.float64)
    equal: NDArray[np.bool_] = array.max(axis=1) - array.min(axis=1) <= tolerance
    return equal


@dataclass
class Refills:
    """One iteration's plan. `chosen` are (rollout, prompt within it) in order of arrival, at most `prompts` of them."""

    prompts: int
    max_refills: int
    chosen: list[tuple[int, int]] = field(default_factory=list)
    rollouts: int = 0
    dropped: int = 0  # prompts without information so far

    def offer(self, rewards: ArrayLike) -> int:
        """Take the returns [p, G] of a rollout; how many new prompts to roll out now (0: done)."""
        mask = uninformative(rewards)
        free = self.prompts - len(self.chosen)
        self.chosen += [(self.rollouts, int(prompt)) for prompt in np.flatnonzero(~mask)[:free]]
        self.dropped += int(mask.sum())
        self.rollouts += 1
        return self.prompts - len(self.chosen) if self.rollouts <= self.max_refills else 0

    def metrics(self) -> dict[str, float]:
        """How many rollouts came after the first one, and how many prompts are left to learn from."""
        return {
            "rollout/refills": float(self.rollouts - 1),
            "rollout/informative_prompts": float(len(self.chosen)),
        }
