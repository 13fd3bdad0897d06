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
from typing import Protocol

from plat_envs.api import Environment
from plat_rl.loop.played_response import Effect, play_response


class Dialogue(Protocol):
    """Observations as token ids, and responses as text."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Ids that end a response; the first one is appended to a response that ran out of tokens."""

    def prompt(self, observation: str, instructions: str = "") -> list[int]:
        """Return the ids of a first prompt, which ends with `<think>`. `instructions`: a system message, or ""."""

    def following(self, observation: str) -> list[int]:
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
        self._observation = ""
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
