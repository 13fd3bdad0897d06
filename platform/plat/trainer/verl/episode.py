"""One episode as sequences of tokens: the agent loop asks it what to answer and tells it what was answered.

    episode = Episode(dialogue, environment, limits)
    episode.start(seed, noise)
    while not episode.done:
        tokens, log_probs = ... answers to episode.tokens, at most limits.response_tokens of them
        episode.answer(tokens, log_probs)

With the context `full` an episode is one sequence: prompt, response, observation, response, and so on. With `current`
the policy sees the present state alone, so each turn is a sequence of its own: its prompt, and the response to it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from plat.trainer.verl.dialogue import Dialogue
from plat_envs.api import LEVELS, Environment
from plat_envs.vocabulary import END_THINK


@dataclass(frozen=True)
class Limits:
    """Of an episode: turns; tokens of a response, of a sequence's prompt and of a later observation."""

    turns: int
    response_tokens: int
    prompt_tokens: int
    observation_tokens: int
    token_cost: float = 0.0  # of each response token, from the reward of its turn
    context: str = "full"  # full | current


@dataclass
class Sequence:
    """What the policy reads and writes at once. `response` is all that follows the prompt; `mask` and `log_probs`
    belong to it: 1 and a log-probability for what the policy said, 0 elsewhere."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)

    def extend(self, tokens: list[int], mask: list[int], log_probs: list[float]) -> None:
        """Add tokens to the end."""
        self.response += tokens
        self.mask += mask
        self.log_probs += log_probs


@dataclass(frozen=True)
class Turn:
    """What a response was, and what it brought about; the names are those of `plat.trainer.loop.trajectories`.

    sequence  the number of the sequence that the response lies in
    start     where it begins among the tokens after that sequence's prompt
    length    its tokens, with the one that ended it
    """

    sequence: int
    start: int
    length: int
    reasoning_length: int
    reasoning_level: int
    reward: float
    format_valid: bool
    actions: int
    moves: int


@dataclass
class Episode:
    """An episode while it is played; the policy goes on with the last of its sequences."""

    dialogue: Dialogue
    environment: Environment
    limits: Limits
    sequences: list[Sequence] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    success: bool = False
    done: bool = False
    cut: bool = False  # it ended because an observation was too long

    def start(self, seed: int, noise: int) -> None:
        """Put the instance on the board and make the first prompt; a longer one loses its beginning."""
        observation = self.environment.reset(seed, noise)
        opening = self.dialogue.opening(observation, self.environment.instructions)
        self.cut = len(opening) > self.limits.prompt_tokens
        self.sequences = [Sequence(opening[-self.limits.prompt_tokens :])]

    @property
    def tokens(self) -> list[int]:
        """What the policy answers next."""
        return [*self.sequences[-1].prompt, *self.sequences[-1].response]

    def answer(self, tokens: list[int], log_probs: list[float]) -> None:
        """Play a response, with the id that ended it where the policy did."""
        ended = bool(tokens) and tokens[-1] in self.dialogue.stops
        body = tokens[:-1] if ended else tokens
        text = self.dialogue.text(body)
        reasoning_length = self.dialogue.reasoning_tokens(body)
        reasoning = text.partition(END_THINK)[0].strip()
        level = self.environment.reasoning_level(reasoning) if reasoning_length >= 0 else None
        observation, reward, self.done, info = self.environment.step(text)
        valid = bool(info["format_valid"])
        self.turns.append(
            Turn(
                len(self.sequences) - 1,
                len(self.sequences[-1].response),
                len(tokens),
                reasoning_length,
                -1 if level is None else LEVELS.index(level),
                float(reward) - self.limits.token_cost * len(tokens),
                valid,
                int(info.get("actions", valid)),
                int(info.get("moves", valid)),
            )
        )
        self.success = bool(info["success"])
        self.sequences[-1].extend(tokens, [1] * len(tokens), log_probs)
        if len(self.turns) >= self.limits.turns:
            self.done = True
        if not self.done:
            self._observe(observation, ended)

    def _observe(self, observation: str, ended: bool) -> None:
        """Go on with an observation; one that is too long ends the episode, because a part of it could mislead.

        ended   whether the policy ended its response itself
        """
        if self.limits.context == "current":
            limit, tokens = self.limits.prompt_tokens, self.dialogue.opening(observation, self.environment.instructions)
        else:
            limit = self.limits.observation_tokens
            tokens = ([] if ended else [self.dialogue.stops[0]]) + self.dialogue.following(observation)
        if len(tokens) > limit:
            self.done = self.cut = True
        elif self.limits.context == "current":
            self.sequences.append(Sequence(tokens))
        else:
            self.sequences[-1].extend(tokens, [0] * len(tokens), [0.0] * len(tokens))

    @property
    def total_reward(self) -> float:
        """The sum of the rewards of all turns."""
        return sum(turn.reward for turn in self.turns)

    def record(self) -> dict[str, Any]:
        """What the trainer needs to know besides the tokens; plain values."""
        return {
            "turns": [asdict(turn) for turn in self.turns],
            "sequences": len(self.sequences),
            "success": self.success,
            "cut": self.cut,
        }
