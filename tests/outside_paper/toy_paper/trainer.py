"""A trainer without any tensor: hill climbing on the chance to bisect instead of guessing wildly."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plat.errors import SpecError
from plat.trainer.api import Outcome, RunIO, State, Trainer


@dataclass
class Climb:
    iterations: int = 6
    games: int = 40  # per iteration
    stride: float = 0.3  # of the chance to bisect
    checkpoint_every: int = 2


@dataclass
class ToyConfig:
    trainer: str = "toy_hill_climber"
    scale: str = "laptop"
    seed: int = 0
    policy: str = "climber"  # climber | wild
    guesses: int = 4
    climb: Climb = field(default_factory=Climb)


def success(chance: float, config: ToyConfig, split: str, first: int, rng: random.Random) -> float:
    """Share of games won by a player who bisects with this chance and guesses wildly otherwise."""
    from plat_envs.api import find_environment

    spec = find_environment("number_guessing")
    won = 0
    for seed in range(first, first + config.climb.games):
        game = spec.make(spec.config_type(guesses=config.guesses), split, "compact")
        text, done, info = game.reset(seed), False, {}
        while not done:
            _, _, low, _, high, _ = text.split()
            bisect = rng.random() < chance
            guess = (int(low) + int(high)) // 2 if bisect else rng.randint(1, 15)
            text, _, done, info = game.step(f"</think> <answer> {guess} </answer>")
        won += info["success"]
    return won / config.climb.games


def _tuples(value: Any) -> Any:
    """Random states are nested tuples; JSON gives them back as lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class HillClimber(Trainer):
    """Climbs on the chance to bisect, in a few games at a time."""

    name = "toy_hill_climber"
    version = "1.0.0"
    config_type = ToyConfig
    cost_keys = ("climb.games", "policy")

    def train(self, config: ToyConfig, io: RunIO) -> Outcome:
        """Climb, from the newest checkpoint if there is one."""
        rng, chance, done = random.Random(config.seed), 0.0, -1
        restored = io.restore()
        if restored is not None:
            done, state = restored
            chance = state.meta["chance"]
            rng.setstate(_tuples(state.meta["random"]))
        for step in range(done + 1, config.climb.iterations + 1):
            if step and config.policy == "climber":
                proposal = min(1.0, max(0.0, chance + rng.uniform(-0.1, 1) * config.climb.stride))
                base = step * config.climb.games
                better = success(proposal, config, "train", base, rng) >= success(chance, config, "train", base, rng)
                chance = proposal if better else chance
            held = success(chance, config, "validation", 0, random.Random(1))
            io.log(step, {"val/games_won": held, "toy/chance": chance})
            if step % config.climb.checkpoint_every == 0:
                io.save(step, State(tensors={}, meta={"chance": chance, "random": rng.getstate()}))
            if io.should_stop() and step < config.climb.iterations:
                io.save(step, State(tensors={}, meta={"chance": chance, "random": rng.getstate()}))
                return Outcome("interrupted")
        return Outcome("finished", {"chance": chance})

    def validate(self, config: ToyConfig) -> ToyConfig:
        if config.policy not in ("climber", "wild"):
            raise SpecError(f"unknown policy {config.policy!r}", where="policy", fix="one of: climber, wild")
        return config

    def headline(self, config: Mapping[str, Any]) -> str:
        return "val/games_won"

    def iterations(self, config: Mapping[str, Any]) -> int:
        return int(config["climb"]["iterations"])
