"""Play a response in an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from plat_envs.api import Environment
from plat_envs.capabilities import LEVELS, GradesReasoning
from plat_envs.sandbox.hack import KINDS
from plat_envs.stand_in.vocabulary import END_THINK

NOT_A_LEVEL = -1  # the reasoning is neither a template nor states facts
NOT_GRADED = -2  # the environment does not grade reasonings
NO_PROGRAM = -1  # the environment does not say which tricks a response tries


class Effect(NamedTuple):
    """The effect of a response, by the names of `plat_rl.loop.trajectory_table`."""

    reasoning_length: int
    reasoning_level: int
    rewards: float
    format_valid: bool
    actions: int
    moves: int
    constant_reward: float = float("nan")
    tricks: int = NO_PROGRAM


@dataclass(frozen=True)
class PlayedResponse:
    effect: Effect
    observation: str  # the next one, if the episode is not done
    success: bool
    done: bool


def play_response(environment: Environment, text: str, reasoning_length: int, cost: float) -> PlayedResponse:
    """Play the text of a response, and return its effect and the next observation.

    reasoning_length   tokens of its reasoning; -1 if the think section never closes
    cost               of all tokens of the response, subtracted from the reward
    """
    reasoning = text.partition(END_THINK)[0].strip()
    level = _level(environment, reasoning) if reasoning_length >= 0 else NOT_A_LEVEL
    observation, reward, done, info = environment.step(text)
    valid = bool(info["format_valid"])
    effect = Effect(
        reasoning_length,
        level,
        float(reward) - cost,
        valid,
        int(info.get("actions", valid)),
        int(info.get("moves", valid)),
        float(info.get("constant_reward", "nan")),
        _tricks(info),
    )
    return PlayedResponse(effect, observation, bool(info["success"]), done)


def _tricks(info: dict[str, Any]) -> int:
    """Return the tricks of a program as a number with a bit for each of KINDS, or NO_PROGRAM."""
    if "tricks" not in info:
        return NO_PROGRAM
    return sum(1 << number for number, kind in enumerate(KINDS) if kind in info["tricks"])


def _level(environment: Environment, reasoning: str) -> int:
    """Return the level of a reasoning as an index into LEVELS, NOT_A_LEVEL or NOT_GRADED."""
    if not isinstance(environment, GradesReasoning):
        return NOT_GRADED
    level = environment.reasoning_level(reasoning)
    return NOT_A_LEVEL if level is None else LEVELS.index(level)
