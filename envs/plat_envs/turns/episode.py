"""The base of all environments: turns, budgets, parsing of responses, format penalty, and the prompt around a state.

As released: a turn with no valid action or any invalid one costs `format_penalty`, and an episode ends when the game is
over or its turns are used up. In the grid games an answer is at most `actions_per_turn` actions joined by `||`; surplus
ones are cut. The answers of other tasks are free text, and are never cut.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from plat_envs.api import IMAGE, LEVELS, PICTURE_RENDERINGS, RENDERINGS, Observation, Seen
from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.instances import SPLITS
from plat_envs.stand_in import ANSWER, END_ANSWER, END_THINK, MAX_NUMBER, THINK

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SEPARATOR = "||"
# Rendering -> the method without which an environment does not have it.
_WRITTEN_BY = {"compact": "_compact", "chat": "_chat", "compact_image": "_picture", "chat_image": "_picture"}


def answer_of(text: str) -> str | None:
    """Return the answer of a response without outer white space; None if a section is missing or never closes.

    A response is `<think> .. </think> <answer> .. </answer>`, where `<think>` may be part of the prompt. Only white
    space may stand between `</think>` and `<answer>`; text after `</answer>` is ignored.
    """
    _, closed, rest = text.partition(END_THINK)
    between, opened, rest = rest.partition(ANSWER)
    answer, ended, _ = rest.partition(END_ANSWER)
    return answer.strip() if closed and opened and ended and not between.strip() else None


@dataclass(frozen=True)
class EpisodeConfig:
    """The options that every environment has."""

    turns: int = 5  # at most, per episode [turns]
    actions_per_turn: int = 2  # at most [actions]
    format_penalty: float = -0.1  # for a turn with no valid action or any invalid one [reward]
    shared_pool: bool = False  # True, as released: validation draws from the training instances

    def __post_init__(self) -> None:
        check_range("turns", self.turns, 1, 1000)
        check_range("actions_per_turn", self.actions_per_turn, 1, 100)
        check_range("format_penalty", self.format_penalty, -100, 0)

    @property
    def budget(self) -> int:
        """Largest number of actions in an episode: turns times actions per turn."""
        return self.turns * self.actions_per_turn

    def _check_solution(self, low: int, high: int) -> None:
        """Raise BadEnvironment if puzzles could need more moves than an episode has."""
        if not 1 <= low <= high <= self.budget:
            raise BadEnvironment(
                f"min_solution {low} and max_solution {high} do not fit",
                fix=f"1 <= min_solution <= max_solution <= {self.budget} (turns x actions_per_turn)",
            )


class PlainEpisode(ABC):
    """Base of environments without demonstrations: subclasses know the game (`_load`, `_read`, `_play`, `_chat`).

    The constructor raises BadEnvironment for an unknown split, a rendering that the environment does not have, and a
    compact rendering of more than MAX_NUMBER actions per episode. Observations are texts, and in picture renderings
    `Observation`s with one picture.
    """

    task: ClassVar[str]
    rules: str  # what the game is, for the chat rendering
    picture_rules: str  # likewise, for the chat_image rendering
    advice: str = "Max response length: 100 words."  # the end of a prompt in the chat rendering

    def __init__(self, config: Any, split: str, rendering: str) -> None:
        check_choice("split", split, SPLITS)
        check_choice("rendering", rendering, RENDERINGS + PICTURE_RENDERINGS)
        if not self._has(rendering):
            raise self._no_rendering(rendering)
        is_compact = rendering.startswith("compact")
        if is_compact and config.budget > MAX_NUMBER:
            raise BadEnvironment(
                f"{self.task}: {config.budget} actions per episode have no {rendering} rendering",
                fix=f"turns x actions_per_turn of at most {MAX_NUMBER}, or "
                f"rendering: {rendering.replace('compact', 'chat')}",
            )
        self.config = config
        self.split = split
        self.rendering = rendering
        self.instructions = "" if is_compact else self._instructions()
        self.turns_left = 0
        self.done = True
        self.success = False
        self._last_reward: float | None = None

    # --- the protocol -------------------------------------------------------------------------------------------------

    def reset(self, seed: int, noise: int = 0) -> Seen:
        self._load(seed, noise)
        self.turns_left = self.config.turns
        self.done = self.success = False
        self._last_reward = None
        return self._observation()

    def step(self, text: str) -> tuple[Seen, float, bool, dict[str, Any]]:
        if self.done:
            raise BadEnvironment(f"{self.task}: the episode is over", fix="call reset(seed) first")
        answer = answer_of(text)
        actions, format_valid = ([], False) if answer is None else self._read(answer)
        self.turns_left -= 1
        reward = 0.0 if format_valid else self.config.format_penalty
        executed = moves = 0
        over = False
        for action in actions:
            gain, changed, over = self._play(action)
            reward += gain
            executed += 1
            moves += changed
            if over:
                break
        self.done = over or self.turns_left == 0
        self._last_reward = reward
        info = {"success": self.success, "format_valid": format_valid, "actions": executed, "moves": moves}
        return self._observation(), reward, self.done, info

    def close(self) -> None:  # noqa: B027 - most games hold nothing
        pass

    # --- what a game knows --------------------------------------------------------------------------------------------

    @abstractmethod
    def _load(self, seed: int, noise: int) -> None:
        """Load the instance of (split, seed)."""

    @abstractmethod
    def _read(self, answer: str) -> tuple[list[Any], bool]:
        """Return the valid actions of an answer, and True if there is one and all are valid."""

    @abstractmethod
    def _play(self, action: Any) -> tuple[float, bool, bool]:
        """Play one action and set `success`. Return the reward, True for a move, and True if the game is over.

        A move is an action that changed the state, or in a text task a valid answer.
        """

    def _compact(self) -> str:
        """Return the state in words of the vocabulary. A class without it has no compact rendering."""
        raise self._no_rendering("compact")

    def _chat(self) -> str:
        """Return the state in natural language. A class without it has no chat rendering."""
        raise self._no_rendering("chat")

    def _picture(self) -> NDArray[np.uint8]:
        """Return the state as an array (height, width, 3). A class without it has no picture renderings."""
        raise self._no_rendering(self.rendering)

    def _has(self, rendering: str) -> bool:
        method = _WRITTEN_BY[rendering]
        return getattr(type(self), method) is not getattr(PlainEpisode, method)

    def _no_rendering(self, rendering: str) -> BadEnvironment:
        if rendering == "compact":
            fix = "a real model: train.rendering=chat"
        elif rendering == "chat_image" or not self._has("compact"):
            fix = "train.rendering=chat"
        else:
            fix = "train.rendering=compact"
        return BadEnvironment(f"{self.task} has no {rendering} rendering", fix=fix)

    @property
    @abstractmethod
    def problem(self) -> str:
        """A text that identifies the current problem, see `Environment.problem`."""

    # --- prompts ------------------------------------------------------------------------------------------------------

    def _budget(self) -> int:
        """Return how many actions are left. It is part of the state, so compact observations contain it."""
        return self.turns_left * int(self.config.actions_per_turn)

    def _observation(self) -> Seen:
        if self.rendering not in PICTURE_RENDERINGS:
            return self._compact() if self.rendering == "compact" else self._conversation(self._chat())
        is_compact = self.rendering == "compact_image"
        text = f"{self.task} {IMAGE} {self._budget()} {THINK}" if is_compact else self._conversation(IMAGE)
        return Observation(text, (self._picture(),))

    def _conversation(self, state: str) -> str:
        """Return the user message of a chat around a state."""
        turn = self.config.turns - self.turns_left + 1
        lines = [] if self._last_reward is None else [f"Reward:\n{self._last_reward:g}\n"]
        if self.done:
            return "\n".join([*lines, f"The game is over.\nState:\n{state}"])
        left = self._budget()
        lines.append(f"Turn {turn}:\nState:\n{state}\nYou have {left} action{'' if left == 1 else 's'} left.")
        lines.append(
            "Always output: <think> [Your thoughts] </think> <answer> [your answer] </answer> with no extra text. "
            f"Strictly follow this format. {self.advice}"
        )
        return "\n".join(lines)

    def _instructions(self) -> str:
        count, several = self.config.actions_per_turn, ""
        if count > 1:
            example = f"<answer> up {SEPARATOR} left </answer>"
            several = f"\nYou may give up to {count} actions per turn, joined by {SEPARATOR}, e.g. {example}."
        rules = self.picture_rules if self.rendering in PICTURE_RENDERINGS else self.rules
        return f"You are a helpful assistant. {rules}{several}"


class Episode(PlainEpisode):
    """Base of the environments that stand-ins are trained on: they demonstrate, and grade reasonings."""

    templates: tuple[str, ...]  # the sentences of template reasoning

    def demonstrate(self, rng: random.Random, level: str, good: bool = True) -> str:
        check_choice("level", level, LEVELS)
        if level == "template":
            reasoning, answer = rng.choice(self.templates), self._good_answer(rng) if good else self._random_answer(rng)
        elif level == "wrong_facts":
            reasoning, answer = self._wrong_facts(rng)
        else:
            answer = self._good_answer(rng)
            reasoning = self._facts(answer, several=level == "several_facts")
        return f"{reasoning} </think> <answer> {answer} </answer>"

    def reasoning_level(self, reasoning: str) -> str | None:
        if reasoning in self.templates:
            return "template"
        facts = self._facts_stated(reasoning)
        if not facts:
            return None
        if not all(facts):
            return "wrong_facts"
        return "one_fact" if len(facts) == 1 else "several_facts"

    # --- what a game knows of good answers and of facts ---------------------------------------------------------------

    @abstractmethod
    def _good_answer(self, rng: random.Random) -> str:
        """Return an answer of optimal actions, or a random valid one if success is no longer possible."""

    @abstractmethod
    def _random_answer(self, rng: random.Random) -> str:
        """Return a random valid answer."""

    @abstractmethod
    def _facts(self, answer: str, several: bool) -> str:
        """Return a sentence with one or several facts of the state that leads to this answer."""

    @abstractmethod
    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        """Return a sentence in the form of several facts, at least one of them wrong, and its answer."""

    @abstractmethod
    def _facts_stated(self, reasoning: str) -> list[bool]:
        """Return for each fact in the sentence True if it holds now; [] for a sentence outside the grammar."""
