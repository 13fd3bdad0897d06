"""Demonstrations, the training data of base models.

Episodes mix good and random answers, to cover a beginner's positions. The response in the corpus and the one that is
played at the same position are drawn independently.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from plat_envs.capabilities import Teacher

_GOOD_MOVES = 0.7  # share of good answers among those played


@dataclass(frozen=True)
class Mix:
    """Shares in [0, 1] of the levels of reasoning among demonstrations; the rest are templates.

    grounded     true facts, one or several with equal chance, with a good action
    wrong        wrong facts, with a random action
    usefulness   of the templates: the share with a good action; the others have a random one
    """

    grounded: float
    wrong: float
    usefulness: float


@dataclass(frozen=True)
class Demonstration:
    """A prompt with a response to imitate, whose reasoning is of this level."""

    prompt: str
    response: str
    level: str


def demonstrations(
    environment: Teacher, rng: random.Random, count: int, mix: Mix, first_seed: int = 0
) -> Iterator[Demonstration]:
    """Play episodes of the seeds from `first_seed` on; yield one demonstration at each prompt, `count` in all."""
    seed, done, prompt = first_seed, True, ""
    for _ in range(count):
        if done:
            prompt = environment.reset(seed)
            seed += 1
        level, good = _draw_level(rng, mix)
        yield Demonstration(prompt, environment.demonstrate(rng, level, good), level)
        prompt, _, done, _ = environment.step(environment.demonstrate(rng, "template", rng.random() < _GOOD_MOVES))


def _draw_level(rng: random.Random, mix: Mix) -> tuple[str, bool]:
    """Draw a level of reasoning, and True if a template gets a good action."""
    chance = rng.random()
    if chance < mix.grounded:
        return rng.choice(("one_fact", "several_facts")), True
    if chance < mix.grounded + mix.wrong:
        return "wrong_facts", False
    return "template", rng.random() < mix.usefulness
