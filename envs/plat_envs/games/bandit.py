"""Bandit: pull one of several arms whose odds are shown. A control whose best success is known.

An arm pays 1 with its odds in tenths, by the chance of the trajectory. The optimal policy pulls the arm with the
highest odds. With one turn its expected success is the mean of these odds: nothing does better, and the variance of
rewards that is left is chance. The first arm has the higher of two draws, so pulling it is better than a random arm.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from plat_envs.api import EnvironmentSpec
from plat_envs.environment_errors import check_range
from plat_envs.instances import Candidate, draw, ready
from plat_envs.stand_in import ENTITIES, NUMBER_TEMPLATES
from plat_envs.turns.episode import Episode, EpisodeConfig

_ARM = "|".join(ENTITIES)
_FACTS = re.compile(rf"((?:(?:{_ARM}) \d )+)so (?:{_ARM})")
Odds = tuple[int, ...]  # of each arm, in tenths


@dataclass(frozen=True)
class BanditConfig(EpisodeConfig):
    turns: int = 1  # pulls [turns]
    actions_per_turn: int = 1  # pulls in an answer [actions]
    arms: int = 4  # to choose from

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_range("arms", self.arms, 2, len(ENTITIES))


@lru_cache(maxsize=4096)
def odds_of(config: BanditConfig, split: str, seed: int) -> Odds:
    """Return the odds of the arms of (split, seed); one arm has the highest. BadEnvironment for no such split."""

    def candidates(rng: random.Random) -> Iterator[Candidate[Odds]]:
        while True:
            first = max(rng.randint(1, 9), rng.randint(1, 9))
            odds = (first, *(rng.randint(1, 9) for _ in range(config.arms - 1)))
            yield ready(repr(odds), odds) if odds.count(max(odds)) == 1 else None

    return draw("bandit", split, seed, config.shared_pool, candidates)


class Bandit(Episode):
    task = "bandit"
    rules = "You pull one arm of a slot machine. Give the name of the arm alone in the answer section, e.g. e0."
    templates = NUMBER_TEMPLATES
    config: BanditConfig

    def _load(self, seed: int, noise: int) -> None:
        self.odds = odds_of(self.config, self.split, seed)
        self._chance = random.Random(f"bandit/{self.split}/{seed}/{noise}")

    @property
    def problem(self) -> str:
        return repr(self.odds)

    @property
    def best(self) -> int:
        """The number of the arm with the highest odds."""
        return self.odds.index(max(self.odds))

    def _read(self, answer: str) -> tuple[list[int], bool]:
        arms = ENTITIES[: self.config.arms]
        return ([arms.index(answer)], True) if answer in arms else ([], False)

    def _play(self, action: int) -> tuple[float, bool, bool]:
        paid = self._chance.random() < self.odds[action] / 10
        self.success = self.success or paid
        return float(paid), True, False

    def _compact(self) -> str:
        arms = " ".join(f"{arm} {odds}" for arm, odds in zip(ENTITIES, self.odds, strict=False))
        budget = f" . {self._budget()}" if self.config.turns > 1 else ""
        return f"try {arms}{budget} <think>"

    def _chat(self) -> str:
        arms = (f"{arm} pays in {odds} of 10 pulls" for arm, odds in zip(ENTITIES, self.odds, strict=False))
        return f"Arms: {', '.join(arms)}."

    def _good_answer(self, rng: random.Random) -> str:
        return ENTITIES[self.best]

    def _random_answer(self, rng: random.Random) -> str:
        return rng.choice(ENTITIES[: self.config.arms])

    def _facts(self, answer: str, several: bool) -> str:
        arm = ENTITIES.index(answer)
        second = max((other for other in range(len(self.odds)) if other != arm), key=self.odds.__getitem__)
        named = (arm, second) if several else (arm,)
        return f"{' '.join(f'{ENTITIES[other]} {self.odds[other]}' for other in named)} so {answer}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        while True:
            first, second = rng.sample(ENTITIES[: self.config.arms], 2)
            said = f"{first} {rng.randint(1, 9)} {second} {rng.randint(1, 9)} so {first}"
            if not all(self._facts_stated(said)):
                return said, first

    def _facts_stated(self, reasoning: str) -> list[bool]:
        match = _FACTS.fullmatch(reasoning)
        if match is None:
            return []
        words = match[1].split()
        odds = dict(zip(ENTITIES, map(str, self.odds), strict=False))
        return [odds.get(arm) == number for arm, number in zip(words[::2], words[1::2], strict=True)]

    def blind(self) -> str:
        """Return the first arm, which is the best one on average."""
        return ENTITIES[0]

    def greedy(self) -> str:
        """Return the better of the first two arms."""
        return ENTITIES[int(self.odds[1] > self.odds[0])]


SPEC = EnvironmentSpec(name="bandit", config_type=BanditConfig, make=Bandit, version="1", plenty=512)
