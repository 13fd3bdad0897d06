"""One episode as sequences of tokens, without a model: the agent loop generates, the episode plays.

    episode = Episode(dialogue, environment, limits)
    episode.begin(seed, noise)
    while not episode.done:
        tokens, log_probs = ... answers to episode.tokens, at most limits.response_tokens of them
        episode.respond(tokens, log_probs)

With the context `full` an episode is one sequence: prompt, response, observation, response, and so on. With `current`
the policy sees only the present state, so each turn is a sequence: prompt and response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat_envs.api import Environment
from plat_rl.loop.turns import Dialogue, Effect, Turns


@dataclass(frozen=True)
class Limits:
    """Limits of an episode: turns; tokens of a response, of a sequence's prompt, and of a later observation."""

    turns: int
    response_tokens: int
    prompt_tokens: int
    observation_tokens: int
    token_cost: float = 0.0  # subtracted from the reward of a turn, per response token
    context: str = "full"  # full | current


@dataclass
class Sequence:
    """Tokens of one context. `mask` and `log_probs` belong to `response` and are 0 where the policy did not write."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def extend(self, tokens: list[int], mask: list[int], log_probs: list[float]) -> None:
        """Append tokens to the response, with a mask and a log-probability for each."""
        self.response += tokens
        self.mask += mask
        self.log_probs += log_probs


@dataclass(frozen=True)
class Turn:
    """A response and its effect.

    sequence  index of the sequence that contains the response
    start     index of its first token among the tokens after that sequence's prompt
    length    number of its tokens, including the end token
    """

    sequence: int
    start: int
    length: int
    effect: Effect


class Episode(Turns):
    """An episode in play; the policy continues the last of its sequences.

    cut   the prompt lost its beginning, or a long observation ended the episode
    """

    def __init__(self, dialogue: Dialogue, environment: Environment, limits: Limits) -> None:
        super().__init__(dialogue, environment, limits.token_cost)
        self.limits = limits
        self.sequences: list[Sequence] = []
        self.turns: list[Turn] = []
        self.cut = False

    def begin(self, seed: int, noise: int) -> None:
        """Reset the environment and make the first prompt. A prompt that is too long loses its beginning."""
        opening = self.start(seed, noise)
        self.cut = len(opening) > self.limits.prompt_tokens
        self.sequences = [Sequence(opening[-self.limits.prompt_tokens :])]

    @property
    def tokens(self) -> list[int]:
        """The tokens that the policy answers next."""
        return [*self.sequences[-1].prompt, *self.sequences[-1].response]

    def respond(self, tokens: list[int], log_probs: list[float]) -> None:
        """Play a response, and append the next observation. `tokens` includes the end token if the policy produced one.

        At the limit of turns, or if the observation is too long (`cut`), sets `done` instead of appending it.
        """
        effect = self.answer(tokens)
        sequence = self.sequences[-1]
        self.turns.append(Turn(len(self.sequences) - 1, len(sequence.response), len(tokens), effect))
        sequence.extend(tokens, [1] * len(tokens), log_probs)
        if len(self.turns) >= self.limits.turns:
            self.done = True
        if not self.done:
            self._observe()

    def _observe(self) -> None:
        """Append an observation. One that is too long ends the episode: a part of it could mislead the policy."""
        alone = self.limits.context == "current"
        tokens = self.new_prompt() if alone else self.later_tokens()
        if len(tokens) > (self.limits.prompt_tokens if alone else self.limits.observation_tokens):
            self.done = self.cut = True
        elif alone:
            self.sequences.append(Sequence(tokens))
        else:
            self.sequences[-1].extend(tokens, [0] * len(tokens), [0.0] * len(tokens))

    def record(self) -> dict[str, Any]:
        """Return `turns` (the fields of each), the number of `sequences`, `success` and `cut`, JSON-able."""
        return {
            "turns": [vars(turn) | {"effect": turn.effect._asdict()} for turn in self.turns],
            "sequences": len(self.sequences),
            "success": self.success,
            "cut": self.cut,
        }
