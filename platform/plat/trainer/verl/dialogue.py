"""Prompts as token ids, for the tokenizer that verl loaded: whole words for stand-ins, a chat template for real models.

An episode is one sequence of tokens: first prompt, response, observation, response, and so on. What was said before is
never tokenised again, so the spans of responses and reasonings are exact. The assistant's turn always begins with
`<think>`, which is part of the prompt.
"""

from __future__ import annotations

from typing import Any, Protocol

from plat.errors import RunError
from plat_envs.vocabulary import END_THINK, THINK, WORDS

MARK = "plat-content"  # stands for any text where a template is asked what it writes around it


class Dialogue(Protocol):
    @property
    def stops(self) -> tuple[int, ...]:
        """Ids that end a response; the first one is put where a response ran out of tokens."""

    def opening(self, observation: str, instructions: str) -> list[int]:
        """Ids of the first prompt. `instructions`: a system message, or ""."""

    def following(self, observation: str) -> list[int]:
        """Ids of a later observation, which follow the id that ended the response before."""

    def text(self, response: list[int]) -> str:
        """The text of a response without the id that ended it."""

    def reasoning_tokens(self, response: list[int]) -> int:
        """How many leading tokens of a response lie before `</think>`; -1 when the think section never closes."""


class WordDialogue:
    """The words of `plat_envs.vocabulary`, one token each; prompts of the compact rendering end with `<think>`."""

    def __init__(self) -> None:
        self._ids = {word: number for number, word in enumerate(WORDS)}
        self.stops: tuple[int, ...] = (self._ids["<eos>"],)

    def opening(self, observation: str, instructions: str) -> list[int]:
        return self.following(observation)

    def following(self, observation: str) -> list[int]:
        return [self._ids[word] for word in observation.split(" ")]

    def text(self, response: list[int]) -> str:
        return " ".join([WORDS[number] for number in response])

    def reasoning_tokens(self, response: list[int]) -> int:
        closing = self._ids[END_THINK]
        return response.index(closing) if closing in response else -1


class ChatDialogue:
    """A Hugging Face tokenizer with a chat template. RunError for a template that changes what was said before."""

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

    def opening(self, observation: str, instructions: str) -> list[int]:
        messages = [{"role": "system", "content": instructions}] if instructions else []
        return self._ids(self._rendered([*messages, _user(observation)], prompted=True) + THINK)

    def following(self, observation: str) -> list[int]:
        whole = self._rendered([_user(MARK), _assistant(MARK + MARK), _user(observation)], prompted=True)
        if not whole.startswith(self._prefix):
            raise RunError(
                "the model's chat template changes earlier turns when a later one is added",
                where="model",
                mend="use a model whose template only appends, e.g. Qwen2.5 or Llama 3.2",
            )
        return self._ids(whole[len(self._prefix) :] + THINK)

    def text(self, response: list[int]) -> str:
        text: str = self._tokenizer.decode(response, skip_special_tokens=True)
        return text

    def reasoning_tokens(self, response: list[int]) -> int:
        position = self.text(response).find(END_THINK)
        if position < 0:
            return -1
        low, high = 0, len(response)  # the longest beginning whose text ends before the tag
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.text(response[:middle])) <= position:
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


def dialogue_of(rendering: str, tokenizer: Any) -> Dialogue:
    """How a run speaks: `compact` in words, `chat` with the model's own tokenizer."""
    return WordDialogue() if rendering == "compact" else ChatDialogue(tokenizer)


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}
