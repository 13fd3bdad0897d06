"""One episode as sequences of tokens, without a model: the agent loop generates, the episode plays.

    episode = Episode(dialogue, environment, limits)
    episode.begin(seed, noise)
    while not episode.done:
        tokens, log_probs = ... answers to episode.tokens, at most limits.response_tokens of them
        episode.respond(tokens, log_probs)

With the context `full` an episode is one sequence: prompt, response, observation, response, and so on. With `current`
the policy sees only the present state, so each turn is a sequence: prompt and response.

A sequence has the pictures of its observations, in the order of their places in its tokens. Tokens of a picture are
never cut: what is cut is a whole observation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.errors import RunError
from plat_envs.api import Environment, Seen
from plat_envs.stand_in import END_THINK, THINK
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.loop.turns import Dialogue, Effect, Turns
from plat_rl.verl.rollouts.picture_dialogue import picture_dialogue
from plat_rl.verl.vision.pictures import has_pictures, pictures_of, text_of

# Prompts as token ids, for the tokenizer that verl loaded: whole words for stand-ins, a chat template for real models.
#
# Earlier text of an episode is never tokenised again, so the spans of responses and reasonings are exact. The
# assistant's turn always begins with `<think>`, which is part of the prompt.

MARK = "plat-content"  # placeholder to find the text that a template writes around a message


class ChatDialogue:
    """A Hugging Face tokenizer with a chat template.

    The constructor raises RunError if the template does not end the assistant's turn, `following` if it changes earlier
    messages.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        said = self._rendered([_user(MARK), _assistant(MARK + MARK)], prompted=False)
        end = said.rindex(MARK) + len(MARK)
        closing = tokenizer.encode(said[end:], add_special_tokens=False)
        if not closing:
            raise RunError("the model's chat template does not end the assistant's turn", where="model")
        self.stops: tuple[int, ...] = tuple(dict.fromkeys((int(closing[0]), int(tokenizer.eos_token_id))))
        self._closing = tokenizer.decode(closing[:1])
        self._prefix = said[:end] + self._closing

    def prompt(self, observation: Seen, instructions: str = "") -> list[int]:
        messages = [{"role": "system", "content": instructions}] if instructions else []
        return self._ids(self._rendered([*messages, _user(text_of(observation))], prompted=True) + THINK)

    def following(self, observation: Seen) -> list[int]:
        whole = self._rendered([_user(MARK), _assistant(MARK + MARK), _user(text_of(observation))], prompted=True)
        if not whole.startswith(self._prefix):
            raise RunError(
                "the model's chat template changes earlier turns when a later one is added",
                where="model",
                fix="use a model whose template only appends, e.g. Qwen2.5 or Llama 3.2",
            )
        return self._ids(whole[len(self._prefix) :] + THINK)

    def decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text

    def reasoning_tokens(self, response: list[int]) -> int:
        position = self.decode(response).find(END_THINK)
        if position < 0:
            return -1
        low, high = 0, len(response)  # the longest beginning whose text ends before the tag
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.decode(response[:middle])) <= position:
                low = middle
            else:
                high = middle - 1
        return low

    def _rendered(self, messages: list[dict[str, str]], prompted: bool) -> str:
        text: str = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompted)
        return text

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


def dialogue_of(rendering: str, tokenizer: Any, processor: Any = None) -> Dialogue:
    """Return a WordTokenizer for `compact` (`tokenizer` is ignored), else a ChatDialogue (which may raise RunError).

    processor   of a model that sees pictures (a VisionProcessor); renderings with pictures need one, or raise RunError
    """
    if has_pictures(rendering):
        return picture_dialogue(rendering, processor, ChatDialogue)
    return WordTokenizer() if rendering == "compact" else ChatDialogue(tokenizer)


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


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
    """Tokens of one context. `mask` and `log_probs` belong to `response` and are 0 where the policy did not write.

    images   (height, width, 3) of uint8, in the order of their places in prompt and response
    """

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    images: list[Any] = field(default_factory=list)

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
    images    how many of that sequence's images the policy had seen
    """

    sequence: int
    start: int
    length: int
    effect: Effect
    images: int = 0


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
        """Reset the environment and make the first prompt. A prompt that is too long loses its beginning.

        Raises RunError for one with pictures: the rest of a picture's tokens would not fit the picture.
        """
        opening, limit = self.start(seed, noise), self.limits.prompt_tokens
        images = list(pictures_of(self._observation))
        self.cut = len(opening) > limit
        if self.cut and images:
            raise RunError(
                f"the first prompt has {len(opening)} tokens with its pictures, and verl.prompt_tokens is {limit}",
                where="verl.prompt_tokens",
                fix=f"verl.prompt_tokens={len(opening)}, or smaller pictures",
            )
        self.sequences = [Sequence(opening[-limit:], images=images)]

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
        place = len(self.sequences) - 1, len(sequence.response), len(tokens)
        self.turns.append(Turn(*place, effect, len(sequence.images)))
        sequence.extend(tokens, [1] * len(tokens), log_probs)
        if len(self.turns) >= self.limits.turns:
            self.done = True
        if not self.done:
            self._observe()

    def _observe(self) -> None:
        """Append an observation. One that is too long ends the episode: a part of it could mislead the policy."""
        alone = self.limits.context == "current"
        tokens = self.new_prompt() if alone else self.later_tokens()
        images = list(pictures_of(self._observation))
        if len(tokens) > (self.limits.prompt_tokens if alone else self.limits.observation_tokens):
            self.done = self.cut = True
        elif alone:
            self.sequences.append(Sequence(tokens, images=images))
        else:
            self.sequences[-1].extend(tokens, [0] * len(tokens), [0.0] * len(tokens))
            self.sequences[-1].images += images

    def record(self) -> dict[str, Any]:
        """Return `turns` (the fields of each), the number of `sequences`, `success` and `cut`, JSON-able."""
        return {
            "turns": [vars(turn) | {"effect": turn.effect._asdict()} for turn in self.turns],
            "sequences": len(self.sequences),
            "success": self.success,
            "cut": self.cut,
        }
