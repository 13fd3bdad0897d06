"""A corpus of demonstrations: what base models are trained on.

Episodes are played with a mixture of good and random answers, so that the corpus covers positions that a beginner gets
into. The response in the corpus and the response that is played at the same position are drawn independently.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from plat_envs.api import Environment

_GOOD_MOVES = 0.7  # share of good answers among those played


@dataclass(frozen=True)
class Demonstration:
    """A prompt with a response to imitate; `grounded` says which kind of reasoning the response has."""

    prompt: str
    response: str
    grounded: bool


def demonstrations(
    environment: Environment, rng: random.Random, count: int, grounded: float, first_seed: int = 0
) -> Iterator[Demonstration]:
    """`count` demonstrations, a share `grounded` of them with grounded reasoning; seeds from `first_seed` upward."""
    seed, done, prompt = first_seed, True, ""
    for _ in range(count):
        if done:
            prompt = environment.reset(seed)
            seed += 1
        with_facts = rng.random() < grounded
        yield Demonstration(prompt, environment.demonstrate(rng, with_facts), with_facts)
        prompt, _, done, _ = environment.step(environment.demonstrate(rng, rng.random() < _GOOD_MOVES))
