"""The turn loop of one episode, without a model: prompts in, responses out. All trainers play episodes with it.

turns = Turns(dialogue, environment, token_cost=0.0)
prompt = turns.start(seed, noise)
while not turns.done:
    effect = turns.answer(tokens)              # a response to the prompt
    prompt = turns.new_prompt()                # context `current`: the state alone
    prompt += tokens + turns.later_tokens()    # context `full`: the whole history
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from plat_envs.api import LEVELS, Environment, GradesReasoning, Seen
from plat_envs.sandbox.hack import KINDS
from plat_envs.stand_in import END_THINK


class Dialogue(Protocol):
    """Observations as token ids, and responses as text."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Ids that end a response; the first one is appended to a response that ran out of tokens."""

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        """Return the ids of a first prompt, which ends with `<think>`. `instructions`: a system message, or ""."""

    def following(self, observation: Seen) -> list[int]:
        """Return the ids of a later observation, after the id that ended the previous response."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of a response without its end id."""

    def reasoning_tokens(self, response: list[int]) -> int:
        """Count the tokens of a response before `</think>`; -1 if the think section never closes."""


class Turns:
    """An episode in play. `done` and `success` are those after the newest response.

    token_cost   subtracted from the reward of a turn, for each token of its response
    """

    def __init__(self, dialogue: Dialogue, environment: Environment, token_cost: float) -> None:
        self.dialogue, self.environment, self.token_cost = dialogue, environment, token_cost
        self.done = self.success = False
        self._observation: Seen = ""
        self._ended = True

    def start(self, seed: int, noise: int) -> list[int]:
        """Reset the environment and return the first prompt."""
        self.done = self.success = False
        self._observation = self.environment.reset(seed, noise)
        return self.new_prompt()

    def answer(self, tokens: Sequence[int]) -> Effect:
        """Play a response and return its effect. `tokens` has the end id if the policy produced one."""
        self._ended = bool(tokens) and tokens[-1] in self.dialogue.stops
        body = list(tokens[:-1] if self._ended else tokens)
        cost = self.token_cost * len(tokens)
        reasoning_length = self.dialogue.reasoning_tokens(body)
        played = play_response(self.environment, self.dialogue.decode(body), reasoning_length, cost)
        self.success, self.done, self._observation = played.success, played.done, played.observation
        return played.effect

    def new_prompt(self) -> list[int]:
        """Return the newest observation as a prompt by itself."""
        return self.dialogue.prompt(self._observation, self.environment.instructions)

    def later_tokens(self) -> list[int]:
        """Return the newest observation as tokens after the response, with the end id that the response lacks."""
        end = [] if self._ended else [self.dialogue.stops[0]]
        return end + self.dialogue.following(self._observation)


# Play a response in an environment.

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
    observation: Seen  # the next one, if the episode is not done
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
