"""Guess a hidden number from answers "higher" and "lower", on text."""

from __future__ import annotations

import random
from dataclasses import dataclass

from plat_envs.api import EnvironmentSpec


@dataclass(frozen=True)
class NumberGuessingConfig:
    largest: int = 15  # the hidden number is one of 1..largest
    guesses: int = 4  # at most


class NumberGuessing:
    """One game at a time; the reward is 1 when the number is found in time."""

    instructions = ""

    def __init__(self, config: NumberGuessingConfig, split: str) -> None:
        self.config = config
        self.split = split

    def reset(self, seed: int, noise: int = 0) -> str:
        """A game is fixed by (split, seed)."""
        self.rng = random.Random(f"{self.split}/{seed}")
        self.hidden = self.rng.randint(1, self.config.largest)
        self.low, self.high, self.left = 1, self.config.largest, self.config.guesses
        return self._observation()

    def _observation(self) -> str:
        """In words that stand-ins know: "count from 1 with 15 <think>"."""
        return f"count from {self.low} with {self.high} <think>"

    def step(self, text: str) -> tuple[str, float, bool, dict]:
        """The guess is the answer in `text`. Words that are no number cost a guess."""
        self.left -= 1
        words = text.partition("<answer>")[2].replace("</answer>", "").split()
        guess = int(words[-1]) if words and words[-1].isdigit() else None
        if guess == self.hidden:
            return "result", 1.0, True, {"success": True, "format_valid": True}
        if guess is not None:
            self.low = max(self.low, guess + 1) if guess < self.hidden else self.low
            self.high = min(self.high, guess - 1) if guess > self.hidden else self.high
        return (
            self._observation(),
            0.0,
            self.left == 0,
            {"success": False, "format_valid": guess is not None},
        )

    def close(self) -> None:
        pass

    @property
    def problem(self) -> str:
        return str(self.hidden)

    def demonstrate(self, rng: random.Random, level: str, good: bool = True) -> str:
        good = good and level != "wrong_facts"
        guess = (self.low + self.high) // 2 if good else rng.randint(1, self.config.largest)
        return f"{self.low} {self.high} </think> <answer> {guess} </answer>"

    def reasoning_level(self, reasoning: str) -> str | None:
        words = reasoning.split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return None
        return "several_facts" if words == [str(self.low), str(self.high)] else "wrong_facts"


SPEC = EnvironmentSpec(
    name="number_guessing",
    config_type=NumberGuessingConfig,
    make=lambda config, split, rendering: NumberGuessing(config, split),
    version="1.0.0",
)
